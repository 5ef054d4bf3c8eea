"""Which node group gets the next nodes: the chain of expanders, and how nodes are dealt out among equals.

Knows how many more nodes each group may get, by itself and under limits that groups share, and never gives more.
"""

import dataclasses
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, assert_never

from autoscaler.api.settings.scaling import Expander
from autoscaler.capacity import model
from autoscaler.capacity.scaleup.placement import demand_rows, supply_rows

_MANY: Final = 1 << 60
_EQUAL: Final = 1e-9
"""Waste and prices that differ by less are equal."""
_NEAR: Final = 0.05
"""Estimates that differ by less are taken as equal: a twentieth of a node, or of the price."""


class Chooser:
    """Groups that may still get nodes, and the choice among them."""

    def __init__(self, field: supply_rows.SupplyRows, policy: model.Policy, *, share: float | None = None) -> None:
        """Begin; where instances are scarce, `share` tells which part of those left all that waits may fill.

        Families of which it would fill more are left out; if it would of all, all but those that hold most are.
        """
        self._field = field
        self._share = share
        self.had_enough = False
        """Whether any family was within the share."""
        chain = policy.expanders
        self._balances = Expander.BALANCED in chain
        cut = chain.index(Expander.BALANCED) if self._balances else len(chain)
        self._first, self._last = chain[:cut], chain[cut + 1 :]
        self._more = [group.more for group in field.groups]
        self._limits = [_Allowance(limit) for limit in field.situation.limits]
        self._nodes = dict.fromkeys(field.places, 0)
        for place, group in zip(field.places, field.groups, strict=True):
            self._nodes[place] += group.nodes
        self.open = supply_rows.mask(group.refused is None and group.more > 0 for group in field.groups)
        """The groups that may get at least one more node."""
        self.open_endless = self.open
        """The same for pods that do not end."""
        self._close_limited()
        self._first_open = self.open

    @property
    def held_back(self) -> int:
        """Return the groups that could get more nodes, had others not used up a limit on instances since."""
        closed = self._first_open & ~self.open
        reached = [limit for limit in self._limits if limit.is_of_instances] if closed else []
        found = 0
        for family in self._families(closed) if reached else ():
            if any(limit.allows(family) <= 0 for limit in reached):
                found |= family.groups & closed
        return found & supply_rows.mask(more > 0 for more in self._more) if found else 0

    def estimate(
        self, groups: int, wanted_of: Callable[[int], Sequence[int]]
    ) -> list[tuple[supply_rows.Family, float]]:
        """Return the families that look best for a demand as a whole, with how many nodes it would fill.

        Demand is taken as a liquid of its mix. Among families that are nearly as good as the best by the first
        expander, fewer and larger nodes come first.
        """
        families, wanted = self._families(groups), wanted_of(groups)
        if self._share is not None:
            families = self._sparing(families, wanted, wanted_of, self._share)
        estimates = [_fluid(wanted, family.allocatable) for family in families]
        judged = self._judge(families, estimates)
        least = min(judged)
        near = least + _NEAR * max(1.0, abs(least))
        good = sorted((ceil(estimates[place][0]), value, place) for place, value in enumerate(judged) if value <= near)
        return [(families[place], estimates[place][0]) for _, _, place in good]

    def score(self, number: int, used: Sequence[float]) -> tuple[float, ...]:
        """Judge a group by what is used of one node, by every expander but balance; less is better."""
        family = [self._family(number)]
        return tuple(_judged(self._field, expander, family, used)[0] for expander in (*self._first, *self._last))

    def best(self, groups: int, used: Sequence[float]) -> list[int]:
        """Return the groups among which only balance decides, those that later expanders prefer first."""
        families = self._families(groups)
        for expander in self._first:
            if len(families) > 1:
                judged = _judged(self._field, expander, families, used)
                least = min(judged) + _EQUAL
                families = [family for family, value in zip(families, judged, strict=True) if value <= least]
        for expander in reversed(self._last):
            judged = _judged(self._field, expander, families, used)
            order = sorted(range(len(families)), key=lambda place: judged[place])
            families = [families[place] for place in order]
        return [number for family in families for number in family.members if groups >> number & 1]

    def next_of(self, groups: Sequence[int]) -> int:
        """Return the group that the next node goes to."""
        if not self._balances:
            return groups[0]
        return min(groups, key=lambda number: self._nodes[self._field.places[number]])

    def open_for(self, portion: demand_rows.Portion) -> int:
        """Return the groups that may get at least one more node for a portion."""
        return self.open_endless if portion.row.demand.is_endless else self.open

    def reserve(self, pool: str, nodes: int) -> None:
        """Take off what pods that do not end will use of nodes that are there or on their way."""
        for limit in self._limits:
            limit.reserve(pool, nodes)
        self._close_limited()

    def deal(self, groups: Sequence[int], wanted: int, *, is_endless: bool = False) -> list[tuple[int, int]]:
        """Take nodes from groups: evenly over zones if balance is asked for, else by their order."""
        given: dict[int, int] = {}
        hands = self._hands(groups)
        while wanted > 0 and hands:
            step, lowest = self._step(hands, wanted)
            for hand in lowest[:wanted] if step == 1 else lowest:
                taken = self._take(hand[0], min(step, wanted), is_endless=is_endless)
                wanted -= taken
                given[hand[0]] = given.get(hand[0], 0) + taken
                if taken < step and wanted > 0:
                    hand.pop(0)
            hands = [hand for hand in hands if hand]
        return [(number, nodes) for number, nodes in sorted(given.items()) if nodes]

    def why_closed(self, number: int, *, is_endless: bool = False) -> model.Rejection | None:
        """Tell why a group may get no more nodes, for pods that end or do not; None if it may."""
        group = self._field.groups[number]
        if group.refused is not None:
            return group.refused
        if self._more[number] <= 0:
            most = group.nodes + group.more
            return model.Rejection(reason=model.Reason.AT_MAXIMUM, wanted=most - self._more[number], available=most)
        for limit in self._limits:
            if limit.allows(self._family(number), is_endless=is_endless) <= 0:
                return limit.rejection(self._family(number), is_endless=is_endless)
        return None

    def _sparing(
        self,
        families: list[supply_rows.Family],
        wanted: Sequence[int],
        wanted_of: Callable[[int], Sequence[int]],
        share: float,
    ) -> list[supply_rows.Family]:
        """Leave out families with which limits on instances would be reached before all is placed."""
        for limit in self._limits:
            bound = [each for each in families if limit.is_of_instances and limit.allows(each) < _MANY]
            if bound:
                under = sum(each.groups for each in self._field.families if limit.allows(each) < _MANY)
                everything, most = wanted_of(under & self.open), limit.allows(bound[0]) * share
                enough = [each for each in bound if nodes_filled(everything, each) <= most]
                self.had_enough = self.had_enough or bool(enough)
                least = min(nodes_filled(wanted, each) for each in bound) * (1 + _NEAR)
                kept = enough or [each for each in bound if nodes_filled(wanted, each) <= least]
                families = [each for each in families if each in kept or each not in bound]
        return families

    def _judge(
        self, families: Sequence[supply_rows.Family], estimates: Sequence[tuple[float, list[float]]]
    ) -> list[float]:
        """Judge each family by what it would hold and the first expander, balance aside."""
        chain = (*self._first, *self._last)
        if not chain:
            return [0.0] * len(families)
        if chain[0] is Expander.LEAST_WASTE:
            return [family.waste(used) for family, (_, used) in zip(families, estimates, strict=True)]
        pairs = zip(families, estimates, strict=True)
        return [_judged(self._field, chain[0], [family], used)[0] for family, (_, used) in pairs]

    def _families(self, groups: int) -> list[supply_rows.Family]:
        return [family for family in self._field.families if family.groups & groups]

    def _hands(self, groups: Sequence[int]) -> list[list[int]]:
        """Sort groups into those that take turns (one per pool and zone) and those that follow one another."""
        if not self._balances:
            return [list(groups)] if groups else []
        hands: dict[tuple[str, str], list[int]] = {}
        for number in groups:
            hands.setdefault(self._field.places[number], []).append(number)
        return list(hands.values())

    def _step(self, hands: list[list[int]], wanted: int) -> tuple[int, list[list[int]]]:
        """Return how many nodes the least filled places get each, until the next one is level with them."""
        if not self._balances:
            return wanted, hands
        counts = [self._nodes[self._field.places[hand[0]]] for hand in hands]
        low = min(counts)
        lowest = [hand for hand, count in zip(hands, counts, strict=True) if count == low]
        above = min((count for count in counts if count > low), default=low + wanted)
        return max(1, min(above - low, wanted // len(lowest))), lowest

    def _take(self, number: int, wanted: int, *, is_endless: bool) -> int:
        family = self._family(number)
        allowed = (limit.allows(family, is_endless=is_endless) for limit in self._limits)
        taken = min(wanted, self._more[number], *allowed)
        if taken > 0:
            self._more[number] -= taken
            self._nodes[self._field.places[number]] += taken
            for limit in self._limits:
                limit.spend(family, taken, is_endless=is_endless)
        if self._more[number] <= 0:
            self.open &= ~(1 << number)
            self.open_endless &= self.open
        self._close_limited()
        return max(taken, 0)

    def _close_limited(self) -> None:
        for limit in self._limits:
            for family in self._field.families if limit.is_new() else ():
                if limit.allows(family) <= 0:
                    self.open &= ~family.groups
                if limit.allows(family, is_endless=True) <= 0:
                    self.open_endless &= ~family.groups

    def _family(self, number: int) -> supply_rows.Family:
        return self._field.families[self._field.family_of[number]]


class _Allowance:
    """What is left of a shared limit."""

    def __init__(self, limit: model.Limit) -> None:
        self._limit = limit
        self._left = limit.left
        self._told = False
        self.is_of_instances = limit.kind in {model.LimitKind.POOL_INSTANCES, model.LimitKind.CLUSTER_NODES}
        """Whether it counts nodes, however large."""

    def allows(self, family: supply_rows.Family, *, is_endless: bool = False) -> int:
        """Return how many more nodes of a family it allows."""
        if self._limit.pool not in {"", family.pool}:
            return _MANY
        return max(0, self._left) // self._limit.takes(family.cpu_millis, is_endless=is_endless)

    def spend(self, family: supply_rows.Family, nodes: int, *, is_endless: bool = False) -> None:
        if self._limit.pool in {"", family.pool}:
            self._left -= nodes * self._limit.takes(family.cpu_millis, is_endless=is_endless)
            self._told = False

    def reserve(self, pool: str, nodes: int) -> None:
        """Take off what nodes will use beyond what was expected, as they get pods that do not end."""
        if self._limit.pool in {"", pool} and self._limit.each_endless is not None:
            self._left -= nodes * max(0, self._limit.each_endless - self._limit.each)
            self._told = False

    def is_new(self) -> bool:
        """Tell whether anything was spent since this was last asked."""
        was, self._told = self._told, True
        return not was

    def rejection(self, family: supply_rows.Family, *, is_endless: bool = False) -> model.Rejection:
        """Return the limit with all that was given, and how much one more node would take."""
        wanted = self._limit.takes(family.cpu_millis, is_endless=is_endless)
        limit = self._limit.with_more(self._limit.left - self._left)
        if is_endless and limit.each_endless is not None:
            limit = dataclasses.replace(limit, each=wanted)
        return model.Rejection(reason=model.Reason.LIMIT, wanted=wanted, numbers=limit)


def nodes_filled(wanted: Sequence[int], family: supply_rows.Family) -> float:
    """Estimate how many nodes of a family a demand would fill."""
    return _fluid(wanted, family.allocatable)[0]


def _judged(
    field: supply_rows.SupplyRows, expander: Expander, families: Sequence[supply_rows.Family], used: Sequence[float]
) -> list[float]:
    """Judge families by one expander; less is better. Balance is reckoned apart: to it all families are equal."""
    match expander:
        case Expander.LEAST_WASTE:
            return [family.waste(used) for family in families]
        case Expander.PRICE:
            value = sum(amount * worth for amount, worth in zip(used, field.values, strict=True)) or 1.0
            return [family.price / value for family in families]
        case Expander.BALANCED:
            return [0.0] * len(families)
        case _:
            assert_never(expander)


def _fluid(wanted: Sequence[int], has: Sequence[int]) -> tuple[float, list[float]]:
    """Return how many nodes a liquid would fill, and what one of them would hold."""
    nodes = 0.0
    for want, room in zip(wanted, has):  # noqa: B905 (this is asked very often)
        if want > nodes * room and room:
            nodes = want / room
    share = nodes if nodes > 1.0 else 1.0  # noqa: FURB136 (as above)
    return nodes, [want / share for want in wanted]
