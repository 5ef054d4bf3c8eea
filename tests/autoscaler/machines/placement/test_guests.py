"""Guests are placed one after the other, and those that are alike together, by rules 1 to 3."""

from typing import Any

import pytest

from autoscaler.machines.model import Guest, Node, Phase, PromiseGuest, Reason, Sleeper
from autoscaler.machines.placement.guests import REFUSED_SECONDS, SILENT_SECONDS, TOGETHER_MAX
from tests.autoscaler.machines import builders
from tests.autoscaler.machines.builders import NOW, bound, done, guest, machine_type, node, plan_of, sleeper, trying

pytestmark = pytest.mark.accept("M14", part="guests are served in turn by what they wait for, and those alike together")
FULL = 1000
HALF = {"cpu": 500, "pods": 1}
TWO = (machine_type(maximum=2),)


def test_a_guest_is_opened_where_room_is_free() -> None:
    want = ["open g"]

    assert done(nodes=(node(),), guests=(guest(),)) == want


def test_room_of_a_sleeper_is_promised_then_given_up_then_opened_into() -> None:
    held = (sleeper(at="a"),)
    full = (node(used=FULL),)

    assert done(nodes=full, guests=(guest(),), sleepers=held) == ["promise g a"]
    assert done(nodes=full, guests=(guest(promised="a"),), sleepers=held) == ["delete small-0"]
    assert done(nodes=(node(),), guests=(guest(promised="a"),), sleepers=(sleeper(),)) == ["open g"]


def test_the_sleeper_that_goes_is_the_one_where_the_guest_fits() -> None:
    nodes = (node("a", cpu=1500, used=1500), node("b", used=FULL))
    there = (sleeper(0, at="a"), sleeper(1, at="b"))
    wide = guest(requests={"cpu": 1500, "pods": 1})

    assert done(types=TWO, nodes=nodes, sleepers=there) == []
    nodes = (node("a", cpu=2000, used=1500), node("b", used=FULL))
    assert done(types=TWO, nodes=nodes, guests=(wide,), sleepers=there) == ["promise g a"]


def test_as_many_sleepers_are_given_up_as_a_guest_needs() -> None:
    there = (sleeper(0, at="a"), sleeper(1, at="a"))
    wide = guest(requests={"cpu": 2000, "pods": 1}, promised="a")

    plan = done(types=TWO, nodes=(node(cpu=2000, used=2000),), guests=(wide,), sleepers=there)

    assert plan == ["delete small-1"]


@pytest.mark.parametrize(
    "other",
    [
        bound("other", at="b"),
        bound("other", at="b", is_terminating=True),
        bound("other", at="b", is_failing=True),
        trying("other", is_terminating=True),
        builders.refused("other", tried=frozenset({"a"})),
    ],
)
def test_nobody_is_opened_beside_an_open_guest_that_has_the_last_machine(other: Guest) -> None:
    assert done(nodes=(node(),), guests=(guest(), other)) == []


def test_a_machine_that_others_have_is_told_to_the_guest_that_waits() -> None:
    plan = plan_of(nodes=(node(),), guests=(guest(), bound("other", at="b")))

    assert builders.reasons(plan) == {"g": Reason.ALL_USED}


def test_refused_guests_that_fill_the_maximum_are_named() -> None:
    plan = plan_of(nodes=(node(),), guests=(guest(), builders.refused("other", tried=frozenset({"a"}))))
    told = {each.guest.key.name: each for each in plan.waiting}

    assert told["g"].reason is Reason.REFUSED_FILL
    assert "team/other" in told["g"].message


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ((sleeper(0, at="b"), sleeper(1, at="x", phase=Phase.OPEN)), ["delete small-1"]),
        ((sleeper(0, at="b"), sleeper(1, at="n")), ["delete small-1"]),
        ((sleeper(0, at="n"), sleeper(1, at="b")), ["delete small-0"]),
        ((sleeper(0, at="b"), sleeper(1, at="b")), ["delete small-1"]),
    ],
    ids=["unbound first", "then not ready", "whatever its ordinal", "then the last"],
)
def test_where_sleepers_hold_the_whole_maximum_one_goes_first(there: tuple[Sleeper, ...], want: list[str]) -> None:
    nodes = (
        node("a"),
        node("b", cpu=2000, used=2000),
        node("n", is_ready=False, is_marked=False),
        node("x"),
    )
    here = guest(barred=frozenset({"b", "x", "n"}))

    assert done(types=TWO, nodes=nodes, guests=(here,), sleepers=there) == want


