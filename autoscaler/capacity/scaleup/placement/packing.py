"""How portions fill nodes: first what is there, then what was asked for, then new nodes, each filled from the largest.

A node's content is found once and repeated on as many nodes as the demand allows, so work follows the number of
shapes and not that of pods. With one kind of node, filled from the largest alone, this is first-fit decreasing exactly.

Sees to resources, selectors, taints, host rules and the bounds of groups. What zones ask for it is told: a portion
names its zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api import keys
from autoscaler.capacity.scaleup.placement import choosing, demand_rows, index, rules, supply_rows

_BLOCK: Final = 24
"""Portions that are skipped together where the node has too little left for the smallest of them."""
_TRIED: Final = 3
"""Families whose nodes are filled to see which is best, out of those that look best."""
_REPEAT: Final = 4
"""The choice of a family holds for this fraction of the nodes that are still to come."""

Content = list[tuple[demand_rows.Portion, int]]


@dataclass(slots=True, kw_only=True)
class Packed:
    """Where portions went."""

    rooms: dict[int, Content] = field(default_factory=dict)
    asked: list[tuple[int, int, Content]] = field(default_factory=list)
    """Which, on how many nodes, and what on each."""
    groups: list[tuple[int, int, Content]] = field(default_factory=list)


def pack(
    supply: supply_rows.SupplyRows,
    portions: Sequence[demand_rows.Portion],
    chooser: choosing.Chooser,
    *,
    may_deal: bool = True,
) -> Packed:
    """Place as much of every portion as there is room for; what is left stays in the portion.

    `may_deal`: a new node may also begin with its share of everything, which is better where pods are many.
    """
    packed = Packed()
    _fill_rooms(supply, portions, packed)
    _fill_asked(supply, portions, packed)
    _reserve(supply, chooser, packed)
    _Launching(supply, portions, chooser, packed, ways=(True, False) if may_deal else (False,)).run()
    return packed


def _fill_rooms(supply: supply_rows.SupplyRows, portions: Sequence[demand_rows.Portion], packed: Packed) -> None:
    rooms: dict[int, tuple[list[int], rules.Tally]] = {}
    for portion in portions:
        for number in index.bits(portion.rooms):
            if not portion.left:
                break
            known = rooms.get(number)
            if known is None:
                known = rooms[number] = (list(supply.vector(supply.rooms[number].free)), _tally(supply, number))
            count = _fitting(portion, portion.left, *known)
            if count:
                _take(portion, count, *known)
                portion.left -= count
                packed.rooms.setdefault(number, []).append((portion, count))


def _tally(supply: supply_rows.SupplyRows, number: int) -> rules.Tally:
    tally = rules.Tally()
    for pod_rules, count in supply.pod_rules_of[number] if supply.pod_rules_of else ():
        if pod_rules.host is not rules.NOTHING:
            tally.add(pod_rules.host, count)
    return tally


def _fill_asked(supply: supply_rows.SupplyRows, portions: Sequence[demand_rows.Portion], packed: Packed) -> None:
    for number, asked in enumerate(supply.asked):
        order = _PackingOrder([portion for portion in portions if portion.left and portion.asked >> number & 1])
        free = supply.vector(asked.template.allocatable)
        nodes = asked.nodes
        while nodes > 0:
            node = _Node(free)
            order.fill(node)
            content = list(node.content.items())
            if not content:
                break
            times = min(nodes, *(portion.left // count for portion, count in content))
            nodes -= times
            packed.asked.append((number, times, content))
            for portion, count in content:
                portion.left -= count * times


def _reserve(supply: supply_rows.SupplyRows, chooser: choosing.Chooser, packed: Packed) -> None:
    """Have budgets count what pods that do not end will use of nodes that nothing else works on."""
    for number, content in packed.rooms.items():
        room = supply.rooms[number]
        if room.is_idle and _is_endless(content):
            chooser.reserve(room.labels.get(keys.INSTANCE_POOL, ""), 1)
    for number, nodes, content in packed.asked:
        if _is_endless(content):
            chooser.reserve(supply.asked[number].key.pool, nodes)


def _is_endless(content: Content) -> bool:
    return any(portion.row.demand.is_endless for portion, _ in content)


def _fitting(portion: demand_rows.Portion, count: int, free: list[int], tally: rules.Tally) -> int:
    """Return how many pods of a portion fit into what is free, at most so many."""
    for resource, amount in portion.amounts:
        fits = free[resource] // amount
        if fits < count:
            if fits <= 0:
                return 0
            count = fits
    if portion.together and not all(map(tally.counts.get, portion.together)):
        return 0
    if portion.parts:
        trial = tally.copy()
        return int(all(joins(part, own, trial) for part, own in portion.parts))
    return tally.most(portion.host, count) if portion.host else count


def _take(portion: demand_rows.Portion, count: int, free: list[int], tally: rules.Tally) -> None:
    for resource, amount in portion.amounts:
        free[resource] -= amount * count
    if portion.host:
        tally.add(portion.host, count)
    for part, own in portion.parts:
        joins(part, own, tally)


def joins(portion: demand_rows.Portion, count: int, tally: rules.Tally) -> bool:
    """Count pods on a host, and tell whether that bears all of them."""
    if portion.host is None:
        return True
    is_borne = tally.most(portion.host, count) == count
    tally.add(portion.host, count)
    return is_borne


class _PackingOrder:
    """Portions in the order of packing, in blocks that can be passed over at once."""

    def __init__(self, portions: Sequence[demand_rows.Portion], bit: int = -1) -> None:
        self._bit = bit
        """The group that is filled: what has another tier to go to is passed over."""
        parts = [list(portions[start : start + _BLOCK]) for start in range(0, len(portions), _BLOCK)]
        self._blocks = [(_least(part), part) for part in parts]

    def fill(self, node: "_Node") -> None:
        """Add to a node whatever fits, largest first."""
        free, bit = node.free, self._bit
        for place, (least, part) in enumerate(self._blocks):
            for resource, amount in least:
                if free[resource] < amount:
                    break
            else:
                gone = 0
                for portion in part:
                    if not portion.left:
                        gone += 1
                        continue
                    for resource, amount in portion.amounts:
                        if free[resource] < amount:
                            break
                    else:
                        if portion.now & bit:
                            node.add(portion, portion.left)
                if gone * 2 > len(part):
                    live = [portion for portion in part if portion.left]
                    self._blocks[place] = (_least(live), live)

    def sample(self, node: "_Node", nodes: float) -> None:
        """Add to a node its share of everything, if all were dealt out evenly to so many nodes."""
        owed = 0.0
        for _, part in self._blocks:
            for portion in part:
                owed += portion.left / nodes
                if owed >= 1.0 and portion.now & self._bit:
                    node.add(portion, int(owed))
                    owed -= int(owed)


class _Node:
    """A node that is being filled."""

    __slots__ = ("content", "free", "tally")

    def __init__(self, free: Sequence[int]) -> None:
        self.free = list(free)
        self.tally = rules.Tally()
        self.content: dict[demand_rows.Portion, int] = {}

    def add(self, portion: demand_rows.Portion, wanted: int) -> None:
        """Add as many pods of a portion as are wanted, left and fit."""
        count = min(wanted, portion.left - self.content.get(portion, 0))
        if count > 0:
            count = _fitting(portion, count, self.free, self.tally)
        if count > 0:
            _take(portion, count, self.free, self.tally)
            self.content[portion] = self.content.get(portion, 0) + count


def _least(part: Sequence[demand_rows.Portion]) -> supply_rows.Amounts:
    """Return the least that any of the portions needs of each resource."""
    if not part:
        return ((0, rules.UNBOUND),)
    least = map(min, zip(*(portion.row.vector for portion in part), strict=True))
    return tuple((resource, amount) for resource, amount in enumerate(least) if amount)


@dataclass(slots=True, kw_only=True)
class _Proposal:
    """What a new node could hold, and the groups that are best for it."""

    content: Content
    groups: list[int]
    score: tuple[float, ...]


@dataclass(slots=True, kw_only=True)
class _Settled:
    """A choice, and for how many nodes it holds before it is looked at again."""

    family: int
    evenly: bool
    nodes: int


class _Launching:
    """New nodes for what is left."""

    def __init__(
        self,
        supply: supply_rows.SupplyRows,
        portions: Sequence[demand_rows.Portion],
        chooser: choosing.Chooser,
        packed: Packed,
        *,
        ways: tuple[bool, ...],
    ) -> None:
        self._ways = ways
        """How a new node may be filled: evenly, or with the largest first."""
        self._ground = supply
        self._chooser = chooser
        self._packed = packed
        self._portions = [portion for portion in portions if portion.left]
        self._orders: dict[int, _PackingOrder] = {}
        self._turning = [each for each in self._portions if len(each.tiers) > 1 or each.row.demand.is_endless]
        """Those of which not all groups that are open are theirs to try."""
        self._open = (-1, -1)
        self._alone: dict[int, int] = {}
        """Pods that need a node each, by the groups that would take them."""
        self._wanted = self._sums()
        self._settled: dict[int, _Settled] = {}
        """What was found best, by the groups that take a portion."""

    def run(self) -> None:
        for portion in self._portions:
            while portion.left and not portion.together:  # who joins others starts no node
                self._look_anew()
                choices = portion.choices(self._chooser.open_for(portion))
                if not choices or not self._commit(self._propose(portion, choices), portion.groups):
                    break

    def _sums(self) -> dict[int, list[int]]:
        """Add up what is left, by the groups that would take it."""
        sums: dict[int, list[int]] = {}
        for portion in self._portions:
            total = sums.setdefault(portion.kind, [0] * len(self._ground.resources))
            if portion.row.is_alone:
                self._alone[portion.kind] = self._alone.get(portion.kind, 0) + portion.left
            for resource, amount in portion.amounts:
                total[resource] += amount * portion.left
        return sums

    def _propose(self, seed: demand_rows.Portion, choices: int) -> _Proposal:
        settled = self._settled.get(seed.groups)
        if settled is not None and self._ground.families[settled.family].groups & choices:
            family = self._ground.families[settled.family]
            return self._filled(seed, self._first(family, choices), evenly=settled.evenly)
        candidates = self._chooser.estimate(choices, self._all_wanted)
        if candidates[0][1] <= 1.0:  # all of it fits on one node, and the others are no smaller
            trials = [(candidates[0][0], False)]
        else:
            trials = [(family, evenly) for family, _ in candidates[:_TRIED] for evenly in self._ways]
        proposals = [self._filled(seed, self._first(family, choices), evenly=evenly) for family, evenly in trials]
        best = min(range(len(proposals)), key=lambda place: proposals[place].score)
        self._settle(seed.groups, *trials[best], nodes=candidates[0][1])
        return proposals[best]

    def _settle(self, groups: int, family: supply_rows.Family, evenly: bool, *, nodes: float) -> None:  # noqa: FBT001
        alone = sum(count for kind, count in self._alone.items() if kind & groups)
        self._settled[groups] = _Settled(
            family=self._ground.family_of[family.members[0]],
            evenly=evenly,
            nodes=int(max(nodes, alone)) // _REPEAT,
        )

    def _all_wanted(self, choices: int) -> list[int]:
        """Add up what is left that might go to any of these groups."""
        wanted = [0] * len(self._ground.resources)
        for kind, total in self._wanted.items():
            if kind & choices:
                wanted = [one + other for one, other in zip(wanted, total, strict=True)]
        return wanted

    def _first(self, family: supply_rows.Family, choices: int) -> int:
        return self._chooser.next_of([number for number in family.members if choices >> number & 1])

    def _filled(self, seed: demand_rows.Portion, number: int, *, evenly: bool) -> _Proposal:
        """Fill a node of a group, then look for the best group that holds the same."""
        family = self._ground.families[self._ground.family_of[number]]
        node, order = _Node(family.allocatable), self._order(number)
        nodes = choosing.nodes_filled(self._all_wanted(1 << number), family) if evenly else 1.0
        node.add(seed, max(1, int(seed.left / max(nodes, 1.0))) if evenly else seed.left)
        if nodes > 1.0:
            order.sample(node, nodes)
        order.fill(node)
        used = [has - left for has, left in zip(family.allocatable, node.free, strict=True)]
        content = list(node.content.items())
        groups = self._chooser.best(self._holding(content, used), used)
        return _Proposal(content=content, groups=groups, score=self._chooser.score(groups[0], used))

    def _order(self, number: int) -> _PackingOrder:
        order = self._orders.get(number)
        if order is None:
            bit = 1 << number
            order = self._orders[number] = _PackingOrder([p for p in self._portions if p.left and p.groups & bit], bit)
        return order

    def _look_anew(self) -> None:
        """Groups have closed: it may be the turn of other tiers."""
        if (self._chooser.open, self._chooser.open_endless) != self._open:
            self._open = (self._chooser.open, self._chooser.open_endless)
            for portion in self._turning:
                portion.now = portion.choices(self._chooser.open_for(portion))

    def _holding(self, content: Content, used: Sequence[int]) -> int:
        """Return the open groups that take a whole content."""
        found = self._chooser.open
        for portion, _ in content:
            found &= portion.groups & portion.now
        return found & self._ground.groups_with(enumerate(used))

    def _commit(self, proposal: _Proposal, groups: int) -> bool:
        """Repeat a content on as many nodes as demand and groups allow; tell whether there was any."""
        times = min(portion.left // count for portion, count in proposal.content)
        dealt = self._chooser.deal(proposal.groups, times, is_endless=_is_endless(proposal.content))
        for number, nodes in dealt:
            self._packed.groups.append((number, nodes, proposal.content))
            for portion, count in proposal.content:
                portion.left -= count * nodes
                if portion.row.is_alone:
                    self._alone[portion.kind] -= count * nodes
                total = self._wanted[portion.kind]
                for resource, amount in portion.amounts:
                    total[resource] -= amount * count * nodes
            self._count_down(groups, nodes)
        return bool(dealt)

    def _count_down(self, groups: int, nodes: int) -> None:
        settled = self._settled.get(groups)
        if settled is not None:
            settled.nodes -= nodes
            if settled.nodes <= 0:
                del self._settled[groups]
