"""Traces of ours: all of them are found and taken off, and nothing else is touched."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.kube import owned_marks
from autoscaler.simulation.cluster import merging

THEIRS = ("example.com/theirs", "node.kubernetes.io/unschedulable", keys.INSTANCE_POOL)
TAINTS = (keys.REMOVING, keys.RESERVED_FOR, keys.NODE_POOL, keys.MACHINE_CLOSED, keys.machine_label("gpu"))
GATES = (keys.ADMISSION_GATE, keys.PLACEMENT_GATE, keys.MACHINE_GATE)
FINALIZERS = (keys.FINALIZER, keys.part_finalizer("capacity"))


def some(*names: str) -> Any:
    return st.lists(st.sampled_from(names), unique=True)


@given(
    finalizers=some(*FINALIZERS, "example.com/theirs", "foregroundDeletion"),
    gates=some(*GATES, "example.com/theirs"),
    taints=some(*TAINTS, *THEIRS),
    labels=some(keys.NODE_POOL, keys.machine_label("gpu"), *THEIRS),
    annotations=some(
        keys.MACHINE_GROUP, keys.INTERRUPTED_AT, keys.MAINTENANCE_AT, keys.REBALANCE_AT, "example.com/theirs"
    ),
)
def test_all_of_ours_is_taken_off_and_nothing_else(
    finalizers: list[str], gates: list[str], taints: list[str], labels: list[str], annotations: list[str]
) -> None:
    found: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": "n", "finalizers": finalizers, "labels": dict.fromkeys(labels, "x")},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates], "taints": [{"key": key} for key in taints]},
    }
    found["metadata"]["annotations"] = dict.fromkeys(annotations, "x")
    before = copy.deepcopy(found)
    after = merging.merge(found, owned_marks.without(found))
    assert found == before
    metadata, spec = after["metadata"], after["spec"]
    assert metadata["name"] == "n"
    assert set(metadata.get("finalizers") or ()) == set(finalizers) - set(FINALIZERS)
    assert {gate["name"] for gate in spec.get("schedulingGates") or ()} == set(gates) - set(GATES)
    assert {taint["key"] for taint in spec.get("taints") or ()} == set(taints) - set(TAINTS)
    assert set(metadata.get("labels", ())) == set(labels) & set(THEIRS)
    assert set(metadata.get("annotations", ())) == set(annotations) & {"example.com/theirs"}
    assert owned_marks.without(after) == {}  # the second time there is nothing left to do


def test_labels_of_other_kinds_say_what_they_are_and_stay() -> None:
    pod = {"kind": "Pod", "metadata": {"labels": {keys.NODE_POOL: "x"}, "annotations": {keys.MACHINE_GROUP: "x"}}}
    assert owned_marks.without(pod) == {}


def test_the_label_that_keeps_load_balancers_off_is_taken_off_where_it_is_ours() -> None:
    def taken_off(value: str) -> bool:
        node = {"kind": "Node", "metadata": {"labels": {keys.EXCLUDED_FROM_LOAD_BALANCERS: value}}}
        return bool(owned_marks.without(node))

    assert (taken_off("sluice"), taken_off("theirs")) == (True, False)


def test_what_was_taken_off_is_said() -> None:
    patch = owned_marks.without({"kind": "Node", "metadata": {"finalizers": [keys.FINALIZER]}})
    assert owned_marks.told(patch) == "finalizer"
    marked = {"kind": "Node", "metadata": {}, "spec": {"taints": [{"key": keys.REMOVING}]}}
    assert owned_marks.told(owned_marks.without(marked)) == "mark"