def test_a_sleeper_goes_also_where_a_guest_that_fails_keeps_its_machine() -> None:
    """A guest that fails is not used, so the sleeper is none too many; yet no more may be open."""
    failing = bound("failing", at="b", is_failing=True)
    nodes = (node("a"), node("b", cpu=2000, used=2000))

    assert done(types=TWO, nodes=nodes, guests=(failing, guest()), sleepers=(sleeper(at="b"),)) == ["delete small-0"]


def test_a_terminating_sleeper_counts_until_it_is_gone() -> None:
    assert done(nodes=(node(),), guests=(guest(),), sleepers=(sleeper(at="b", is_terminating=True),)) == []


def test_one_guest_at_a_time_among_types_that_share_nodes() -> None:
    types = (machine_type("small", 2), machine_type("large", 2))
    nodes = (node("a", types=("small",)), node("b", types=("small", "large"), cpu=2000))
    waiting = (guest("g"), guest("h", type="large"))

    assert done(types=types, nodes=nodes, guests=waiting) == ["open h"]


def test_types_without_a_node_in_common_are_placed_side_by_side() -> None:
    types = (machine_type("small"), machine_type("large"))
    nodes = (node("a", types=("small",)), node("b", types=("large",)))

    assert done(types=types, nodes=nodes, guests=(guest("g"), guest("h", type="large"))) == ["open g", "open h"]


def test_types_that_share_nodes_by_way_of_a_third_are_placed_in_one_line() -> None:
    types = (machine_type("small"), machine_type("middle"), machine_type("large"))
    nodes = (node("a", types=("small", "middle")), node("b", types=("middle", "large")))

    assert done(types=types, nodes=nodes, guests=(guest("g"), guest("h", type="large"))) == ["open g"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (trying("first"), guest("second", promised="a", created_at=0)),
        (guest("first", promised="a"), guest("second", created_at=0, requests=HALF)),
        (guest("first", barred=frozenset({"b"})), guest("second", created_at=0)),
        (guest("first", created_at=0), guest("second", created_at=1, requests=HALF)),
        (guest("first", barred=frozenset({"b"})), builders.refused("second", created_at=0)),
    ],
    ids=["opened", "promised", "fewest nodes", "age", "refused last"],
)
def test_the_order_of_guests(first: Guest, second: Guest) -> None:
    nodes = (node("a"), node("b"))

    plan = plan_of(types=(machine_type(maximum=4),), nodes=nodes, guests=(second, first))

    served = {name for name, why in builders.reasons(plan).items() if why in {Reason.NEXT, Reason.SCHEDULING}}
    assert served == {"first"}


def test_an_opened_guest_holds_the_others_back_even_without_room() -> None:
    assert done(types=TWO, nodes=(node("a"),), guests=(guest(), trying("h", barred=frozenset({"a"})))) == []


def test_a_guest_that_cannot_be_served_lets_the_next_one_go() -> None:
    wide = guest("wide", requests={"cpu": 5000, "pods": 1}, created_at=0)

    assert done(types=TWO, nodes=(node(),), guests=(wide, guest())) == ["open g"]


@pytest.mark.parametrize("where", [node(is_ready=False), node(is_marked=False), node(types=("large",))])
def test_room_counts_on_nodes_that_are_ready_and_marked_and_serve_the_type(where: Node) -> None:
    types = (machine_type(), machine_type("large"))

    assert done(types=types, nodes=(where,), guests=(guest(),)) == []


def test_a_guest_behind_other_gates_is_not_looked_at() -> None:
    plan = plan_of(nodes=(node(used=FULL),), guests=(guest(phase=Phase.HELD),), sleepers=(sleeper(at="a"),))

    assert plan.writes == ()
    assert builders.reasons(plan) == {"g": Reason.OTHER_GATES}


def test_a_guest_that_is_being_deleted_gets_nothing() -> None:
    assert done(nodes=(node(used=FULL),), guests=(guest(is_terminating=True),), sleepers=(sleeper(at="a"),)) == []


def test_room_of_another_type_is_told_and_not_taken() -> None:
    types = (machine_type("small"), machine_type("large"))
    nodes = (node(types=("small", "large"), used=FULL),)
    plan = plan_of(types=types, nodes=nodes, guests=(guest(),), sleepers=(sleeper(type="large", at="a"),))

    assert plan.writes == ()
    assert builders.reasons(plan) == {"g": Reason.HELD_BY_OTHERS}


