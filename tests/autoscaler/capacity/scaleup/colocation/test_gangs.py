"""Who goes to one zone together, and where those that come later join them."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.scaleup.colocation import gangs
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.members import GATE, member, opened


def gathered(*pods: Any, **more: Any) -> list[tuple[str, list[str], str | None]]:
    found = gangs.gather(seen.snapshot(pods=pods, **more))
    return [(gang.name, [pod.meta.key.name for pod in gang.pods], gang.zone) for gang in found]


def test_the_gated_pods_of_one_owner_are_a_party_and_one_without_an_owner_is_its_own() -> None:
    pods = [
        member("t-1"),
        member("t-0"),
        member("e-0", "eval"),
        member("x", None),
        member("y", None),
        seen.pod("plain"),
    ]
    assert gathered(*pods) == [
        ("Job eval", ["e-0"], None),
        ("Job train", ["t-0", "t-1"], None),
        ("pod x", ["x"], None),
        ("pod y", ["y"], None),
    ]


def test_the_more_important_comes_first_then_the_older() -> None:
    old = {"creationTimestamp": "2025-01-01T00:00:00Z"}
    young = {"creationTimestamp": "2025-06-01T00:00:00Z"}
    pods = [
        member("a", "young", metadata=young),
        member("b", "old", metadata=old),
        member("c", "urgent", metadata=young, priority=5),
    ]
    assert [name for name, *_ in gathered(*pods)] == ["Job urgent", "Job old", "Job young"]


def test_who_comes_later_joins_those_that_were_opened() -> None:
    assert gathered(member("t-0"), opened("t-1", "b")) == [("Job train", ["t-0"], "b")]


def test_guests_that_have_their_zone_and_wait_for_a_machine_there_decide_too() -> None:
    machine = {"name": keys.MACHINE_GATE}
    later = member("t-0", schedulingGates=[{"name": keys.PLACEMENT_GATE}, machine])
    first = member("t-1", schedulingGates=[machine], nodeSelector={keys.ZONE: "b"})
    assert gathered(later, first) == [("Job train", ["t-0"], "b")]
    unasked = member("t-1", schedulingGates=[machine])
    assert gathered(later, unasked) == [("Job train", ["t-0"], None)]


def test_a_pod_that_names_its_node_itself_decides_too() -> None:
    pods = [member("t-0"), member("t-1", schedulingGates=[], node="n")]
    assert gathered(*pods, nodes=[seen.node("n", zone="c")]) == [("Job train", ["t-0"], "c")]


def test_where_a_person_has_split_a_party_most_decide_and_then_the_name() -> None:
    split = [opened("t-1", "b"), opened("t-2", "a"), opened("t-3", "b")]
    assert gathered(member("t-0"), *split)[0][2] == "b"
    assert gathered(member("t-0"), *split[:2])[0][2] == "a"


@pytest.mark.parametrize(
    "sibling",
    [
        member("t-1", schedulingGates=[{"name": keys.ADMISSION_GATE}], nodeSelector={keys.ZONE: "a"}),
        opened("t-1", owner="eval"),
        seen.pod("t-1", nodeSelector={keys.ZONE: "a"}, owner="Job"),
        member("t-1", schedulingGates=[], node="gone"),
    ],
    ids=["gated", "another's", "never asked", "without a zone"],
)
def test_others_do_not_decide(sibling: Any) -> None:
    assert gathered(member("t-0"), sibling)[0][2] is None


@pytest.mark.parametrize("over", [{"status": {"phase": "Failed"}}, {"metadata": {"deletionTimestamp": seen.STAMP}}])
def test_those_that_have_ended_leave_a_trace_but_do_not_decide(over: dict[str, Any]) -> None:
    (gang,) = gangs.gather(seen.snapshot(pods=[member("t-0"), opened("t-1", "b", **over)]))
    assert (gang.zone, gang.last_zone) == (None, "b")


@pytest.mark.parametrize(
    "what",
    [
        {"schedulingGates": [GATE, {"name": keys.ADMISSION_GATE}]},
        {"schedulingGates": [{"name": keys.ADMISSION_GATE}]},
        {"schedulerName": "volcano"},
        {"metadata": {"deletionTimestamp": seen.STAMP}},
        {"status": {"phase": "Failed"}},
    ],
    ids=str,
)
def test_pods_that_wait_for_something_else_are_in_no_party(what: dict[str, Any]) -> None:
    assert gathered(member("t-0", **what)) == []


def test_a_party_is_whole_when_none_has_joined_for_a_moment() -> None:
    (gang,) = gangs.gather(seen.snapshot(pods=[member("t", metadata={"creationTimestamp": seen.STAMP})]))
    assert gangs.due(gang, seen.NOW + 1.9) == seen.NOW + gangs.SETTLE_SECONDS
    assert gangs.due(gang, seen.NOW + 2.0) is None
    assert gangs.due(gang, seen.NOW - 3600) is None, "a clock that is ahead must not hold it up"


def test_a_pod_counts_from_when_it_was_opened_and_a_gated_one_does_not() -> None:
    assert demand.is_demand(opened("t"))
    assert not demand.is_demand(member("t"))
    assert not demand.is_demand(seen.pod("t", waits=False, nodeSelector={keys.ZONE: "a"}))
