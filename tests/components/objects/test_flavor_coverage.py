"""A flavor that no node of the stack's pools could serve is worth a warning, unless others may have such nodes."""

from typing import Any

import pytest

from components import loading
from tests.components import configs

WARNING = "cluster bench: flavor f: no node pool has nodes with {}; jobs admitted to it wait until others have"


def loaded(labels: dict[str, str], **fields: Any) -> loading.Loaded:
    pools = {"services": configs.SERVICES, "work": configs.pool(tags=["disk=100"], zones=["eu-west-1a"])}
    given = {"nodePools": pools, "resourceFlavors": {"f": {"nodeLabels": labels}}, **fields}
    return configs.of_cluster(configs.cluster(**given))


def static(**selector: str) -> dict[str, Any]:
    """Nodes that others bring."""
    account = {"providerAccounts": {"rack": {"provider": "static"}}}
    return {
        **account,
        "instancePools": {"own": {"providerAccount": "rack", "specifications": {"nodeSelector": selector}}},
    }


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"node.type": "worker"},
        {"sluice.dev/instance-pool": "work", "tag.sluice.dev/disk": "100"},
        {"topology.kubernetes.io/zone": "eu-west-1a", "node.type": "worker"},
        {"node.kubernetes.io/instance-type": "c5.18xlarge", "kubernetes.io/arch": "amd64"},
        {"kubernetes.io/os": "linux", "topology.kubernetes.io/region": "eu-west-1"},
    ],
)
def test_a_flavor_that_some_group_serves_is_fine(labels: dict[str, str]) -> None:
    assert loaded(labels).warnings == ()


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({"node.type": "wroker"}, "node.type=wroker"),
        ({"kind": "fast", "kubernetes.io/os": "linux"}, "kind=fast"),
        # Each is there, but no group has both.
        (
            {"topology.kubernetes.io/zone": "eu-west-1b", "node.type": "worker"},
            "node.type=worker, topology.kubernetes.io/zone=eu-west-1b",
        ),
    ],
)
def test_a_flavor_that_no_group_serves_is_told(labels: dict[str, str], want: str) -> None:
    assert loaded(labels).warnings == (WARNING.format(want),)


def test_nodes_of_others_may_have_what_their_pools_selector_does_not_exclude() -> None:
    assert loaded({"kind": "fast"}, **static(place="rack")).warnings == ()
    assert loaded({"kind": "fast"}, **static(kind="fast")).warnings == ()
    assert loaded({"kind": "fast"}, **static(kind="slow")).warnings == (WARNING.format("kind=fast"),)


def test_a_cluster_without_node_pools_knows_nothing_of_its_nodes() -> None:
    there = configs.existing(
        existing={}, network=None, nodeImage=None, resourceFlavors={"f": {"nodeLabels": {"a": "b"}}}
    )
    assert configs.of_cluster(there).warnings == ()


def test_a_quota_that_is_nearly_used_up_is_told_beside_flavors() -> None:
    given = configs.cluster(resourceFlavors={"f": {"nodeLabels": {"kind": "fast"}}})
    told = configs.load(configs.values(asgQuota=3, clusters={"bench": given})).warnings
    assert told == ("3 of 3 Auto Scaling groups (sluice:asgQuota) are used", WARNING.format("kind=fast"))