def test_a_promise_on_a_node_that_went_is_made_anew() -> None:
    there = (sleeper(at="b"),)

    assert done(nodes=(node("b", used=FULL),), guests=(guest(promised="a"),), sleepers=there) == ["promise g b"]


class TestRefused:
    """A guest that the scheduler refuses."""

    def test_its_time_is_over_after_30_s_and_nodes_with_room_are_recorded(self) -> None:
        late = trying(for_seconds=REFUSED_SECONDS, unschedulable_since=NOW - 100)
        nodes = (node("a"), node("b", used=FULL), node("c"))

        assert done(nodes=nodes, guests=(late,)) == ["tried g a,c"]

    def test_its_time_is_not_over_before(self) -> None:
        early = trying(for_seconds=REFUSED_SECONDS - 1, unschedulable_since=NOW - 100)
        plan = plan_of(nodes=(node(),), guests=(early,))

        assert plan.writes == ()
        assert plan.wake_at == NOW + 1

    def test_30_s_count_from_the_first_refusal(self) -> None:
        early = trying(for_seconds=100, unschedulable_since=NOW - 10)

        assert done(nodes=(node(),), guests=(early,)) == []

    def test_one_that_the_scheduler_says_nothing_about_holds_others_back_for_a_limited_time(self) -> None:
        assert done(nodes=(node(),), guests=(trying(for_seconds=SILENT_SECONDS - 1),)) == []
        assert done(nodes=(node(),), guests=(trying(for_seconds=SILENT_SECONDS),)) == ["tried g a"]

    def test_it_lets_others_go_first(self) -> None:
        nodes = (node("a"), node("b"))
        kept = builders.refused("kept", created_at=0)

        assert done(types=TWO, nodes=nodes, guests=(kept, guest())) == ["open g"]

    def test_it_is_not_planned_again_where_it_was_refused(self) -> None:
        there = (sleeper(at="a"),)
        kept = builders.refused(tried=frozenset({"a"}))

        assert done(types=TWO, nodes=(node(used=FULL),), guests=(kept,), sleepers=there) == []

    def test_a_sleeper_elsewhere_is_promised_with_its_time_anew_and_then_given_up(self) -> None:
        nodes, there = (node("a"), node("b", used=FULL)), (sleeper(at="b"),)
        kept = builders.refused(tried=frozenset({"a"}))

        plan = plan_of(types=TWO, nodes=nodes, guests=(kept,), sleepers=there)
        assert [builders.short(each) for each in plan.writes] == ["promise g b"]
        assert isinstance(plan.writes[0], PromiseGuest)
        assert plan.writes[0].trying_since == NOW

        anew = trying(tried=frozenset({"a"}), promised="b", unschedulable_since=NOW - 100)
        assert done(types=TWO, nodes=nodes, guests=(anew,), sleepers=there) == ["delete small-0"]

    def test_a_promise_that_is_no_longer_fresh_is_renewed_before_a_sleeper_goes(self) -> None:
        nodes, there = (node("a"), node("b", used=FULL)), (sleeper(at="b"),)
        late = trying(for_seconds=20, tried=frozenset({"a"}), promised="b", unschedulable_since=NOW - 100)

        assert done(types=TWO, nodes=nodes, guests=(late,), sleepers=there) == ["promise g b"]

    def test_new_room_on_a_node_that_it_has_not_tried_gives_it_time_anew(self) -> None:
        kept = builders.refused(tried=frozenset({"a"}))

        assert done(nodes=(node("a"), node("b")), guests=(kept,)) == ["promise g b"]

    def test_nodes_that_left_are_forgotten(self) -> None:
        late = trying(for_seconds=40, unschedulable_since=NOW - 100, tried=frozenset({"gone", "b"}))

        assert done(nodes=(node("a"), node("b", used=FULL)), guests=(late,)) == ["tried g a,b"]


@pytest.mark.parametrize("phase", [Phase.GATED, Phase.OPEN])
def test_waiting_guests_of_a_deleted_group_are_told_and_not_opened(phase: Phase) -> None:
    plan = plan_of(is_deleted=True, nodes=(node(),), guests=(guest(phase=phase),))

    assert plan.writes == ()
    assert builders.reasons(plan) == {"g": Reason.GROUP_DELETED}


