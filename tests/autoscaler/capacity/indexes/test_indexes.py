"""Whatever comes, changes and goes: the indexes of pods and nodes say what everything there says afresh."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.resources.instances import Instance
from autoscaler.capacity.indexes import node_index, pod_index, remembered
from autoscaler.capacity.records import record_index
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects, store
from tests.autoscaler.capacity import books, seen

SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
MACHINE = {"labels": {keys.MACHINE_GROUP: "small"}}
POD = st.fixed_dictionaries(
    {
        "node": st.sampled_from(["", "n1", "n2"]),
        "owner": st.sampled_from(["", "Job", "DaemonSet"]),
        "status": st.sampled_from([{}, {"phase": "Succeeded"}, {"nominatedNodeName": "n1"}]),
    },
    optional={"topologySpreadConstraints": st.just(SPREAD), "metadata": st.just(MACHINE)},
)
NODE = st.fixed_dictionaries(
    {"providerID": st.sampled_from(["", "aws:///a/i-1", "aws:///a/i-2"]), "ready": st.booleans()}
)
RECORD = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Launching", "Ready", "Draining", "Terminated"]),
        "providerID": st.sampled_from([None, "aws:///a/i-1", "aws:///a/i-2"]),
        "idleSince": st.none() | st.integers(0, 60).map(lambda after: books.date(books.START + after)),
    }
)
NAMES = st.sampled_from("abcd")


def versioned(one: Any, version: int) -> Any:
    return msgspec.structs.replace(one, meta=msgspec.structs.replace(one.meta, resource_version=version))


@given(st.lists(st.tuples(NAMES, st.none() | POD), max_size=30))
def test_pods_are_indexed_as_they_are(history: list[tuple[str, dict[str, Any] | None]]) -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = pod_index.PodIndex(table)
    for version, (name, what) in enumerate(history, start=1):
        before = index.snapshot()
        copy = pod_index.indexed(table)
        made = versioned(seen.pod(name, **(what or {})), version)
        table.seen(made) if what is not None else table.gone(made.meta)
        assert before == copy  # what was handed out does not change
        assert index.snapshot() == pod_index.indexed(table)
    assert pod_index.PodIndex(table).snapshot() == index.snapshot()


def test_pods_that_wait_stay_in_the_order_in_which_they_came() -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = pod_index.PodIndex(table)
    steps = [("b", ""), ("c", ""), ("a", ""), ("c", "n1"), ("b", "")]
    for version, (name, node) in enumerate(steps, start=1):
        table.seen(versioned(seen.pod(name, node=node), version))
    assert [key.name for key in index.snapshot().unbound] == ["b", "a"]


@given(st.lists(st.tuples(NAMES, POD), unique_by=lambda each: each[0]), st.sets(NAMES))
def test_pods_that_are_promised_a_node_count_as_nominated_to_it(
    there: list[tuple[str, dict[str, Any]]], promised: set[str]
) -> None:
    pods = {name: seen.pod(name, **what) for name, what in there}
    free = [pods[name] for name in sorted(promised & pods.keys()) if not pods[name].node_name]
    nominated = [msgspec.structs.replace(pod, nominated_node="n2") for pod in free]
    want = pod_index.indexed({**pods, **{pod.meta.key.name: pod for pod in nominated}}.values())
    assert pod_index.indexed(pods.values()).nominated(nominated) == want


@given(st.lists(st.tuples(NAMES, st.none() | NODE), max_size=30))
def test_nodes_are_indexed_by_instance_as_they_are(history: list[tuple[str, dict[str, Any] | None]]) -> None:
    table: store.Table[objects.Node] = store.Table()
    index = node_index.NodeIndex(table)
    for version, (name, what) in enumerate(history, start=1):
        before = index.by_provider()
        copy = dict(before)
        made = versioned(seen.node(name, **(what or {})), version)
        table.seen(made) if what is not None else table.gone(made.meta)
        assert before == copy
        assert unversioned(index.by_provider()) == unversioned(node_index.by_provider(table))
        assert unversioned(index.nodes()) == unversioned(table.snapshot())
        assert list(index.nodes()) == list(table.snapshot())


def unversioned(nodes: Mapping[Any, objects.Node]) -> dict[Any, objects.Node]:
    return {key: versioned(node, 1) for key, node in nodes.items()}


def test_a_node_of_which_nothing_but_the_version_changed_makes_nothing_new() -> None:
    table: store.Table[objects.Node] = store.Table()
    index = node_index.NodeIndex(table)
    table.seen(versioned(seen.node(), 1))
    nodes, by_provider = index.nodes(), index.by_provider()
    table.seen(versioned(seen.node(), 2))
    assert index.nodes() is nodes
    assert index.by_provider() is by_provider


@given(st.lists(st.tuples(st.integers(1, 3), st.none() | RECORD), max_size=30))
def test_records_are_indexed_as_they_are(history: list[tuple[int, dict[str, Any] | None]]) -> None:
    table: store.Table[objects.Custom[Instance]] = store.Table()
    index = record_index.RecordIndex(table)
    for version, (number, what) in enumerate(history, start=1):
        before = index.snapshot()
        copy = (before.were_ready, dict(before.idle_since))
        made = books.instance(number, version=version, **(what or {}))
        table.seen(made) if what is not None else table.gone(made.meta)
        assert (before.were_ready, before.idle_since) == copy  # what was handed out does not change
        got, want = index.snapshot(), record_index.indexed(each.resource for each in table)
        assert (got.were_ready, got.idle_since.keys()) == (want.were_ready, want.idle_since.keys())
        told = {(each.resource.status.provider_id, each.resource.status.idle_since) for each in table}
        assert all((one, books.date(since)) in told for one, since in got.idle_since.items())  # any of several


def test_an_answer_is_remembered_for_the_very_same_objects_alone() -> None:
    asked = list[tuple[object, ...]]()

    def add_up(*numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(map(sum, numbers))

    summed = remembered.Remembered(add_up)
    one, same = [1, 2], [1, 2]
    assert [summed(one), summed(one), summed(same), summed(same, one), summed(one)] == [3, 3, 3, 6, 3]
    assert [tuple(map(id, each)) for each in asked] == [(id(one),), (id(same),), (id(same), id(one)), (id(one),)]


def test_an_answer_about_one_thing_is_said_again_while_its_parts_are_equal() -> None:
    asked = list[tuple[object, ...]]()

    def say(name: str, *parts: list[int]) -> int:
        asked.append((name, *parts))
        return sum(map(sum, parts))

    told = remembered.RememberedEqual(say)
    assert [told("a", [1, 2]), told("a", [1, 2]), told("b", [1, 2]), told("a", [1, 3])] == [3, 3, 3, 4]
    assert told("a", [1, 2]) == 3
    assert asked == [("a", [1, 2]), ("b", [1, 2]), ("a", [1, 3]), ("a", [1, 2])]


def test_things_that_are_gone_are_forgotten() -> None:
    told = remembered.RememberedEqual(str)
    for number in range(2 * remembered.THINGS_MAX + 1):
        told(number)
    assert len(told._last) <= remembered.THINGS_MAX


def test_an_answer_about_each_of_many_is_made_again_only_where_one_of_its_parts_is_another() -> None:
    asked = list[str]()

    def say(name: str, *parts: object) -> str:
        asked.append(name)
        return f"{name}{len(parts)}"

    told = remembered.RememberedEach(say)
    one, other, same = object(), object(), object()
    assert told([("a", one), ("b", one)]) == ("a1", "b1")
    assert told([("a", one), ("b", other), ("c", one, same)]) == ("a1", "b1", "c2")
    assert told([("a", other)]) == ("a1",)
    assert told([("b", other), ("a", other)]) == ("b1", "a1")  # what is not asked about is forgotten
    assert "".join(asked) == "abbcab"


@given(st.lists(st.tuples(NAMES, st.none() | POD | NODE, st.booleans()), max_size=20))
def test_what_is_free_on_nodes_is_what_reckoning_it_afresh_says(
    history: list[tuple[str, dict[str, Any] | None, bool]],
) -> None:
    pods: store.Table[objects.Pod] = store.Table()
    nodes: store.Table[objects.Node] = store.Table()
    nodes.seen(seen.node("n1", instance="i-1"))
    index = pod_index.PodIndex(pods)
    for version, (name, what, with_residents) in enumerate(history, start=2):
        if what is not None and "ready" in what:
            nodes.seen(versioned(seen.node("n1", **what), version))
        else:
            made = versioned(seen.pod(name, **(what or {})), version)
            pods.seen(made) if what is not None else pods.gone(made.meta)
        now = Snapshot(now=0.0, pods=pods.snapshot(), indexed=index.snapshot(), nodes=nodes.snapshot())
        (room,) = supply.rooms(now, with_residents=with_residents)
        (node,) = nodes
        there = [pod for pod in pods if pod_index.node_of(pod) == "n1" and not pod.is_terminal]
        free = node.allocatable["cpu"] - sum(pod.shape.requests["cpu"] for pod in there)
        assert room.free.get("cpu") == (free if node.ready else None)
        assert len(room.residents) == (len(there) if with_residents else 0)
