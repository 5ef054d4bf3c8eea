"""Which zone each part of a demand goes to, where rules between pods look at zones.

Decides zones only; whether there is room is seen when packing, and what packing found out (`Learnt`) leads to another
division. Demands that no such rule touches are left free: any zone will do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoscaler.capacity.scaleup.placement import demand_rows, levels, rules, supply_rows


@dataclass(slots=True, kw_only=True)
class Learnt:
    """What earlier attempts found out."""

    caps: dict[tuple[int, str], int] = field(default_factory=dict)
    """How many pods of a lot a zone took when it was asked for more."""
    left: dict[int, dict[str, int]] = field(default_factory=dict)
    """By party (its first lot): the zones tried, and how many pods found no room there."""


@dataclass(slots=True, kw_only=True)
class Division:
    """Portions of all lots, in the order of packing."""

    portions: list[demand_rows.Portion]
    parties: dict[int, tuple[str, list[int]]]
    """Lots that must share a zone, by the first of them: the zone, and all of them."""
    options: dict[int, list[str]]
    """The zones that each zonal lot could go to."""


def divide(
    field_: supply_rows.SupplyRows,
    all_lots: Sequence[demand_rows.DemandRow],
    *,
    census: "Census",
    open_groups: int,
    learnt: Learnt,
) -> Division:
    """Cut lots into portions by zone."""
    if not any(lot.standing.is_zonal for lot in all_lots):
        everywhere = (-1, -1, -1)
        portions = [demand_rows.Portion(lot, lot.demand.count, None, everywhere) for lot in all_lots]
        return Division(portions=portions, parties={}, options={})
    return _Divider(field_, all_lots, census=census, open_groups=open_groups, learnt=learnt).divide()


class _Divider:
    def __init__(
        self,
        field_: supply_rows.SupplyRows,
        all_lots: Sequence[demand_rows.DemandRow],
        *,
        census: "Census",
        open_groups: int,
        learnt: Learnt,
    ) -> None:
        self._ground = field_
        self._lots = all_lots
        self._learnt = learnt
        self._zones = list(field_.zones)
        self._masks = field_.zones
        self._open = open_groups
        self._census = census
        self._counts = {rule: dict(counts) for rule, counts in census.counts.items()}
        self._tallies = {zone: tally.copy() for zone, tally in census.tallies.items()}
        self._present = {rule: set(where) for rule, where in census.present.items()}
        self._load = dict.fromkeys(self._zones, 0)
        self._given: dict[int, dict[str, int]] = {}
        self._parties: dict[int, tuple[str, list[int]]] = {}
        self._options: dict[int, list[str]] = {}

    def divide(self) -> Division:
        zonal = sorted((lot for lot in self._lots if lot.standing.is_zonal), key=self._rank)
        for lot in zonal:
            self._options[lot.number] = [zone for zone in self._zones if self._reachable(lot, zone)]
        parties = _parties(zonal, self._present)
        for lot in zonal:
            if lot.number in self._given:
                continue
            party = parties.get(lot.number)
            if party is None:
                self._spread(lot)
            else:
                self._gather(party)
        portions = [portion for lot in self._lots for portion in self._portions(lot)]
        return Division(portions=portions, parties=self._parties, options=self._options)

    def _rank(self, lot: demand_rows.DemandRow) -> tuple[int, int]:
        """Those that others want to join first, then those that join, then by how little choice they have."""
        standing = lot.standing
        if standing.wanted and not standing.company:
            return (0, lot.number)
        if standing.company:
            return (1, lot.number)
        if len([zone for zone in self._zones if self._reachable(lot, zone)]) == 1:
            return (2, lot.number)
        if standing.zone is not rules.NOTHING:
            return (3 if standing.zone.holding or _is_held(standing.zone) else 4, lot.number)
        return (5 if standing.counted else 6, lot.number)

    def _reachable(self, lot: demand_rows.DemandRow, zone: str) -> bool:
        rooms, asked, groups = self._masks[zone]
        return bool(lot.rooms & rooms or lot.asked & asked or lot.groups & groups & self._open)

    def _caps(self, lot: demand_rows.DemandRow) -> dict[str, int]:
        """Return how many pods of a lot each zone may get, spreads aside."""
        caps: dict[str, int] = {}
        for zone in self._options[lot.number]:
            most = min(lot.demand.count, self._learnt.caps.get((lot.number, zone), lot.demand.count))
            if all(zone in self._present.get(rule, ()) for rule in lot.standing.company):
                caps[zone] = (
                    self._tallies[zone].most(lot.standing.zone, most)
                    if lot.standing.zone is not rules.NOTHING
                    else most
                )
        return caps

    def _spread(self, lot: demand_rows.DemandRow) -> None:
        caps = self._caps(lot)
        preferred = sorted(caps, key=lambda zone: (self._load[zone], zone))
        self._give(lot, levels.share_out(lot.demand.count, caps, self._levels(lot, caps), preferred))

    def _levels(self, lot: demand_rows.DemandRow, caps: dict[str, int]) -> list[levels.Levels]:
        """Return the spreads that bind a lot; one that only matches spreads of others keeps those even if it can."""
        found = []
        for spread in lot.standing.spreads:
            domains = self._census.domains(spread.rule) | {zone for zone, cap in caps.items() if cap > 0}
            counts = self._counts[spread.rule]
            found.append(
                levels.Levels(
                    counts={zone: counts.get(zone, 0) for zone in domains},
                    max_skew=spread.max_skew,
                    min_domains=spread.min_domains,
                    counts_itself=spread.counts_itself,
                )
            )
        if not any(one.counts_itself for one in found):
            counted = lot.standing.counted[0] if lot.standing.counted else None
            counts = self._load if counted is None else self._counts[counted]
            found.append(levels.Levels(counts={zone: counts.get(zone, 0) for zone in caps}))
        return found

    def _gather(self, party: list[demand_rows.DemandRow]) -> None:
        """Send lots that want to be together to one zone: where most find room, then where least is planned yet."""
        name = min(lot.number for lot in party)
        tried = self._learnt.left.get(name, {})
        options = {zone for lot in party for zone in self._options[lot.number]}
        zone = min(options, key=lambda zone: self._attraction(party, zone, tried), default=None)
        for lot in party:
            self._given[lot.number] = {}
        if zone is None:
            return
        self._parties[name] = (zone, [lot.number for lot in party])
        for lot in sorted(party, key=lambda lot: lot.number):
            if zone in self._options[lot.number]:
                self._join(lot, zone)

    def _attraction(
        self, party: list[demand_rows.DemandRow], zone: str, tried: dict[str, int]
    ) -> tuple[int, int, int, int, str]:
        missing = sum(0 if zone in self._options[lot.number] else lot.demand.count for lot in party)
        absent = sum(
            any(rule in self._present and zone not in self._present[rule] for rule in lot.standing.company)
            for lot in party
        )
        return (absent, missing + tried.get(zone, 0), int(zone in tried), self._load[zone], zone)

    def _join(self, lot: demand_rows.DemandRow, zone: str) -> None:
        most = lot.demand.count
        if lot.standing.zone is not rules.NOTHING:
            most = self._tallies[zone].most(lot.standing.zone, most)
        if any(rule in self._present and zone not in self._present[rule] for rule in lot.standing.company):
            most = 0
        caps = {zone: most}
        bound = self._levels(lot, caps) if lot.standing.spreads else [levels.Levels(counts={zone: 0})]
        self._give(lot, levels.share_out(lot.demand.count, caps, bound, [zone]))

    def _give(self, lot: demand_rows.DemandRow, given: dict[str, int]) -> None:
        self._given[lot.number] = given
        for zone, count in given.items():
            if not count:
                continue
            self._load[zone] += count
            self._tallies[zone].add(lot.standing.zone, count)
            for rule in lot.standing.counted:
                self._counts[rule][zone] = self._counts[rule].get(zone, 0) + count
            for rule in set(lot.standing.wanted).difference(lot.standing.company):
                self._present.setdefault(rule, set()).add(zone)

    def _portions(self, lot: demand_rows.DemandRow) -> list[demand_rows.Portion]:
        given = self._given.get(lot.number)
        if given is None:
            return [demand_rows.Portion(lot, lot.demand.count, None, (-1, -1, -1))]
        return [
            demand_rows.Portion(lot, count, zone, self._masks[zone]) for zone, count in sorted(given.items()) if count
        ]


class Census:
    """What the pods that are there mean for zones."""

    def __init__(self, field_: supply_rows.SupplyRows) -> None:
        self._ground = field_
        self._domains: dict[int, set[str]] = {}
        self._seen: dict[int, tuple[int, int, int]] = {}
        self.counts: dict[int, dict[str, int]] = {
            number: {} for number, rule in enumerate(field_.book.rules) if rule.level is rules.Level.SPREAD
        }
        """By spread and zone, how many pods match on nodes that the spread looks at."""
        self.present: dict[int, set[str]] = {}
        """By rule of company, the zones where a pod matches."""
        self.tallies = {zone: rules.Tally() for zone in field_.zones}
        for number, standings in enumerate(field_.standings):
            self._count(number, standings)

    def looks_at(self, rule: int) -> tuple[int, int, int]:
        """Return the rooms, nodes asked for and groups that a spread looks at."""
        known = self._seen.get(rule)
        if known is None:
            told = self._ground.book.rules[rule]
            shape = told.holder
            found = []
            for nodes in (self._ground.room_index, self._ground.asked_index, self._ground.group_index):
                seen = nodes.eligible(shape) if told.honours_affinity else nodes.all
                found.append(seen & nodes.tolerated(shape.tolerations) if told.honours_taints else seen)
            known = self._seen[rule] = (found[0], found[1], found[2])
        return known

    def domains(self, rule: int) -> set[str]:
        """Return the zones that have a node, there or asked for, that a spread looks at."""
        known = self._domains.get(rule)
        if known is None:
            rooms, asked, _ = self.looks_at(rule)
            known = {zone for zone, masks in self._ground.zones.items() if rooms & masks[0] or asked & masks[1]}
            self._domains[rule] = known
        return known

    def _count(self, number: int, standings: Sequence[tuple[rules.PodRules, int]]) -> None:
        zone = self._ground.room_zones[number]
        if not zone:
            return
        for standing, count in standings:
            if standing.zone is not rules.NOTHING:
                self.tallies[zone].add(standing.zone, count)
            for rule in standing.wanted:
                self.present.setdefault(rule, set()).add(zone)
            for rule in standing.counted:
                if self.looks_at(rule)[0] >> number & 1:
                    self.counts[rule][zone] = self.counts[rule].get(zone, 0) + count


def _is_held(bounds: rules.Bounds) -> bool:
    return any(own != rules.UNBOUND for _, own in bounds.matching)


def _parties(
    zonal: Sequence[demand_rows.DemandRow], present: dict[int, set[str]]
) -> dict[int, list[demand_rows.DemandRow]]:
    """Join lots that hold a rule of company which nobody outside meets yet: they must find one another."""
    outside = {rule for lot in zonal if not lot.standing.company for rule in lot.standing.wanted}
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            number = root[number]
        return number

    first: dict[int, int] = {}
    waiting = [lot for lot in zonal if any(not _is_met(rule, present, outside) for rule in lot.standing.company)]
    for lot in waiting:
        for rule in {*lot.standing.company, *lot.standing.wanted}:
            if not _is_met(rule, present, outside):
                root[find(lot.number)] = find(first.setdefault(rule, lot.number))
    members: dict[int, list[demand_rows.DemandRow]] = {}
    for lot in waiting:
        members.setdefault(find(lot.number), []).append(lot)
    return {lot.number: members[find(lot.number)] for lot in waiting}


def _is_met(rule: int, present: dict[int, set[str]], outside: set[int]) -> bool:
    return rule in present or rule in outside
