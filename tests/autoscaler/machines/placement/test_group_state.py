"""What is kept current by each change says what everything put together afresh would say."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.machines import decide
from autoscaler.machines.model import Group, Guest, MachineType, Node, Phase, Plan, Sleeper
from autoscaler.machines.placement.group_state import GroupState
from tests.autoscaler.machines.builders import NOW, guest, machine_type, node, sleeper

TYPES, NODES = ("small", "other", "gone"), ("a", "b", "c")
ONE, TWO = {"cpu": 1000, "pods": 1}, {"cpu": 2000, "pods": 1}
AGES = st.sampled_from([None, NOW - 100, NOW - 1])
PLACES = st.sampled_from([None, *NODES])
FEW = st.just(frozenset[str]()) | st.frozensets(st.sampled_from(NODES), max_size=2)
RARELY = st.sampled_from([False, False, False, True])
MOSTLY = RARELY.map(lambda rarely: not rarely)


@st.composite
def guests(draw: st.DrawFn) -> Guest:
    phase = draw(st.sampled_from(Phase))
    return guest(
        f"g{draw(st.integers(0, 4))}",
        type=draw(st.sampled_from(TYPES)),
        phase=phase,
        node=draw(st.sampled_from(NODES)) if phase is Phase.BOUND else "",
        requests=draw(st.sampled_from([ONE, TWO])),
        is_terminating=draw(RARELY),
        barred=draw(FEW),
        promised=draw(PLACES),
        tried=draw(FEW),
        trying_since=draw(AGES),
        unschedulable_since=draw(AGES),
    )


@st.composite
def sleepers(draw: st.DrawFn) -> Sleeper:
    phase = draw(st.sampled_from([Phase.GATED, Phase.OPEN, Phase.BOUND]))
    return sleeper(
        draw(st.integers(0, 3)),
        type=draw(st.sampled_from(TYPES)),
        phase=phase,
        at="" if phase is Phase.GATED else draw(st.sampled_from(["", *NODES, "elsewhere"])),
        is_terminating=draw(RARELY),
        is_outdated=draw(RARELY),
        barred=draw(FEW),
    )


NODE = st.builds(
    node,
    st.sampled_from(NODES),
    types=st.frozensets(st.sampled_from(TYPES)),
    cpu=st.sampled_from([1000, 2000, 4000]),
    used=st.sampled_from([0, 1000, 2000]),
    is_ready=MOSTLY,
    is_marked=MOSTLY,
    is_closed=RARELY,
)
OFFERED = st.sets(st.sampled_from(TYPES), min_size=1).flatmap(
    lambda names: st.tuples(*(st.builds(machine_type, st.just(name), st.integers(0, 3)) for name in sorted(names)))
)


@dataclass
class Kept:
    """A group whose state is kept, and the same group as a plain value."""

    state: GroupState = field(default_factory=lambda: GroupState("general"))
    types: tuple[MachineType, ...] = ()
    is_deleted: bool = False
    nodes: dict[str, Node] = field(default_factory=dict)
    guests: dict[str, Guest] = field(default_factory=dict)
    sleepers: dict[str, Sleeper] = field(default_factory=dict)

    def put(self, changed: Node | Guest | Sleeper, *, stays: bool) -> None:
        """Change or remove one thing."""
        match changed:
            case Node():
                self._put(self.nodes, self.state.put_node, changed.name, changed if stays else None)
            case Guest():
                self._put(self.guests, self.state.put_guest, changed.uid, changed if stays else None)
            case Sleeper():
                self._put(self.sleepers, self.state.put_sleeper, changed.uid, changed if stays else None)

    def _put(self, there: dict[str, Any], put: Callable[[str, Any], None], key: str, value: object) -> None:
        put(key, value)
        there.pop(key, None)
        if value is not None:
            there[key] = value

    def offer(self, types: tuple[MachineType, ...], *, is_deleted: bool) -> None:
        self.types, self.is_deleted = types, is_deleted
        self.state.set_types(types, is_deleted=is_deleted)

    @property
    def group(self) -> Group:
        """Return it as a plain value, in another order than it came about."""
        return Group(
            name="general",
            types=self.types,
            nodes=tuple(reversed(self.nodes.values())),
            guests=tuple(reversed(self.guests.values())),
            sleepers=tuple(reversed(self.sleepers.values())),
            is_deleted=self.is_deleted,
        )


def said(plan: Plan) -> tuple[Any, ...]:
    waiting = {each.guest.uid: each for each in plan.waiting}
    return plan.writes, waiting, dict(plan.usage), plan.wake_at


CHANGES = st.lists(
    st.tuples(st.one_of(NODE, guests(), sleepers()), MOSTLY) | st.tuples(OFFERED, RARELY),
    max_size=25,
)


@given(changes=CHANGES, first=OFFERED)
def test_a_state_that_is_kept_current_gives_the_plan_of_one_made_afresh(
    changes: list[tuple[Any, bool]], first: tuple[MachineType, ...]
) -> None:
    kept = Kept()
    kept.offer(first, is_deleted=False)
    for changed, flag in changes:
        if isinstance(changed, tuple):
            kept.offer(changed, is_deleted=flag)
        else:
            kept.put(changed, stays=flag)
        want = decide.decide(kept.group, now=NOW)
        assert said(decide.of_state(kept.state, now=NOW)) == said(want)


def test_types_where_nobody_waits_are_not_decided_again_until_something_of_theirs_changes() -> None:
    kept = Kept()
    kept.offer((machine_type("small"), machine_type("other")), is_deleted=False)
    for each in (node("a", types=("small",)), node("b", types=("other",))):
        kept.put(each, stays=True)
    decide.of_state(kept.state, now=NOW)
    small, other = (share.settled for share in kept.state.shares)
    kept.put(guest("g", type="other"), stays=True)
    decide.of_state(kept.state, now=NOW)
    assert [share.settled for share in kept.state.shares] == [small, None]
    assert other is not None


def test_types_that_come_to_share_a_node_are_placed_in_one_line() -> None:
    kept = Kept()
    kept.offer((machine_type("small"), machine_type("other")), is_deleted=False)
    for there in (node("a", types=("small",)), node("b", types=("other",))):
        kept.put(there, stays=True)
    for waiting in (guest("g"), guest("h", type="other")):
        kept.put(waiting, stays=True)
    assert len(decide.of_state(kept.state, now=NOW).writes) == 2
    kept.put(node("b", types=("small", "other")), stays=True)
    assert len(decide.of_state(kept.state, now=NOW).writes) == 1


def test_a_guest_that_no_node_takes_is_told_how_many_there_are_now() -> None:
    kept = Kept()
    kept.offer((machine_type("small"),), is_deleted=False)
    kept.put(guest("g", barred=frozenset(NODES)), stays=True)
    kept.put(node("a"), stays=True)
    for stays, want in ((True, "of 2 nodes"), (False, "of 1 node ")):
        kept.put(node("b"), stays=stays)
        (waiting,) = decide.of_state(kept.state, now=NOW).waiting
        assert want in waiting.message


def test_room_that_comes_to_be_where_nobody_waits_is_used() -> None:
    kept = Kept()
    kept.offer((machine_type("small"),), is_deleted=False)
    kept.put(sleeper(0), stays=True)
    for used, want in ((1000, 0), (0, 1), (1000, 0)):
        kept.put(node("a", used=used), stays=True)
        assert len(decide.of_state(kept.state, now=NOW).writes) == want