def test_a_guest_of_a_type_that_went_is_told_which_there_are() -> None:
    plan = plan_of(nodes=(node(),), guests=(guest(type="huge"),))

    assert plan.writes == ()
    assert "small" in plan.waiting[0].message
    assert builders.reasons(plan) == {"g": Reason.NO_TYPE}


class TestTogether:
    """Guests that are alike are served together: each may take the room that is planned for another."""

    def test_a_step_is_taken_for_all_of_them(self) -> None:
        types, full = (machine_type(maximum=3),), tuple(node(name, used=FULL) for name in "abc")
        there = tuple(sleeper(number, at=name) for number, name in enumerate("abc"))
        free = tuple(node(name) for name in "abc")

        def three(**rest: Any) -> tuple[Guest, ...]:
            return tuple(guest(f"g{each}", created_at=each, **rest) for each in range(3))

        promised = tuple(guest(f"g{at}", created_at=at, promised=name) for at, name in enumerate("abc"))
        assert done(types=types, nodes=full, guests=three(), sleepers=there) == [
            "promise g0 a",
            "promise g1 b",
            "promise g2 c",
        ]
        want = ["delete small-0", "delete small-1", "delete small-2"]
        assert done(types=types, nodes=full, guests=promised, sleepers=there) == want
        assert done(types=types, nodes=free, guests=promised) == ["open g0", "open g1", "open g2"]

    def test_no_more_are_opened_than_there_are_machines_and_each_has_a_sleeper_of_its_own_make_way(self) -> None:
        nodes, there = (node("a", cpu=4000), node("b", used=FULL), node("c", used=FULL)), (guest("g"), guest("h"))
        asleep = (sleeper(0, at="b"), sleeper(1, at="c"))

        assert done(types=TWO, nodes=nodes, guests=there, sleepers=asleep) == ["delete small-1", "delete small-0"]
        assert done(types=TWO, nodes=nodes[:2], guests=there, sleepers=asleep[:1]) == ["open g", "delete small-0"]

    @pytest.mark.parametrize(
        "unlike",
        [{"requests": HALF}, {"tried": frozenset({"c"})}, {"barred": frozenset({"c"})}, {"is_independent": False}],
        ids=str,
    )
    def test_one_that_is_not_alike_is_not_served_with_others(self, unlike: dict[str, Any]) -> None:
        nodes = tuple(node(name, cpu=4000) for name in "abc")
        there = (guest("g", created_at=0, **unlike), guest("h", created_at=1))

        (command,) = done(types=(machine_type(maximum=3),), nodes=nodes, guests=there)

        assert command == "open g"

    def test_those_that_depend_on_each_other_are_served_one_at_a_time(self) -> None:
        there = (guest("g", is_independent=False), guest("h", is_independent=False))

        assert done(types=TWO, nodes=(node("a"), node("b")), guests=there) == ["open g"]

    def test_nobody_overtakes_one_in_between_that_could_be_served(self) -> None:
        types = (machine_type(maximum=3), machine_type("other", maximum=1))
        nodes = tuple(node(name, types=("small", "other")) for name in "abc")
        there = (guest("g", created_at=0), guest("x", type="other", created_at=1), guest("h", created_at=2))

        assert done(types=types, nodes=nodes, guests=there) == ["open g"]

    def test_one_in_between_for_whom_there_is_no_room_holds_nobody_back(self) -> None:
        types = (machine_type(maximum=3), machine_type("other", maximum=1))
        nodes = (node("a"), node("b"))
        there = (guest("g", created_at=0), guest("x", type="other", created_at=1), guest("h", created_at=2))

        assert done(types=types, nodes=nodes, guests=there) == ["open g", "open h"]

    def test_they_wait_for_one_of_them_that_is_open_already(self) -> None:
        there = (trying("g"), guest("h", promised="b"))

        assert done(types=TWO, nodes=(node("a"), node("b")), guests=there) == []

    def test_there_is_an_end_to_how_many(self) -> None:
        many = TOGETHER_MAX + 1
        there = tuple(guest(f"g{number}") for number in range(many))

        assert len(done(types=(machine_type(maximum=many),), nodes=(node(cpu=FULL * many),), guests=there)) == many - 1

    def test_refused_ones_are_served_one_at_a_time(self) -> None:
        there = (builders.refused("g"), builders.refused("h"))

        assert done(types=TWO, nodes=(node("a"), node("b")), guests=there) == ["promise g a"]
