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
    """How many pods of a row a zone took when it was asked for more."""
    left: dict[int, dict[str, int]] = field(default_factory=dict)
    """By gang (its first row): the zones tried, and how many pods found no room there."""


@dataclass(slots=True, kw_only=True)
class Division:
    """Portions of all rows, in the order of packing."""

    portions: list[demand_rows.Portion]
    gangs: dict[int, tuple[str, list[int]]]
    """Rows that must share a zone, by the first of them: the zone, and all of them."""
    options: dict[int, list[str]]
    """The zones that each zonal row could go to."""


def divide(
    field_: supply_rows.SupplyRows,
    all_lots: Sequence[demand_rows.DemandRow],
    *,
    census: "Census",
    open_groups: int,
    learnt: Learnt,
) -> Division:
    """Cut rows into portions by zone."""
    if not any(row.pod_rules.is_zonal for row in all_lots):
        everywhere = (-1, -1, -1)
        portions = [demand_rows.Portion(row, row.demand.count, None, everywhere) for row in all_lots]
        return Division(portions=portions, gangs={}, options={})
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
        zonal = sorted((row for row in self._lots if row.pod_rules.is_zonal), key=self._rank)
        for row in zonal:
            self._options[row.number] = [zone for zone in self._zones if self._reachable(row, zone)]
        gangs = _parties(zonal, self._present)
        for row in zonal:
            if row.number in self._given:
                continue
            gang = gangs.get(row.number)
            if gang is None:
                self._spread(row)
            else:
                self._gather(gang)
        portions = [portion for row in self._lots for portion in self._portions(row)]
        return Division(portions=portions, gangs=self._parties, options=self._options)

    def _rank(self, row: demand_rows.DemandRow) -> tuple[int, int]:
        """Those that others want to join first, then those that join, then by how little choice they have."""
        pod_rules = row.pod_rules
        if pod_rules.wanted and not pod_rules.company:
            return (0, row.number)
        if pod_rules.company:
            return (1, row.number)
        if len([zone for zone in self._zones if self._reachable(row, zone)]) == 1:
            return (2, row.number)
        if pod_rules.zone is not rules.NOTHING:
            return (3 if pod_rules.zone.holding or _is_held(pod_rules.zone) else 4, row.number)
        return (5 if pod_rules.counted else 6, row.number)

    def _reachable(self, row: demand_rows.DemandRow, zone: str) -> bool:
        rooms, asked, groups = self._masks[zone]
        return bool(row.rooms & rooms or row.asked & asked or row.groups & groups & self._open)

    def _caps(self, row: demand_rows.DemandRow) -> dict[str, int]:
        """Return how many pods of a row each zone may get, spreads aside."""
        caps: dict[str, int] = {}
        for zone in self._options[row.number]:
            most = min(row.demand.count, self._learnt.caps.get((row.number, zone), row.demand.count))
            if all(zone in self._present.get(rule, ()) for rule in row.pod_rules.company):
                caps[zone] = (
                    self._tallies[zone].most(row.pod_rules.zone, most)
                    if row.pod_rules.zone is not rules.NOTHING
                    else most
                )
        return caps

    def _spread(self, row: demand_rows.DemandRow) -> None:
        caps = self._caps(row)
        preferred = sorted(caps, key=lambda zone: (self._load[zone], zone))
        self._give(row, levels.share_out(row.demand.count, caps, self._levels(row, caps), preferred))

    def _levels(self, row: demand_rows.DemandRow, caps: dict[str, int]) -> list[levels.Levels]:
        """Return the spreads that bind a row; one that only matches spreads of others keeps those even if it can."""
        found = []
        for spread in row.pod_rules.spreads:
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
            counted = row.pod_rules.counted[0] if row.pod_rules.counted else None
            counts = self._load if counted is None else self._counts[counted]
            found.append(levels.Levels(counts={zone: counts.get(zone, 0) for zone in caps}))
        return found

    def _gather(self, gang: list[demand_rows.DemandRow]) -> None:
        """Send rows that want to be together to one zone: where most find room, then where least is planned yet."""
        name = min(row.number for row in gang)
        tried = self._learnt.left.get(name, {})
        options = {zone for row in gang for zone in self._options[row.number]}
        zone = min(options, key=lambda zone: self._attraction(gang, zone, tried), default=None)
        for row in gang:
            self._given[row.number] = {}
        if zone is None:
            return
        self._parties[name] = (zone, [row.number for row in gang])
        for row in sorted(gang, key=lambda row: row.number):
            if zone in self._options[row.number]:
                self._join(row, zone)

    def _attraction(
        self, gang: list[demand_rows.DemandRow], zone: str, tried: dict[str, int]
    ) -> tuple[int, int, int, int, str]:
        missing = sum(0 if zone in self._options[row.number] else row.demand.count for row in gang)
        absent = sum(
            any(rule in self._present and zone not in self._present[rule] for rule in row.pod_rules.company)
            for row in gang
        )
        return (absent, missing + tried.get(zone, 0), int(zone in tried), self._load[zone], zone)

    def _join(self, row: demand_rows.DemandRow, zone: str) -> None:
        most = row.demand.count
        if row.pod_rules.zone is not rules.NOTHING:
            most = self._tallies[zone].most(row.pod_rules.zone, most)
        if any(rule in self._present and zone not in self._present[rule] for rule in row.pod_rules.company):
            most = 0
        caps = {zone: most}
        bound = self._levels(row, caps) if row.pod_rules.spreads else [levels.Levels(counts={zone: 0})]
        self._give(row, levels.share_out(row.demand.count, caps, bound, [zone]))

    def _give(self, row: demand_rows.DemandRow, given: dict[str, int]) -> None:
        self._given[row.number] = given
        for zone, count in given.items():
            if not count:
                continue
            self._load[zone] += count
            self._tallies[zone].add(row.pod_rules.zone, count)
            for rule in row.pod_rules.counted:
                self._counts[rule][zone] = self._counts[rule].get(zone, 0) + count
            for rule in set(row.pod_rules.wanted).difference(row.pod_rules.company):
                self._present.setdefault(rule, set()).add(zone)

    def _portions(self, row: demand_rows.DemandRow) -> list[demand_rows.Portion]:
        given = self._given.get(row.number)
        if given is None:
            return [demand_rows.Portion(row, row.demand.count, None, (-1, -1, -1))]
        return [
            demand_rows.Portion(row, count, zone, self._masks[zone]) for zone, count in sorted(given.items()) if count
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
        for number, pod_rules_of in enumerate(field_.pod_rules_of):
            self._count(number, pod_rules_of)

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

    def _count(self, number: int, pod_rules_of: Sequence[tuple[rules.PodRules, int]]) -> None:
        zone = self._ground.room_zones[number]
        if not zone:
            return
        for pod_rules, count in pod_rules_of:
            if pod_rules.zone is not rules.NOTHING:
                self.tallies[zone].add(pod_rules.zone, count)
            for rule in pod_rules.wanted:
                self.present.setdefault(rule, set()).add(zone)
            for rule in pod_rules.counted:
                if self.looks_at(rule)[0] >> number & 1:
                    self.counts[rule][zone] = self.counts[rule].get(zone, 0) + count


def _is_held(bounds: rules.Bounds) -> bool:
    return any(own != rules.UNBOUND for _, own in bounds.matching)


def _parties(
    zonal: Sequence[demand_rows.DemandRow], present: dict[int, set[str]]
) -> dict[int, list[demand_rows.DemandRow]]:
    """Join rows that hold a rule of company which nobody outside meets yet: they must find one another."""
    outside = {rule for row in zonal if not row.pod_rules.company for rule in row.pod_rules.wanted}
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            number = root[number]
        return number

    first: dict[int, int] = {}
    waiting = [row for row in zonal if any(not _is_met(rule, present, outside) for rule in row.pod_rules.company)]
    for row in waiting:
        for rule in {*row.pod_rules.company, *row.pod_rules.wanted}:
            if not _is_met(rule, present, outside):
                root[find(row.number)] = find(first.setdefault(rule, row.number))
    members: dict[int, list[demand_rows.DemandRow]] = {}
    for row in waiting:
        members.setdefault(find(row.number), []).append(row)
    return {row.number: members[find(row.number)] for row in waiting}


def _is_met(rule: int, present: dict[int, set[str]], outside: set[int]) -> bool:
    return rule in present or rule in outside
