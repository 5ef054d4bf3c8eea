"""Definitions outlive the stack; every declared object is made, after what it needs."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from autoscaler.api import crds
from components.objects import custom_resources
from tests.components import configs, monitor, places

DEFINITION = ":CustomResourceDefinition"
OBJECTS: dict[str, Any] = {
    "nodePools": {"services": configs.SERVICES, "w": configs.pool(limits={"maxActiveInstances": 6}, drainSeconds=100)},
    "providerAccounts": {"racks": {"provider": "static"}},
    "instancePools": {"rack": {"providerAccount": "racks", "drainSeconds": 5}},
    "scopes": {"research": {"namespaces": ["lab"], "pools": [{"name": "w", "priority": 10}]}},
    "resourceFlavors": {"spot": {"nodeLabels": {"node.type": "worker"}}},
    "clusterQueues": {
        "team": {
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 20}]}],
                }
            ]
        }
    },
    "localQueues": {"lab": {"door": {"clusterQueue": "team"}}},
    "autoscaler": {"scope": "cluster"},
    "workerPools": {
        "lab-2": {
            "cloud": {
                "poolCapacity": 3,
                "queue": {"interval": "00:00:10", "source": {"endpoint": "https://web/queue"}},
                "workerSpec": {
                    "idleTimeoutMinutes": 3,
                    "podTemplate": {"source": {"name": "worker"}, "containerName": "worker"},
                },
            }
        }
    },
    "machines": {
        "general": {
            "nodePool": [{"name": "michiru", "mode": "ready", "machineType": [{"name": "medium"}]}],
            "machineTypes": [{"name": "medium", "spec": {"cpu": "6", "memory": "48Gi"}, "available": 4}],
        }
    },
}


def define(**fields: Any) -> monitor.World:
    def program() -> None:
        provider = k8s.Provider("upserting")
        plane = k8s.Provider("plane")
        custom_resources.Definitions("d", custom_resources.DefinitionsArgs(provider=provider, after=[plane], **fields))

    return monitor.run(program)


def declare(cluster: dict[str, Any] | None = None) -> monitor.World:
    loaded = configs.of_cluster(configs.cluster(**OBJECTS) if cluster is None else cluster)
    config = loaded.stack.config.clusters["bench"]

    def program() -> None:
        provider = k8s.Provider("plane")
        running = k8s.core.v1.ServiceAccount("runtime")
        groups = {"w": [k8s.core.v1.ServiceAccount("group-a"), k8s.core.v1.ServiceAccount("group-b")]}
        namespaces = custom_resources.Namespaces("n", custom_resources.NamespacesArgs(config=config, provider=provider))

        def named(scopes: Mapping[str, pulumi.Resource]) -> Mapping[str, pulumi.Resource]:
            namespaces.add_others(scopes)
            return namespaces.by_name

        args = custom_resources.CustomResourcesArgs(
            config=config,
            place=places.place(),
            provider=provider,
            grid=loaded.grids["bench"],
            groups_by_pool=groups,
            make_namespaces=named,
            after=[running],
        )
        custom_resources.CustomResources("o", args)

    return monitor.run(program)


def by_kind(world: monitor.World) -> dict[tuple[str, str], monitor.Made]:
    made = [one for one in world.made if one.inputs.get("apiVersion") == "sluice.dev/v1alpha1"]
    return {(one.inputs["kind"], one.inputs["metadata"]["name"]): one for one in made}


@pytest.mark.accept("S7")
def test_every_definition_is_made_as_the_api_says_on_the_provider_that_takes_over() -> None:
    world = define()
    made = world.of_type(DEFINITION)
    want = {manifest["metadata"]["name"]: manifest for manifest in crds.all_crds()}
    assert {one.inputs["metadata"]["name"]: one.inputs["spec"] for one in made} == {
        name: manifest["spec"] for name, manifest in want.items()
    }
    for one in made:
        metadata = one.inputs["metadata"]
        assert metadata["labels"] == want[metadata["name"]]["metadata"]["labels"]
        assert "annotations" not in metadata  # the provider itself takes over and applies with force
        assert "::upserting::" in one.provider
        assert one.waits_for(world.one(":kubernetes", "plane"))
        assert one.parent == world.one(":Definitions").urn


@pytest.mark.accept("S11", "S13")
@pytest.mark.parametrize("retain", [True, False])
def test_definitions_stay_unless_the_config_says_that_they_may_go(retain: bool) -> None:  # noqa: FBT001
    made = define(retain=retain).of_type(DEFINITION)
    assert {one.retain_on_delete for one in made} == {retain}


@pytest.mark.accept("W2", "S11")
@pytest.mark.accept("W1", part="crds.installWorkerPool")
def test_the_worker_pool_definition_can_be_left_to_somebody_else() -> None:
    made = define(install_worker_pool=False).of_type(DEFINITION)
    assert {one.inputs["spec"]["names"]["kind"] for one in made} == set(crds.names()) - {"WorkerPool"}


def test_everything_declared_is_made_once() -> None:
    want = {
        ("ProviderAccount", "aws"),
        ("ProviderAccount", "racks"),
        ("InstancePool", "services"),
        ("InstancePool", "w"),
        ("InstancePool", "rack"),
        ("Scope", "research"),
        ("ResourceFlavor", "spot"),
        ("ClusterQueue", "team"),
        ("LocalQueue", "door"),
        ("WorkerPool", "cloud"),
        ("Machine", "general"),
    }
    world = declare()
    made = by_kind(world)
    assert set(made) == want
    for one in made.values():
        assert one.parent == world.one(":CustomResources").urn
        assert "::plane::" in one.provider
        assert one.waits_for(world.one(":ServiceAccount", "runtime"))
        assert not one.retain_on_delete


@pytest.mark.accept("S4")
def test_a_limit_arrives_in_its_pool_alone() -> None:
    before, after = by_kind(declare()), by_kind(declare(configs.cluster(**_with_limit(7))))
    changed = {key for key, one in after.items() if one.inputs != before[key].inputs}
    assert changed == {("InstancePool", "w")}
    assert after["InstancePool", "w"].inputs["spec"]["limits"] == {"maxActiveInstances": 7}


def _with_limit(limit: int) -> dict[str, Any]:
    pool = configs.pool(limits={"maxActiveInstances": limit}, drainSeconds=100)
    return {**OBJECTS, "nodePools": {"services": configs.SERVICES, "w": pool}}


def test_a_pool_waits_for_its_account_and_groups_and_its_removal_may_take_as_long_as_it_drains() -> None:
    world = declare()
    made = by_kind(world)
    pool = made["InstancePool", "w"]
    assert pool.waits_for(world.one(":ServiceAccount", "group-a"))
    assert pool.waits_for(world.one(":ServiceAccount", "group-b"))
    assert pool.waits_for(made["ProviderAccount", "aws"])
    assert pool.timeouts == {"delete": "1000s"}
    rack = made["InstancePool", "rack"]
    assert rack.waits_for(made["ProviderAccount", "racks"])
    assert not rack.waits_for(world.one(":ServiceAccount", "group-a"))
    assert rack.inputs["spec"] == {"providerAccount": "racks", "drainSeconds": 5}
    assert rack.timeouts == {"delete": "905s"}


def test_what_refers_to_another_object_comes_after_it() -> None:
    world = declare()
    made = by_kind(world)
    for pool in ("services", "w", "rack"):
        assert made["Scope", "research"].waits_for(made["InstancePool", pool])
    assert world.one(":Namespace", "n.lab").waits_for(made["Scope", "research"])  # and goes before it: it uses it
    assert not world.one(":Namespace", "n.lab-2").waits_for(made["Scope", "research"])
    assert made["ClusterQueue", "team"].waits_for(made["ResourceFlavor", "spot"])
    assert made["LocalQueue", "door"].waits_for(made["ClusterQueue", "team"])
    assert made["LocalQueue", "door"].waits_for(world.one(":Namespace", "n.lab"))
    assert made["WorkerPool", "cloud"].waits_for(world.one(":Namespace", "n.lab-2"))


@pytest.mark.accept("M8", part="a Machine of a stack has its group label")
def test_specs_are_what_the_config_says() -> None:
    made = by_kind(declare())
    assert made["ProviderAccount", "aws"].inputs["spec"] == {"provider": "aws", "region": configs.REGION}
    assert made["Scope", "research"].inputs["spec"] == {"pools": [{"name": "w", "priority": 10}]}
    assert made["WorkerPool", "cloud"].inputs["spec"] == OBJECTS["workerPools"]["lab-2"]["cloud"]
    assert made["WorkerPool", "cloud"].inputs["metadata"]["namespace"] == "lab-2"
    assert made["Machine", "general"].inputs["spec"] == OBJECTS["machines"]["general"]
    assert made["Machine", "general"].inputs["metadata"]["labels"]["sluice.dev/machine-group"] == "general"


def test_an_account_called_aws_can_be_declared_otherwise() -> None:
    account = {"provider": "aws", "region": "us-east-1", "roleArn": "arn:aws:iam::123456789012:role/other"}
    made = by_kind(declare(configs.cluster(providerAccounts={"aws": account})))
    assert made["ProviderAccount", "aws"].inputs["spec"] == account


def test_queues_of_two_namespaces_never_share_a_name() -> None:
    queues = {"a": {"b-c": {"clusterQueue": "team"}}, "a-b": {"c": {"clusterQueue": "team"}}}
    world = declare(configs.cluster(**{**OBJECTS, "localQueues": queues}))
    assert len([one for one in world.made if one.inputs.get("kind") == "LocalQueue"]) == 2


@pytest.mark.accept("P19")
def test_namespaces_are_made_with_pod_security_and_scope_but_not_the_runtimes_own() -> None:
    cluster = configs.cluster(**{**OBJECTS, "namespaces": {"sluice-system": {}, "mine": {"labels": {"a": "b"}}}})
    world = declare(cluster)
    made = {one.inputs["metadata"]["name"]: one for one in world.of_type(":Namespace")}
    assert set(made) == {"lab", "lab-2", "mine"}
    assert made["lab"].inputs["metadata"]["labels"]["sluice.dev/scope"] == "research"
    assert made["mine"].inputs["metadata"]["labels"]["a"] == "b"
    for one in made.values():
        assert one.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
        assert one.parent == world.one(":Namespaces").urn


def test_a_namespace_that_is_there_is_labelled_and_nothing_else() -> None:
    world = declare(configs.existing(scopes={"research": {"namespaces": ["lab"]}}))
    assert world.of_type(":Namespace") == []
    want = {
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.36",
        "sluice.dev/scope": "research",
    }
    assert world.one(":NamespacePatch").inputs["metadata"] == {"name": "lab", "labels": want}
