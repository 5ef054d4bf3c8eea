"""Rules 1 to 3 of machines, each broken in one clause: the exploration must find something wrong with every one."""

from typing import Final

from autoscaler.machines import model
from autoscaler.machines.placement import counts, doomed, group_state, guests, places, sleepers
from tests.model import breaking
from tests.model.breaking import Mutation
from tests.model.machines import explorer, scenarios


def is_found(mutation: Mutation) -> bool:
    """Tell whether the exploration finds something wrong, or does not come to an end."""
    scenario = next(each for each in scenarios.SMALL if each.name == mutation.found_in)
    with breaking.broken(mutation):
        result = explorer.explore(scenario, most=scenarios.SMALL_MOST)
    return result.violation is not None or not result.is_whole


ROOM: Final = "a guest takes a sleeper's room"
SHARED: Final = "two types share nodes, and a pod of others comes and goes"
REFUSED: Final = "the scheduler refuses a guest on a node"
EVERYWHERE: Final = "the scheduler refuses a guest everywhere"
EVERYWHERE_HELD: Final = "the scheduler refuses a guest everywhere, and sleepers hold room"
BARRED: Final = "a guest may not go where its type has room"
ONE: Final = "room is held for one of two types"
BOTH: Final = "room is held for both types"
BEFORE: Final = "guests come before sleepers"
FAILS: Final = "a node fails and another is dropped"
HELD: Final = "a guest has a gate of others"

