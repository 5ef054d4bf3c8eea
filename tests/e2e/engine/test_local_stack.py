"""The stack for one computer lives through all that happens to a stack, in the real engine, on a real cluster."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.api import crds, version
from tests.e2e.engine import stacks
from tools.engine.engine import Engine, EngineError
from tools.engine.layout import Surroundings
from tools.local.components import Options
from tools.local.plane import Plane
from tools.stack import replicas

GROUP = "aws:autoscaling/group:Group"
POOL = "kubernetes:sluice.dev/v1alpha1:InstancePool"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
WORKERS = "local.workers.eu-west-1a.m5.xlarge"


@pytest.mark.accept("S1", "S2", "S4", "S7", "G1", "G2", "P19")
def test_a_stack_is_made_changed_and_destroyed(start_plane: Callable[[Options], Plane], tmp_path: Path) -> None:
    plane = start_plane(Options())
    engine = Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))
    aws = stacks.Aws(plane=plane)
    empty = stacks.inventory(plane)
    document = stacks.local()
    pools = document["config"]["sluice:clusters"]["local"]["nodePools"]

    # A resource that fails half-way is told, and the next `up` goes on from there.
    engine.fail_once(type="*:Deployment", name="local.runtime")
    with pytest.raises(EngineError, match=r"local\.runtime"):
        engine.up("local")
    assert not stacks.objects(plane, "instancepools")  # they come after the runtime
    engine.up("local")
    _check_order(stacks.created(engine))
    _check_groups(aws)
    _check_cluster(plane)

    # The runtime starts exactly as its Deployment says, with its own account's token.
    assert len(replicas.start(plane, replicas.deployment(plane))) == 2

    # Nothing changed: nothing happens. Somebody moved desired: it stays, with and without a refresh. (The runtime is
    # stopped before: it would take instances away that nobody needs.)
    plane.stop_guests()
    aws.client("autoscaling").set_desired_capacity(AutoScalingGroupName=WORKERS, DesiredCapacity=2)
    assert engine.up("local").changes == ()
    assert engine.refresh("local").changes == ()
    assert engine.up("local").changes == ()
    assert aws.groups()[WORKERS]["DesiredCapacity"] == 2
    sent = [entry for entry in engine.journal() if entry.type == GROUP and entry.method != "read"]
    assert sent
    assert not any("desiredCapacity" in entry.changed or "Desired" in " ".join(entry.calls) for entry in sent)

    # One limit is one update, in place.
    pools["workers"]["limits"]["maxActiveInstances"] = 9
    engine.write_stack("local", document)
    (change,) = engine.up("local").changes
    assert (change.type, change.operation, change.changed) == (POOL, "update", ("spec.limits.maxActiveInstances",))
    assert stacks.objects(plane, "instancepools")["workers"]["spec"]["limits"]["maxActiveInstances"] == 9

    # A pool more is additions only, a pool less is removals only.
    pools["more"] = {"nodeType": "worker", "instanceTypes": ["r5.large"], "zones": ["eu-west-1b"]}
    engine.write_stack("local", document)
    added = engine.up("local").changes
    assert {step.operation for step in added} == {"create"}
    assert all("more" in step.name for step in added)
    assert {step.type for step in added} >= {GROUP, TEMPLATE, POOL}
    del pools["more"]
    engine.write_stack("local", document)
    removed = engine.up("local").changes
    assert {step.operation for step in removed} == {"delete"}
    assert {step.urn for step in removed} == {step.urn for step in added}
    assert aws.groups()[WORKERS]["DesiredCapacity"] == 2

    # Leaving takes everything but the definitions, the instances that run included. The runtime must be there for it.
    replicas.start(plane, replicas.deployment(plane))
    engine.destroy("local")
    plane.stop_guests()
    stacks.only_left(plane, empty | stacks.records(plane))
    assert aws.everything() == []
    assert stacks.definitions(plane) == {one["metadata"]["name"] for one in crds.all_crds()}


def _check_order(order: list[str]) -> None:
    want = [
        "CustomResourceDefinition local.definitions",
        "Deployment local.runtime",
        "ValidatingAdmissionPolicy ",
        "ProviderAccount ",
        "InstancePool ",
        "Scope ",
    ]
    assert all(stacks.before(order, first, then) for first, then in itertools.pairwise(want))
    assert stacks.before(order, f"{GROUP} local.pool.services", "CustomResourceDefinition local.definitions")
    assert stacks.before(order, GROUP, "InstancePool ")


def _check_groups(aws: stacks.Aws) -> None:
    groups = aws.groups()
    zones = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
    want = {f"local.services.{zone}.m5.large" for zone in zones}
    want |= {f"local.workers.{zone}.{kind}" for zone in zones for kind in ("m5.xlarge", "c5.2xlarge")}
    want |= {f"local.gpu.{zone}.p3.8xlarge" for zone in zones[:2]}
    assert set(groups) == want
    for name, group in groups.items():
        _, pool, zone, kind = name.split(".", 3)
        tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
        assert group["AvailabilityZones"] == [zone]
        assert group["NewInstancesProtectedFromScaleIn"]
        assert group["DesiredCapacity"] == group["MinSize"] == (1 if pool == "services" else 0)
        assert tags["k8s.io/cluster-autoscaler/enabled"] == "true"
        assert tags["kubernetes.io/cluster/local"] == "owned"
        label = "k8s.io/cluster-autoscaler/node-template/label"
        assert tags[f"{label}/node.type"] == ("k8s-services" if pool == "services" else "worker")
        assert tags[f"{label}/topology.kubernetes.io/zone"] == zone
        assert tags[f"{label}/failure-domain.beta.kubernetes.io/zone"] == zone
        assert tags[f"{label}/node.kubernetes.io/instance-type"] == kind
        assert ("k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu" in tags) == (pool == "gpu")
    templates = aws.templates()
    assert set(templates) == want
    for template in templates.values():
        metadata = template["MetadataOptions"]
        assert (metadata["HttpTokens"], metadata["HttpPutResponseHopLimit"]) == ("required", 1)


def _check_cluster(plane: Plane) -> None:
    listed = plane.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    ours = [one for one in listed if one["metadata"]["name"].endswith(".sluice.dev")]
    deployment = replicas.deployment(plane)
    stamps = {one["metadata"]["labels"]["sluice.dev/version"] for one in (*ours, deployment)}
    assert stamps == {version.VERSION}
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"node.type": "k8s-services"}
    labels = plane.api.get("/api/v1/namespaces/research")["metadata"]["labels"]
    assert labels["sluice.dev/scope"] == "research"
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    limits = stacks.objects(plane, "instancepools")["gpu"]["spec"]["limits"]
    assert limits == {"maxActiveInstances": 4, "targetMaxSecondsPerMonth": 360000, "maxIdleSeconds": 60}
