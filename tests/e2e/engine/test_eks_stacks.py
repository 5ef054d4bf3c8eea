"""New clusters of EKS, whole, in the real engine: a stand-in cluster is a real API server."""

import base64
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import waiting
from tests.e2e.engine import stacks
from tools.engine.engine import Engine
from tools.engine.layout import Surroundings
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

SECRET = json.dumps({"auths": {"registry.invalid": {"auth": "cHVsbC1zZWNyZXQ="}}})
WITHOUT_AWS = Options(components=USUAL - {Component.MOTO, Component.NODE_REGISTRAR})
CORE = "aws:eks/cluster:Cluster"


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plane, Plane, Plane]]:
    """Three clusters; the first one's moto is AWS for all."""
    with (
        Plane.start(tmp_path_factory.mktemp("one"), Options()) as one,
        Plane.start(tmp_path_factory.mktemp("two"), WITHOUT_AWS) as two,
        Plane.start(tmp_path_factory.mktemp("three"), WITHOUT_AWS) as three,
    ):
        for plane in (two, three):
            _add_services_node(plane)
        yield one, two, three


def _add_services_node(plane: Plane) -> None:
    """A node for the services of a cluster whose instances no registrar turns into nodes."""
    node = {
        "metadata": {
            "name": "services",
            "labels": {"node.type": "k8s-services", "topology.kubernetes.io/zone": "eu-west-1a"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }
    plane.api.create("/api/v1/nodes", node)
    waiting.eventually(lambda: "taints" not in plane.api.get("/api/v1/nodes/services")["spec"])


def clusters() -> dict[str, Any]:
    worker = {"nodeType": "worker", "limits": {"maxActiveInstances": 3}}
    return {
        "native": stacks.eks(
            nodePools={
                "gpu": {**worker, "instanceTypes": ["p3.2xlarge"], "limits": {"targetMaxCostPerMonth": 500}},
                "arm": {**worker, "instanceTypes": ["m6g.large"], "zones": ["eu-west-1a"], "capacityType": "spot"},
                "debian": {
                    **worker,
                    "instanceTypes": ["m5.large"],
                    "zones": ["eu-west-1b"],
                    "image": {"pipeline": "deb"},
                },
            },
            access={"admins": [f"arn:aws:iam::{stacks.ACCOUNT}:role/platform"]},
            autoscaler={"imagePullSecrets": [{"name": "pull", "value": "pull"}], "scope": "cluster"},
            scopes={"research": {"namespaces": ["research"], "pools": [{"name": "gpu", "priority": 1}]}},
        ),
        "upstream": stacks.eks(
            network={"cidr": "10.48.0.0/16", "natGateways": "per-zone"},
            autoscaler={"nodeScaler": "cluster-autoscaler"},
        ),
    }


@pytest.mark.accept("S1", "S2", "S9", "S10", "G14", "G18", "P18", "P19", "P23")
def test_two_stacks_with_three_clusters_share_an_account(planes: tuple[Plane, Plane, Plane], tmp_path: Path) -> None:
    one, two, three = planes
    access = {"one-native": one, "one-upstream": two, "two-native": three}
    surroundings = Surroundings(
        environment=one.environment, clusters={name: plane.api.access for name, plane in access.items()}
    )
    engine = Engine.open(tmp_path / "engine", surroundings)
    aws = stacks.Aws(plane=one)
    empty = [stacks.inventory(plane) for plane in planes]
    images = {"deb": {"baseImageId": "ami-0123456789abcdef0", "enableBackends": ["unshare", "incus"]}}
    whole = stacks.document(clusters(), machineImages=images, alarms={"emails": ["money@example.com"]})
    engine.write_stack("one", whole)
    engine.set_secret("one", "sluice:secrets.pull", base64.b64encode(SECRET.encode()).decode())

    made = engine.up("one")
    _check_order(stacks.created(engine))
    _check_instances(aws)
    _check_services(one, two)
    _check_recorded(engine)
    _check_secrecy(engine, aws, one, made.output)
    _check_kubeconfig(engine, one)
    assert engine.up("one").changes == ()

    # A second stack in the same account takes nothing of the first one, not even with the same keys.
    before = aws.groups()
    engine.write_stack("two", stacks.document({"native": stacks.eks()}))
    engine.up("two")
    assert set(aws.groups()) - set(before) == {f"two-native.services.{stacks.REGION}{zone}.m5.large" for zone in "abc"}
    assert engine.up("one").changes == ()
    engine.destroy("two")
    assert set(aws.groups()) == set(before)

    engine.destroy("one")
    assert aws.everything() == []
    for plane, before_us in zip(planes, empty, strict=True):
        stacks.only_left(plane, before_us)
    assert not [path for path in engine.layout.recorded.rglob("*") if path.is_file()]


def _check_order(order: list[str]) -> None:
    """The order of design section 4, in each cluster."""
    for key in ("native", "upstream"):
        mine = [one for one in order if f" {key}" in one]
        steps = [
            f"{CORE} {key}",
            f"aws:eks/addon:Addon {key}.networking",
            f"aws:autoscaling/group:Group {key}.pool.services",
            f"aws:eks/addon:Addon {key}.services",
            f":CustomResourceDefinition {key}.definitions",
            f":Deployment {key}.runtime",
            f":ValidatingAdmissionPolicy {key}",
            f":InstancePool {key}",
        ]
        for first, then in itertools.pairwise(steps):
            assert stacks.before(mine, first, then), (first, then)
        assert stacks.before(mine, "aws:eks/accessEntry:AccessEntry", "aws:autoscaling/group:Group")


def _check_instances(aws: stacks.Aws) -> None:
    groups, templates = aws.groups(), aws.templates()
    assert {name.split(".")[0] for name in groups} == {"one-native", "one-upstream"}
    assert all(len(group["AvailabilityZones"]) == 1 for group in groups.values())
    for name, template in templates.items():
        assert template["MetadataOptions"]["HttpTokens"] == "required"
        assert template["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        text = base64.b64decode(template["UserData"]).decode()
        assert "node.type=" in text, name
        tags = {spec["ResourceType"]: spec["Tags"] for spec in template["TagSpecifications"]}
        assert {"instance", "volume"} <= set(tags)
        assert {"Key": "sluice.dev/instance-pool", "Value": name.split(".")[1]} in tags["volume"]


def _check_recorded(engine: Engine) -> None:
    """What moto does not play: add-ons on the services' nodes, the image pipeline, the budget."""
    addons = stacks.inputs(engine, "one", "aws:eks/addon:Addon")
    for name, addon in addons.items():
        if name.endswith(("coredns", "aws-ebs-csi-driver")):
            assert "k8s-services" in addon["configurationValues"], name
    (budget,) = stacks.inputs(engine, "one", "aws:budgets/budget:Budget").values()
    assert budget["limitAmount"] in {"500", "500.0"}
    assert budget["timeUnit"] == "MONTHLY"
    assert {note["subscriberEmailAddresses"][0] for note in budget["notifications"]} == {"money@example.com"}
    (recipe,) = stacks.inputs(engine, "one", "aws:imagebuilder/component:Component").values()
    assert "uidmap" in recipe["data"]
    assert "incus" in recipe["data"]
    assert "autopkgtest" in recipe["data"]
    assert stacks.inputs(engine, "one", "aws:imagebuilder/imagePipeline:ImagePipeline")


def _check_services(one: Plane, two: Plane) -> None:
    for plane in (one, two):
        for deployment in plane.api.get("/apis/apps/v1/deployments")["items"]:
            pod = deployment["spec"]["template"]["spec"]
            assert pod["nodeSelector"]["node.type"] == "k8s-services", deployment["metadata"]["name"]
    names = {
        item["metadata"]["name"] for item in two.api.get("/apis/apps/v1/namespaces/kube-system/deployments")["items"]
    }
    assert "cluster-autoscaler" in names
    upstream = two.api.get("/apis/apps/v1/namespaces/kube-system/deployments/cluster-autoscaler")
    (container,) = upstream["spec"]["template"]["spec"]["containers"]
    flags = [*container.get("command", ()), *container.get("args", ())]
    tags = "k8s.io/cluster-autoscaler/enabled,kubernetes.io/cluster/one-upstream"
    assert f"--node-group-auto-discovery=asg:tag={tags}" in flags
    assert "--balance-similar-node-groups" in " ".join(flags)
    assert "--expander=least-waste" in flags
    assert ":v1.36." in container["image"]
    runtime = two.api.get("/apis/apps/v1/namespaces/sluice-system/deployments/sluice")
    (container,) = runtime["spec"]["template"]["spec"]["containers"]
    assert {"name": "SLUICE_CONTROLLERS", "value": "workers,admission,machines"} in container["env"]


def _check_secrecy(engine: Engine, aws: stacks.Aws, plane: Plane, output: str) -> None:
    """The pull secret arrives in the cluster, and in plain text nowhere else."""
    kept = plane.api.get("/api/v1/namespaces/sluice-system/secrets/pull")
    assert base64.b64decode(kept["data"][".dockerconfigjson"]).decode() == SECRET
    state = json.dumps(engine.state("one"))
    outputs = json.dumps(engine.outputs("one"))
    journal = engine.layout.journal.read_text()
    texts = {name: base64.b64decode(one["UserData"]).decode() for name, one in aws.templates().items()}
    hidden = ("cHVsbC1zZWNyZXQ", base64.b64encode(SECRET.encode()).decode())
    for where in (state, outputs, journal, output, *texts.values()):
        assert not any(secret in where for secret in hidden)


def _check_kubeconfig(engine: Engine, plane: Plane) -> None:
    """The exported command gives a kubeconfig with an exec plugin, which works."""
    exported = engine.outputs("one")["clusters"]["native"]
    assert exported["name"] == "one-native"
    assert exported["kubeconfigCommand"].startswith("aws eks update-kubeconfig --name one-native")
    assert len(exported["autoScalingGroups"]) == 3 + 2 + 1 + 1
    token = subprocess.run(
        ["aws", "eks", "get-token", "--cluster-name", "one-native", "--region", stacks.REGION, "--output", "json"],
        env=engine.environment | {"HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(token.stdout)["kind"] == "ExecCredential"
    assert plane.api.get("/api/v1/namespaces/sluice-system")
