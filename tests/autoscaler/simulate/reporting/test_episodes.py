"""What the runtime wrote becomes a few decisions: what belongs together is one, and nothing is made up."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity import messages
from autoscaler.capacity.model import Limit, LimitKind
from autoscaler.capacity.scaleup.limits.budgets import State
from autoscaler.cloud.port import Verdict
from autoscaler.simulate.observation.record import Logged, Record
from autoscaler.simulate.reporting import episodes
from autoscaler.simulate.reporting.episode import Episode, Kind
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import desired, logged, told


def only(record: Record, kind: Kind) -> list[tuple[str, str]]:
    return [(one.what, one.why) for one in episodes.episodes(record) if one.kind is kind]


def test_a_burst_is_one_decision_and_a_later_one_another() -> None:
    logs = (
        desired(0, "spot.a", 0, 2),
        logged("scale_up", 0, groups=["spot.a"], pods=[("builds", "x")]),
        desired(60, "spot.b", 0, 3),
        logged("scale_up", 60, groups=["spot.b"], pods=[("builds", "x"), ("builds", "y")]),
        logged("scale_up", 60, groups=["gpu.a"], pods=[("builds", "z")]),
        desired(2000, "spot.a", 2, 3),
    )
    want = [
        ("5 instances of spot started until 06:01 (a 2, b 3)", "no room for 2 pods (builds 2)"),
        ("1 instance of spot started (a 1)", "no room for 0 pods ()"),
    ]
    assert only(records.record(logs=logs), Kind.GROWTH) == want


def test_what_was_taken_back_or_not_done_did_not_grow() -> None:
    logs = (
        desired(0, "spot.a", 0, 2),
        desired(5, "spot.a", 2, 0),
        desired(6, "spot.b", 0, 2, verdict=Verdict.NOT_DONE),
    )
    assert only(records.record(logs=logs), Kind.GROWTH) == []


def test_a_zone_that_gave_nothing_is_not_among_those_that_grew() -> None:
    logs = (desired(0, "spot.a", 0, 2), desired(5, "spot.a", 2, 0), desired(6, "spot.b", 0, 2))
    assert [what for what, _ in only(records.record(logs=logs), Kind.GROWTH)] == ["2 instances of spot started (b 2)"]


def test_a_shortage_names_zone_types_and_what_was_started_elsewhere() -> None:
    logs = (
        logged("launch_failed", 0, group="spot.a", reason="InsufficientCapacity"),
        desired(1, "spot.b", 0, 4),
        logged("launch_failed", 600, group="spot.a", reason="InsufficientCapacity"),
    )
    want = [
        (
            "zone a passed by until 06:10, 4 instances started in other zones",
            "the provider had no m7i.4xlarge there, asked 2 times",
        )
    ]
    assert only(records.record(logs=logs), Kind.SHORTAGE) == want


def test_a_budget_is_told_once_for_each_state_in_instance_hours() -> None:
    budget = Limit(kind=LimitKind.POOL_SECONDS, pool="gpu", most=7200, used=3600, expected=1800, each=7505)
    states = (State.COMMITTED, State.COMMITTED, State.SPENT)
    logs = tuple(logged("budget_changed", 0, state=state, **dataclasses.asdict(budget)) for state in states)
    numbers = messages.limit(budget)
    want = [
        ("the month's budget of gpu allows no more instances", numbers),
        ("the month's budget of gpu is used up: idle instances end at once", numbers),
    ]
    assert only(records.record(logs=logs), Kind.BUDGET) == want


def test_pods_that_a_limit_leaves_waiting_are_counted_together() -> None:
    def refused(name: str, after: float, used: int) -> Logged:
        limit = Limit(kind=LimitKind.POOL_INSTANCES, pool="spot", most=60, used=used)
        return logged("no_scale_up", after, limits=[dataclasses.asdict(limit)], pods=[("builds", name)])

    others = logged("no_scale_up", 40, limits=[], pods=[("builds", "z")])
    logs = (refused("x", 0, 60), refused("y", 30, 61), others, refused("x", 90, 60))
    want = [("no instance for 2 pods until 06:01 (builds 2)", "spot: the pool has 60 of at most 60 instances")]
    assert only(records.record(logs=logs), Kind.LIMIT) == want


def test_removals_say_for_how_long_there_was_no_work() -> None:
    logs = (
        logged("node_marked", 1000, node="n", reason="Idle", idle_since=records.START + 700),
        logged("instance_ended", 1005, node="n", instance="i", verdict=Verdict.LANDED),
        logged("instance_ended", 1006, node="m", instance="nobody's", verdict=Verdict.LANDED),
    )
    record = records.record(logs=logs, instances=(records.instance("i", 0, 1005),))
    assert only(record, Kind.REMOVAL) == [("1 instance of spot ended", "no work on them for 5 min")]


def test_workers_at_their_most_are_told_as_the_pool_was() -> None:
    event = told("CapacityReached", 0, "the pool may have 20 workers, and 3 jobs have no worker", name="reports")
    want = [("no more workers for the queue reports", event.message)]
    assert only(records.record(told=(event,)), Kind.WORKERS) == want


def episode(at: int, kind: Kind, size: int) -> Episode:
    return Episode(at=float(at), kind=kind, size=size, what=f"{at} {kind} {size}", why="")


EPISODES = st.lists(st.builds(episode, st.integers(0, 99), st.sampled_from(Kind), st.integers(0, 9)), max_size=30)


@given(EPISODES, st.integers(0, 12))
def test_every_kind_has_its_say_before_any_has_a_second(found: list[Episode], count: int) -> None:
    chosen = episodes.most_telling(found, count)
    assert len(chosen) == min(count, len(found))
    assert [one.at for one in chosen] == sorted(one.at for one in chosen)
    said = {kind: sum(one.kind is kind for one in chosen) for kind in Kind}
    for kind in {one.kind for one in found}:
        left = sum(one.kind is kind for one in found) - said[kind]
        assert left == 0 or all(other <= said[kind] + 1 for other in said.values())


def test_of_a_kind_the_largest_is_chosen_first() -> None:
    found = [episode(1, Kind.GROWTH, 3), episode(2, Kind.GROWTH, 9), episode(3, Kind.REMOVAL, 1)]
    assert [one.at for one in episodes.most_telling(found, 2)] == [2.0, 3.0]
