"""Sleepers hold room that nobody waits for, by rules 1 and 3."""

import dataclasses

import pytest

from autoscaler.machines.model import Guest, Node, Phase, Sleeper
from tests.autoscaler.machines import builders
from tests.autoscaler.machines.builders import bound, done, guest, machine_type, node, plan_of, sleeper, trying

pytestmark = pytest.mark.accept("M10", part="which sleepers are opened and which go")
FULL = 1000
TWO = (machine_type(maximum=2),)


def test_a_gated_sleeper_is_opened_where_room_is_left() -> None:
    assert done(nodes=(node(),), sleepers=(sleeper(),)) == ["open small-0 a"]


def test_the_lowest_ordinals_are_opened_as_long_as_there_is_room() -> None:
    types = (machine_type(maximum=3),)
    gated = (sleeper(2), sleeper(0), sleeper(1))

    assert done(types=types, nodes=(node(cpu=2000),), sleepers=gated) == ["open small-0 a", "open small-1 a"]


@pytest.mark.parametrize(
    "there",
    [
        bound("g", at="x"),
        trying("g"),
        builders.refused("g", tried=frozenset("a")),
        bound("g", "x", is_terminating=True),
    ],
)
def test_no_sleeper_is_opened_beside_a_guest_that_has_the_last_machine(there: Guest) -> None:
    assert done(nodes=(node(),), guests=(there,), sleepers=(sleeper(),)) == []


@pytest.mark.parametrize("other", [sleeper(1, at="x", is_terminating=True), sleeper(1, at="x")])
def test_an_open_sleeper_counts_wherever_it_is(other: Sleeper) -> None:
    nodes = (node(), node("x", used=FULL, is_ready=False, is_marked=False))

    assert done(nodes=nodes, sleepers=(sleeper(), other)) == []


def test_no_sleeper_is_opened_into_room_that_a_waiting_guest_is_planned_for() -> None:
    types = (machine_type("small"), machine_type("large", 2))
    nodes = (node(types=("small", "large")),)
    wait = guest("g", promised="a")

    assert done(types=types, nodes=nodes, guests=(wait,), sleepers=(sleeper(type="large"),)) == ["open g"]


def test_no_sleeper_is_opened_where_the_scheduler_may_put_an_open_guest() -> None:
    types = (machine_type("small"), machine_type("large"))
    nodes = (node("a", types=("small", "large")), node("b", types=("small", "large")))

    assert done(types=types, nodes=nodes, guests=(trying(),), sleepers=(sleeper(type="large"),)) == []


def test_a_sleeper_is_opened_where_the_fewest_types_are_then_where_it_is_tightest() -> None:
    types = (machine_type("small"), machine_type("large", 0))
    shared, wide, tight = node("a", types=("small", "large")), node("b", cpu=3000), node("c")

    assert done(types=types, nodes=(shared, wide, tight), sleepers=(sleeper(),)) == ["open small-0 c"]
    assert done(types=types, nodes=(shared, wide), sleepers=(sleeper(),)) == ["open small-0 b"]
    assert done(types=types, nodes=(shared,), sleepers=(sleeper(),)) == ["open small-0 a"]


@pytest.mark.parametrize("where", [node(is_ready=False), node(is_marked=False), node(types=("large",))])
def test_a_sleeper_is_opened_on_nodes_that_are_ready_and_marked_and_serve_its_type(where: Node) -> None:
    types = (machine_type(), machine_type("large"))

    assert done(types=types, nodes=(where,), sleepers=(sleeper(),)) == []


def test_a_sleeper_is_not_opened_where_it_is_not_let_in() -> None:
    assert done(nodes=(node(),), sleepers=(sleeper(barred=frozenset({"a"})),)) == []


@pytest.mark.parametrize("pods", [0, 1])
def test_a_node_takes_as_many_pods_as_it_says(pods: int) -> None:
    where = dataclasses.replace(node(), allocatable={"cpu": 5000, "pods": 5}, used={"cpu": 0, "pods": 5 - pods})

    assert len(done(nodes=(where,), sleepers=(sleeper(),))) == pods


def test_a_pinned_sleeper_holds_its_room_before_it_is_bound() -> None:
    there = (sleeper(0, at="a", phase=Phase.OPEN), sleeper(1))

    assert done(types=TWO, nodes=(node(),), sleepers=there) == []


