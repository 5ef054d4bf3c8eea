"""The MachineNodePool of a Machine: owned by it, its nodes copied, all its types in stock."""

from typing import Any

import msgspec
import pytest

from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import MachineNodePool
from autoscaler.kube import objects
from autoscaler.machines.objects import node_pools
from autoscaler.machines.objects.owned import Create, Patch
from autoscaler.simulation.cluster import merging
from tests.autoscaler.machines.node_builders import entry, machine, machine_type

pytestmark = pytest.mark.accept("M11", part="the manifest")
MACHINE = machine(
    "general",
    entry("michiru", taint=True),
    entry(None, "large", mode="maintenance", nodeSelector={"pool": "gpu"}),
    types=[machine_type("large"), machine_type("medium"), machine_type("small")],
)
OLD_OWNER = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Machine", "name": "general", "uid": "old"}


def stored(manifest: Manifest, **changes: Any) -> objects.Custom[MachineNodePool]:
    there = merging.merge(manifest, {"metadata": {"uid": "u", "resourceVersion": "2"}})
    return objects.custom(MachineNodePool)(msgspec.json.encode(merging.merge(there, changes)))


def test_it_is_owned_with_the_spec_copied_and_all_types_in_stock() -> None:
    made = node_pools.difference(MACHINE, None)
    assert isinstance(made, Create)
    metadata = made.manifest["metadata"]
    assert (metadata["name"], metadata["labels"]) == ("general-node-pool", {"sluice.dev/machine-group": "general"})
    (owner,) = metadata["ownerReferences"]
    assert owner == {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Machine",
        "name": "general",
        "uid": "u-general",
        "controller": True,
    }
    assert made.manifest["spec"] == {
        "machineGroup": "general",
        "nodePool": [
            {"name": "michiru", "mode": "ready", "taint": True, "machineType": [{"name": "medium"}]},
            {
                "nodeSelector": {"pool": "gpu"},
                "mode": "maintenance",
                "taint": False,
                "machineType": [{"name": "large"}],
            },
        ],
        "machineTypeStock": [{"name": "large"}, {"name": "medium"}, {"name": "small"}],
    }


@pytest.mark.accept("M13", part="MachineNodePools")
def test_one_that_says_all_that_is_left_alone() -> None:
    assert node_pools.difference(MACHINE, stored(node_pools.wanted(MACHINE))) is None
    short = node_pools.wanted(MACHINE)
    short["spec"]["nodePool"][1].pop("taint")  # as a server without that default would store it
    assert node_pools.difference(MACHINE, stored(short)) is None


@pytest.mark.accept("M13", part="MachineNodePools")
@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"spec": {"nodePool": []}}, "spec"),
        ({"spec": {"machineTypeStock": [{"name": "large"}]}}, "spec"),
        ({"metadata": {"labels": None}}, "metadata"),
        ({"metadata": {"ownerReferences": None}}, "metadata"),
        ({"metadata": {"ownerReferences": [OLD_OWNER]}}, "metadata"),
    ],
    ids=str,
)
def test_what_people_changed_is_undone(changes: dict[str, Any], want: str) -> None:
    wanted = node_pools.wanted(MACHINE)
    found = stored(wanted, **changes)
    patch = node_pools.difference(MACHINE, found)
    assert isinstance(patch, Patch)
    assert list(patch.changes) == [want]
    assert node_pools.difference(MACHINE, stored(merging.merge(merging.merge(wanted, changes), patch.changes))) is None


def test_one_that_is_going_is_made_again_when_it_is_gone() -> None:
    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodePool": []}}
    assert node_pools.difference(MACHINE, stored(node_pools.wanted(MACHINE), **going)) is None
