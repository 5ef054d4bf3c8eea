"""The node that an instance becomes, and which nodes come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.cloud import catalogue
from tests.tools.local import builders
from tools.local.registrar import registrar_nodes

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
REGION = "eu-west-1"


def name(identifier: str) -> str:
    return registrar_nodes.node_name(identifier, REGION)


def plan(
    instances: list[registrar_nodes.Instance], nodes: list[str], *, now: float = 100.0, boot_seconds: float = 0.0
) -> registrar_nodes.Plan:
    return registrar_nodes.plan(instances, nodes, region=REGION, now=now, boot_seconds=boot_seconds)


def test_tags_become_labels_taints_and_resources() -> None:
    tags = {
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"{TEMPLATE}/label/node.type": "bai-worker",
        f"{TEMPLATE}/label/tag.sluice.dev/fast": "",
        f"{TEMPLATE}/taint/dedicated": "gpu:NoSchedule",
        f"{TEMPLATE}/taint/bare": ":PreferNoSchedule",
        f"{TEMPLATE}/resources/nvidia.com/gpu": "4",
        "cost-centre": "research",
    }
    group = builders.group(tags)
    assert group.labels == {"node.type": "bai-worker", "tag.sluice.dev/fast": ""}
    assert group.taints == (
        registrar_nodes.Taint(key="bare", value="", effect="PreferNoSchedule"),
        registrar_nodes.Taint(key="dedicated", value="gpu", effect="NoSchedule"),
    )
    assert group.resources == {"nvidia.com/gpu": "4"}


def test_a_node_is_what_the_kubelet_of_its_instance_would_register() -> None:
    tags = {f"{TEMPLATE}/label/node.type": "bai-worker", f"{TEMPLATE}/taint/dedicated": "gpu:NoSchedule"}
    node = registrar_nodes.manifest(builders.instance("i-7", of=builders.group(tags)), region=REGION)
    assert node["metadata"]["name"] == "i-7.eu-west-1.compute.internal"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["metadata"]["labels"] == {
        "node.type": "bai-worker",
        "kubernetes.io/hostname": "i-7.eu-west-1.compute.internal",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m5.large",
        "beta.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": "eu-west-1b",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1b",
        "local.sluice.dev/node-registrar": "true",
    }
    assert node["spec"] == {
        "providerID": "aws:///eu-west-1b/i-7",
        "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
    }


def test_allocatable_is_capacity_less_what_eks_reserves() -> None:
    want = {"cpu": "2", "memory": "8388608Ki", "pods": "29", "ephemeral-storage": "20971520Ki"}
    assert registrar_nodes.capacity(builders.M5_LARGE) == want
    # An m5.large on EKS: 1930m, and 92.5 % of 8192 - (255 + 11 * 29) - 100 MiB.
    want |= {"cpu": "1930m", "memory": f"{6903 * 1024}Ki", "ephemeral-storage": f"{17 * 1024**2}Ki"}
    assert registrar_nodes.allocatable(builders.M5_LARGE) == want


def test_gpus_are_capacity() -> None:
    assert registrar_nodes.capacity(catalogue.bundled()["p3.16xlarge"])["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in registrar_nodes.capacity(builders.M5_LARGE)


def test_resource_tags_override_the_type_in_capacity_and_allocatable() -> None:
    tags = {f"{TEMPLATE}/resources/cpu": "7", f"{TEMPLATE}/resources/example.com/fpga": "2"}
    status = registrar_nodes.manifest(builders.instance(of=builders.group(tags)), region=REGION)["status"]
    for amounts in (status["capacity"], status["allocatable"]):
        assert (amounts["cpu"], amounts["example.com/fpga"]) == ("7", "2")


def test_a_group_has_exactly_one_zone() -> None:
    assert registrar_nodes.single_zone(["eu-west-1c"]) == "eu-west-1c"
    for zones in ([], ["eu-west-1a", "eu-west-1b"]):
        with pytest.raises(ValueError, match=f"one zone, not {len(zones)}"):
            registrar_nodes.single_zone(zones)


def test_an_instance_gets_its_node_when_it_has_booted() -> None:
    booting = builders.instance("i-1", launched_at=95.0)
    assert plan([booting], [], boot_seconds=10) == registrar_nodes.Plan(create=(), delete=(), wake_at=105.0)
    assert plan([booting], [], boot_seconds=10, now=105.0).create == (booting,)
    assert plan([booting], [name("i-1")], boot_seconds=10, now=105.0).wake_at is None


def test_a_node_without_instance_goes() -> None:
    assert plan([builders.instance("i-1")], [name("i-1"), name("i-2")]).delete == (name("i-2"),)


@pytest.mark.parametrize(("first_seen", "want"), [(50.3, 50.3), (50.0, 50.0), (90.0, 51.0)])
def test_a_launch_reported_in_whole_seconds_is_never_taken_for_earlier_than_it_was(
    first_seen: float, want: float
) -> None:
    assert registrar_nodes.launch_moment(50.0, first_seen=first_seen) == want


def test_a_node_leads_back_to_its_instance() -> None:
    assert registrar_nodes.instance_of(name("i-0abc")) == "i-0abc"


identifiers = st.sets(st.integers(0, 30).map("i-{}".format))


@given(alive=identifiers, present=identifiers, launched=st.floats(0, 200), boot_seconds=st.floats(0, 60))
def test_a_plan_carried_out_leaves_only_booting_instances_without_node(
    alive: set[str], present: set[str], launched: float, boot_seconds: float
) -> None:
    instances = [builders.instance(identifier, launched_at=launched) for identifier in sorted(alive)]
    nodes = {name(identifier) for identifier in present}
    made = plan(instances, sorted(nodes), boot_seconds=boot_seconds)

    after = (nodes | {name(instance.identifier) for instance in made.create}) - set(made.delete)

    missing = {name(identifier) for identifier in alive} - after
    assert after <= {name(identifier) for identifier in alive}
    assert not missing or launched + boot_seconds > 100.0
    assert made.wake_at == (launched + boot_seconds if missing else None)
    again = plan(instances, sorted(after), boot_seconds=boot_seconds)
    assert (again.create, again.delete) == ((), ())