class TestDoomed:
    """Sleepers that hold nothing worth keeping."""

    def test_one_whose_node_is_closed_goes(self) -> None:
        there = (sleeper(at="a"),)

        assert done(nodes=(node(is_ready=False, is_closed=True),), sleepers=there) == ["delete small-0"]

    def test_a_bound_one_keeps_its_room_until_its_node_is_closed(self) -> None:
        assert done(nodes=(node(is_ready=False),), sleepers=(sleeper(at="a"),)) == []

    def test_an_unbound_one_goes_when_its_node_is_not_ready(self) -> None:
        there = (sleeper(at="a", phase=Phase.OPEN),)

        assert done(nodes=(node(is_ready=False),), sleepers=there) == ["delete small-0"]

    def test_one_whose_room_was_taken_goes(self) -> None:
        assert done(nodes=(node(used=1),), sleepers=(sleeper(at="a", phase=Phase.OPEN),)) == ["delete small-0"]

    def test_a_bound_one_stays_on_a_full_node(self) -> None:
        assert done(nodes=(node(used=FULL),), sleepers=(sleeper(at="a"),)) == []

    def test_one_whose_node_is_gone_goes(self) -> None:
        assert done(sleepers=(sleeper(at="a"),)) == ["delete small-0"]

    def test_one_without_a_pin_goes(self) -> None:
        assert done(nodes=(node(),), sleepers=(sleeper(phase=Phase.OPEN),)) == ["delete small-0"]

    def test_one_whose_node_serves_another_type_now_goes(self) -> None:
        types = (machine_type(), machine_type("large"))

        assert done(types=types, nodes=(node(types=("large",)),), sleepers=(sleeper(at="a"),)) == ["delete small-0"]

    @pytest.mark.parametrize("at", ["", "a"])
    def test_one_of_an_old_template_goes(self, at: str) -> None:
        assert done(nodes=(node(),), sleepers=(sleeper(at=at, is_outdated=True),)) == ["delete small-0"]

    def test_one_that_is_not_let_in_any_more_goes(self) -> None:
        there = sleeper(at="a", phase=Phase.OPEN, barred=frozenset({"a"}))

        assert done(nodes=(node(),), sleepers=(there,)) == ["delete small-0"]

    def test_one_that_is_going_already_is_left_alone(self) -> None:
        there = (sleeper(at="a", is_terminating=True),)

        assert done(nodes=(node(is_ready=False, is_closed=True),), sleepers=there) == []

    def test_one_of_a_type_that_went_goes(self) -> None:
        assert done(nodes=(node(),), sleepers=(sleeper(at="a", type="huge"),)) == ["delete huge-0"]


class TestSurplus:
    """Open sleepers above max(0, maximum - used - waiting)."""

    def test_those_above_the_target_go_the_last_first(self) -> None:
        there = (sleeper(0, at="a"), sleeper(1, at="a"))

        assert done(nodes=(node(cpu=2000, used=2000),), sleepers=there) == ["delete small-1"]

    def test_unbound_ones_go_first(self) -> None:
        there = (sleeper(0, at="b", phase=Phase.OPEN), sleeper(1, at="a"))

        assert done(nodes=(node(used=FULL), node("b")), sleepers=there) == ["delete small-0"]

    def test_a_guest_that_nothing_can_be_done_for_counts_as_waiting(self) -> None:
        wide = guest(requests={"cpu": 9000, "pods": 1})

        assert done(nodes=(node(used=FULL),), guests=(wide,), sleepers=(sleeper(at="a"),)) == ["delete small-0"]

    def test_one_that_a_guest_in_line_is_planned_on_stays_until_its_turn(self) -> None:
        nodes = (node("a", used=FULL), node("b", used=FULL))
        there = (sleeper(0, at="a"), sleeper(1, at="b"))
        waiting = (guest("g", created_at=0), guest("h", tried=frozenset({"a"})))

        assert done(types=TWO, nodes=nodes, guests=waiting, sleepers=there) == ["promise h b"]

    def test_a_lowered_maximum_is_met(self) -> None:
        types = (machine_type(maximum=0),)

        assert done(types=types, nodes=(node(),), sleepers=(sleeper(at="a"),)) == ["delete small-0"]

    def test_guests_behind_other_gates_do_not_count(self) -> None:
        held = guest(phase=Phase.HELD)

        assert done(nodes=(node(used=FULL),), guests=(held,), sleepers=(sleeper(at="a"),)) == []


@pytest.mark.accept("M12", part="sleepers of a deleted Machine go")
def test_sleepers_of_a_deleted_group_go() -> None:
    there = (sleeper(0, at="a"), sleeper(1), sleeper(2, at="a", is_terminating=True))

    assert done(is_deleted=True, nodes=(node(),), sleepers=there) == ["delete small-0"]


@pytest.mark.accept("M3", part="what is used, reserved and waiting")
def test_usage_is_counted_from_pods() -> None:
    people = (
        bound("a"),
        bound("b", is_terminating=True),
        bound("c", is_failing=True),
        guest("d"),
        guest("e", phase=Phase.HELD),
        trying("f"),
    )
    there = (sleeper(0, at="a"), sleeper(1, at="closed"), sleeper(2, at="a", phase=Phase.OPEN), sleeper(3))
    nodes = (node("a", used=FULL), node("closed", is_ready=False))

    usage = plan_of(types=(machine_type(maximum=9),), nodes=nodes, guests=people, sleepers=there).usage["small"]

    assert (usage.maximum, usage.reserved, usage.used, usage.waiting) == (9, 1, 2, 3)


def test_a_group_at_rest_does_nothing() -> None:
    there = (sleeper(0, at="a"), sleeper(1))
    plan = plan_of(types=TWO, nodes=(node(cpu=2000, used=2000),), guests=(bound("g"),), sleepers=there)

    assert plan.writes == ()
    assert plan.wake_at is None
