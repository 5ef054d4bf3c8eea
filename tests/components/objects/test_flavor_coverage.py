"""A flavor that no node of the stack's pools could serve is worth a warning, unless others may have such nodes."""

from typing import Any

import pytest

from components import loading
from tests.components import configs

WARNING = "cluster bench: flavor f: no node pool has nodes with {}; jobs admitted to it wait until others have"


def told(of: loading.Loaded) -> tuple[str, ...]:
    """Return what is worth a look, but for the examples that tests use."""
    return tuple(warning for warning in of.warnings if warning not in of.examples)


def warnings(labels: dict[str, str], **fields: Any) -> tuple[str, ...]:
    pools = {"services": configs.SERVICES, "work": configs.pool(tags=["disk=100"], zones=["eu-west-1a"])}
    given = {"nodePools": pools, "resourceFlavors": {"f": {"nodeLabels": labels}}, **fields}
    return told(configs.of_cluster(configs.cluster(**given)))


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
    assert warnings(labels) == ()


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
    assert warnings(labels) == (WARNING.format(want),)


def test_nodes_of_others_may_have_what_their_pools_selector_does_not_exclude() -> None:
    assert warnings({"kind": "fast"}, **static(place="rack")) == ()
    assert warnings({"kind": "fast"}, **static(kind="fast")) == ()
    assert warnings({"kind": "fast"}, **static(kind="slow")) == (WARNING.format("kind=fast"),)


def test_a_cluster_without_node_pools_knows_nothing_of_its_nodes() -> None:
    there = configs.existing(
        existing={}, network=None, nodeImage=None, resourceFlavors={"f": {"nodeLabels": {"a": "b"}}}
    )
    assert told(configs.of_cluster(there)) == ()


def test_a_quota_that_is_nearly_used_up_is_told_beside_flavors() -> None:
    given = configs.cluster(resourceFlavors={"f": {"nodeLabels": {"kind": "fast"}}})
    found = told(configs.load(configs.values(asgQuota=3, clusters={"bench": given})))
    assert found == ("3 of 3 Auto Scaling groups (sluice:asgQuota) are used", WARNING.format("kind=fast"))