MUTATIONS: Final = (
    Mutation(
        rule=1,
        name="open sleepers do not count",
        owner=counts.Count,
        function="may_open",
        old="self.open_guests + self.open_sleepers",
        new="self.open_guests",
        found_in=ROOM,
    ),
    Mutation(
        rule=1,
        name="open guests do not count",
        owner=counts.Count,
        function="may_open",
        old="self.open_guests + self.open_sleepers",
        new="self.open_sleepers",
        found_in=REFUSED,
    ),
    Mutation(
        rule=1,
        name="unbound guests do not count",
        owner=counts.Count,
        function="count_guest",
        old="by * guest.is_open",
        new="by * (guest.phase is Phase.BOUND)",
        found_in=REFUSED,
    ),
    Mutation(
        rule=1,
        name="guests that are being deleted do not count",
        owner=counts.Count,
        function="count_guest",
        old="by * guest.is_open",
        new="by * (guest.is_open and not guest.is_terminating)",
        found_in=ROOM,
    ),
    Mutation(
        rule=1,
        name="unbound sleepers do not count",
        owner=counts.Count,
        function="count_sleeper",
        old="by * sleeper.is_open",
        new="by * (sleeper.phase is Phase.BOUND)",
        found_in=ROOM,
    ),
    Mutation(
        rule=2,
        name="guests are served all at once",
        owner=guests,
        function="place",
        old="if _is_turn(placing, turn, guest, spot):",
        new="if True:",
        found_in=BOTH,
    ),
    Mutation(
        rule=2,
        name="an open guest does not hold others back",
        owner=guests,
        function="_serve",
        old="if command is None and turn is not Turn.TRYING:",
        new="if command is None:",
        found_in=BOTH,
    ),
    Mutation(
        rule=2,
        name="room counts on nodes that are not ready",
        owner=group_state.GroupState,
        function="_look_again",
        old="node is not None and node.is_usable",
        new="True",
        found_in=FAILS,
    ),
    Mutation(
        rule=2,
        name="a guest is looked at while it has gates of others",
        owner=model.Guest,
        function="is_waiting",
        old="self.phase in {Phase.GATED, Phase.OPEN}",
        new="self.phase in {Phase.HELD, Phase.GATED, Phase.OPEN}",
        found_in=HELD,
    ),
    Mutation(
        rule=2,
        name="a refused guest holds others back for ever",
        owner=guests,
        function="_is_over",
        old="return over_at is not None and now >= over_at",
        new="return False",
        found_in=REFUSED,
    ),
    Mutation(
        rule=2,
        name="nodes that were tried are not recorded",
        owner=guests,
        function="_tried",
        old="frozenset({*kept, *free})",
        new="frozenset(kept)",
        found_in=REFUSED,
    ),
    Mutation(
        rule=2,
        name="nodes that were tried before are forgotten",
        owner=guests,
        function="_tried",
        old="frozenset({*kept, *free})",
        new="frozenset(free)",
        found_in=EVERYWHERE_HELD,
    ),
    Mutation(
        rule=2,
        name="nodes that were tried are planned again",
        owner=places.Fits,
        function="_may_go",
        old=" and node.name not in tried",
        new="",
        found_in=REFUSED,
    ),
    Mutation(
        rule=2,
        name="a refused guest comes first",
        owner=guests,
        function="_turn",
        old="return Turn.REFUSED if guest.trying_since is None or",
        new="return Turn.TRYING if guest.trying_since is None or",
        found_in=EVERYWHERE,
    ),
    Mutation(
        rule=2,
        name="new room does not begin a refused guest's time anew",
        owner=guests,
        function="_next_of_open",
        old="trying_since=now,",
        new="trying_since=None,",
        found_in=REFUSED,
    ),
    Mutation(
        rule=2,
        name="nothing is given up for a refused guest",
        owner=guests,
        function="_next_of_open",
        old="if turn is Turn.TRYING and not spot.gives_up:",
        new="if True:",
        found_in=REFUSED,
    ),
    Mutation(
        rule=3,
        name="sleepers are opened for room that guests are planned on",
        owner=guests,
        function="place",
        old="rooms.plan(guest, spot)",
        new="pass",
        found_in=BEFORE,
    ),
    Mutation(
        rule=3,
        name="sleepers are opened where an open guest may go",
        owner=guests,
        function="place",
        old="placing.contested.append(rooms.free_nodes(guest))",
        new="pass",
        found_in=EVERYWHERE,
    ),
    Mutation(
        rule=3,
        name="sleepers are opened where a guest goes that is opened now",
        owner=guests,
        function="_serve",
        old="placing.contested.append(means.rooms.free_nodes(guest))",
        new="pass",
        found_in=EVERYWHERE,
    ),
    Mutation(
        rule=3,
        name="a sleeper stays whose node is not ready",
        owner=doomed,
        function="why",
        old="if not node.is_ready:",
        new="if False:",
        found_in=FAILS,
    ),
    Mutation(
        rule=3,
        name="a sleeper stays whose room went",
        owner=doomed,
        function="_why_not_bound",
        old="if not _has_room(node, sleeper):",
        new="if False:",
        found_in=EVERYWHERE,
    ),
    Mutation(
        rule=3,
        name="sleepers stay when guests use or want their machines",
        owner=sleepers,
        function="surplus",
        old="max(0, len(there) - len(spared) - wanted)",
        new="0",
        found_in=BARRED,
    ),
    Mutation(
        rule=3,
        name="more sleepers are opened than are wanted",
        owner=sleepers,
        function="openings",
        old="count.may_open and count.open_sleepers < count.sleepers_wanted",
        new="count.may_open",
        found_in=SHARED,
    ),
    Mutation(
        rule=3,
        name="sleepers are wanted although guests wait",
        owner=counts.Count,
        function="sleepers_wanted",
        old="self.maximum - self.used - self.waiting",
        new="self.maximum - self.used",
        found_in=BARRED,
    ),
    Mutation(
        rule=3,
        name="sleepers are wanted although guests use machines",
        owner=counts.Count,
        function="sleepers_wanted",
        old="self.maximum - self.used - self.waiting",
        new="self.maximum - self.waiting",
        found_in=BARRED,
    ),
    Mutation(
        rule=3,
        name="a sleeper goes before its node is promised",
        owner=guests,
        function="_next_of_promised",
        old="if guest.promised != spot.node:",
        new="if False:",
        found_in=ONE,
    ),
    Mutation(
        rule=3,
        name="a sleeper is not given up for a promised guest",
        owner=guests,
        function="_next",
        old="return _next_of_promised(guest, spot)",
        new="return None",
        found_in=REFUSED,
    ),
    Mutation(
        rule=3,
        name="room of a promised node is given to another",
        owner=guests,
        function="_turn",
        old="return Turn.PROMISED if guest.promised is not None else Turn.GATED",
        new="return Turn.GATED",
        found_in=ONE,
    ),
)
