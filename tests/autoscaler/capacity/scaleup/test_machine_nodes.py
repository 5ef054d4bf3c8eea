"""What capacity expects of a node that a machine group will have is what the machines controller then puts on it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys, resources
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.capacity.scaleup import machine_nodes, supply, templates
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from autoscaler.machines.nodes import node_views
from tests.autoscaler.capacity import machine_groups as made
from tests.autoscaler.capacity import seen

IN_POOL = {keys.INSTANCE_POOL: "workers"}
pytestmark = pytest.mark.accept("M15", part="labels and taints are predicted")

CUT = {"name": "cut", "spec": {"dependence": {"parent": made.TYPE, "availableRatio": 50}}, "available": 1}
GROUPS: dict[str, dict[str, MachineSpec]] = {
    "plain": {"desk": made.spec()},
    "tainted": {"desk": made.spec(nodes=(made.entry(taint=True),))},
    "maintained": {"desk": made.spec(nodes=(made.entry(mode="maintenance", taint=True),))},
    "named": {"desk": made.spec(nodes=(made.entry(name="n", mode="maintenance"), made.entry()))},
    "first of two": {"old": made.spec(), "young": made.spec(nodes=(made.entry(taint=True),))},
    "other nodes": {"desk": made.spec(nodes=(made.entry(nodeSelector={**IN_POOL, "disk": "fast"}),))},
    "first entry": {
        "desk": made.spec(
            made.machine_type(),
            made.machine_type("large"),
            nodes=(made.entry("large"), made.entry(nodeSelector={keys.ZONE: "a"})),
        )
    },
    "cut": {"desk": made.spec(made.machine_type(), CUT, nodes=(made.entry(taint=True),))},
    "cut elsewhere": {
        "desk": made.spec(made.machine_type(), CUT, nodes=(made.entry(), made.entry("cut", name="other")))
    },
    "too large": {"desk": made.spec(made.machine_type(cpu="3", hostLimit=50))},
    "parent too large": {"desk": made.spec(made.machine_type(cpu="3", hostLimit=50), CUT)},
    "just right": {"desk": made.spec(made.machine_type(cpu="1900m", hostLimit=50))},
    "without GPUs": {
        "desk": made.spec(
            made.machine_type(hostLimit=100, gpu={"type": "nvidia.com/gpu", "num": 1, "family": "ampere"})
        )
    },
    "none": {},
}


def marked(machines: Mapping[str, MachineSpec], node: objects.Node) -> machine_nodes.Marks:
    """Return what the machines controller adds to a node."""
    stored = [_stored(name, spec, at) for at, (name, spec) in enumerate(machines.items())]
    view = node_views.look(node_views.Machines.of(stored), "n", node, needed=frozenset(), now=seen.NOW)
    patch: dict[str, Any] = (view.marks.patch if view.marks else None) or {}
    added = patch.get("spec", {}).get("taints") or ()
    return machine_nodes.Marks(
        labels=patch.get("metadata", {}).get("labels") or {},
        taints=tuple(objects.NodeTaint(each["key"], each["value"], each["effect"]) for each in added),
    )


def _stored(name: str, spec: MachineSpec, at: int) -> objects.Custom[resources.Machine]:
    said = {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": f"2025-01-01T00:00:{at:02}Z"}
    body = {"metadata": said, "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return objects.custom(resources.Machine)(msgspec.json.encode(body))


@pytest.mark.parametrize("name", GROUPS)
def test_a_node_that_is_there_is_expected_to_get_what_it_will_get(name: str) -> None:
    node = seen.node("n", labels=IN_POOL)
    want = marked(GROUPS[name], node)
    found = machine_nodes.predicted(GROUPS[name], node.meta.labels, node.allocatable, name="n")
    if not want.labels:  # a node that takes no guests gets no pods of ours, whatever its taints
        assert found == machine_nodes.NONE
    else:
        assert (found.labels, set(found.taints)) == (want.labels, set(want.taints))


def test_some_of_these_nodes_take_guests() -> None:
    node = seen.node("n", labels=IN_POOL)
    taking = {name for name, machines in GROUPS.items() if marked(machines, node).labels}
    want = {"plain", "tainted", "first of two", "first entry", "cut", "cut elsewhere", "parent too large", "just right"}
    assert taking == want


def test_the_next_node_of_a_group_has_them_too() -> None:
    node = cloud.NodeTemplate(labels=IN_POOL)
    snapshot = seen.snapshot(machines=GROUPS["tainted"])
    template = templates.of(snapshot, seen.group(node=node))
    assert template is not None
    assert template.labels[keys.machine_label(made.TYPE)] == "desk"
    assert template.labels[keys.NODE_POOL] == keys.NODE_POOL_READY
    assert {taint.key for taint in template.taints} == {keys.machine_label(made.TYPE), keys.NODE_POOL}


def test_room_on_a_node_that_waits_for_its_marks_is_room_for_machines() -> None:
    (room,) = supply.rooms(seen.snapshot(machines=GROUPS["tainted"], nodes=[seen.node("n", labels=IN_POOL)]))
    assert room.labels[keys.machine_label(made.TYPE)] == "desk"
    assert {taint.key for taint in room.taints} == {keys.machine_label(made.TYPE), keys.NODE_POOL}


def test_a_node_with_marks_is_taken_as_it_is() -> None:
    labels = {**IN_POOL, keys.NODE_POOL: keys.NODE_POOL_READY}
    (room,) = supply.rooms(seen.snapshot(machines=GROUPS["tainted"], nodes=[seen.node("n", labels=labels)]))
    assert keys.machine_label(made.TYPE) not in room.labels
    assert room.taints == ()
