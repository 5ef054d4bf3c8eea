"""The last look at zones: what packing could not do in one zone may have made another zone's share too large.

Takes pods back until every zone rule holds, so that a placement is valid whatever was full. It never adds any.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.capacity.scaleup.placement import demand_rows, index, packing, rules, supply_rows, zones


@dataclass(slots=True, kw_only=True)
class Counted:
    """What matches a spread, by zone."""

    bound: dict[str, int]
    """The pods that are there, and those placed that hold any spread over zones themselves."""
    all: dict[str, int]
    """With all pods placed."""
    domains: set[str]

    def add(self, portion: demand_rows.Portion, zone: str, count: int) -> None:
        """Count pods that are placed."""
        self.all[zone] = self.all.get(zone, 0) + count
        if portion.row.pod_rules.spreads:
            self.bound[zone] = self.bound.get(zone, 0) + count

    def over(self, spread: rules.Spread, zone: str) -> int:
        """Return how many pods a zone has too many.

        Two orders of binding are looked at, whichever is better: pods that hold a spread before others that only
        match it, and all at once.
        """
        return min(self._over(self.bound, spread, zone), self._over(self.all, spread, zone))

    def _over(self, counts: dict[str, int], spread: rules.Spread, zone: str) -> int:
        floor = min((counts.get(domain, 0) for domain in self.domains), default=0)
        if len(self.domains) < spread.min_domains:
            floor = 0
        return counts.get(zone, 0) - floor - spread.max_skew


def trim(field_: supply_rows.SupplyRows, packed: packing.Packed, census: zones.Census) -> None:
    """Take back what zone rules do not bear; it is placed nowhere then."""
    while _trim_once(field_, packed, census):
        pass


def placed(
    field_: supply_rows.SupplyRows, packed: packing.Packed
) -> Iterator[tuple[str, tuple[int, int], demand_rows.Portion, int]]:
    """Return the zone, the node (which sort, which number), the portion and the count of everything placed."""
    for number, content in packed.rooms.items():
        zone = field_.room_zones[number]
        for portion, count in content:
            yield zone, (0, number), portion, count
    for sort, entries, names in (
        (1, packed.asked, [asked.key.zone for asked in field_.asked]),
        (2, packed.groups, field_.group_zones),
    ):
        for number, nodes, content in entries:
            for portion, count in content:
                yield names[number], (sort, number), portion, count * nodes


def counted(field_: supply_rows.SupplyRows, packed: packing.Packed, census: zones.Census) -> dict[int, Counted]:
    """Count what matches each zone spread now."""
    found = {
        rule: Counted(bound=dict(counts), all=dict(counts), domains=set(census.domains(rule)))
        for rule, counts in census.counts.items()
    }
    launched = 0
    for number, _, _ in packed.groups:
        launched |= 1 << number
    for rule, one in found.items():
        seen = census.looks_at(rule)[2] & launched
        one.domains |= {field_.group_zones[number] for number in index.bits(seen)}
    for zone, (sort, number), portion, count in placed(field_, packed):
        for rule in portion.row.pod_rules.counted:
            if zone and census.looks_at(rule)[sort] >> number & 1:
                found[rule].add(portion, zone, count)
    return found


def _trim_once(field_: supply_rows.SupplyRows, packed: packing.Packed, census: zones.Census) -> bool:
    """Look at every portion once; what is taken back may leave others too many, so it is to be called again."""
    spreads = counted(field_, packed, census)
    homes = _homes(field_, packed, census)
    here: dict[tuple[demand_rows.Portion, str], int] = {}
    for zone, _, portion, count in placed(field_, packed):
        if portion.row.pod_rules.spreads or portion.row.pod_rules.company:
            here[portion, zone] = here.get((portion, zone), 0) + count
    changed = False
    for (portion, zone), count in reversed(here.items()):
        over = min(count, _too_many(portion.row.pod_rules, zone, count, spreads=spreads, homes=homes))
        if over > 0:
            take_back(packed, portion, over)
            for rule in portion.row.pod_rules.counted:
                spreads[rule].add(portion, zone, -over)
            changed = True
    return changed


def _homes(field_: supply_rows.SupplyRows, packed: packing.Packed, census: zones.Census) -> dict[int, set[str]]:
    """Return the zones where each rule of company can be met.

    That is where a pod matches that does not hold the rule itself; where there is none, the first of those that hold
    it chooses a zone and all others follow, so it is the one zone that has most of them.
    """
    found = {rule: set(where) for rule, where in census.present.items()}
    followers: dict[int, dict[str, int]] = {}
    for zone, _, portion, count in placed(field_, packed):
        for rule in portion.row.pod_rules.wanted if zone else ():
            if rule in portion.row.pod_rules.company:
                counts = followers.setdefault(rule, {})
                counts[zone] = counts.get(zone, 0) + count
            else:
                found.setdefault(rule, set()).add(zone)
    for rule, counts in followers.items():
        found.setdefault(rule, {min(counts, key=lambda zone: (-counts[zone], zone))})
    return found


def _too_many(
    pod_rules: rules.PodRules,
    zone: str,
    count: int,
    *,
    spreads: dict[int, Counted],
    homes: dict[int, set[str]],
) -> int:
    if any(zone not in homes.get(rule, ()) for rule in pod_rules.company):
        return count
    most = 0
    for spread in pod_rules.spreads:
        over = spreads[spread.rule].over(spread, zone)
        most = max(most, over if spread.counts_itself or over <= 0 else count)
    return most


def take_back(packed: packing.Packed, portion: demand_rows.Portion, count: int) -> None:
    """Take pods of a portion off nodes again, new nodes first; a node that is left empty is not needed."""
    for entries in (packed.groups, packed.asked):
        for place in range(len(entries) - 1, -1, -1):
            each = sum(n for one, n in entries[place][2] if one is portion)
            if each and count:
                kept, count = _without(entries[place], portion, each, count)
                entries[place : place + 1] = kept
    for number in sorted(packed.rooms, reverse=True):
        each = sum(n for one, n in packed.rooms[number] if one is portion)
        gone = min(each, count)
        if gone:
            packed.rooms[number] = _less(packed.rooms[number], portion, gone)
            count -= gone


def _without(
    entry: tuple[int, int, packing.Content], portion: demand_rows.Portion, each: int, count: int
) -> tuple[list[tuple[int, int, packing.Content]], int]:
    """Take pods off a run of equal nodes; return what becomes of it, and how many are still to be taken."""
    number, nodes, content = entry
    bare = min(nodes, count // each)
    rest = min(count - bare * each, each) if bare < nodes else 0
    runs = [
        (number, nodes - bare - (rest > 0), content),
        (number, int(rest > 0), _less(content, portion, rest)),
        (number, bare, _less(content, portion, each)),
    ]
    return [run for run in runs if run[1] and run[2]], count - bare * each - rest


def _less(content: packing.Content, portion: demand_rows.Portion, count: int) -> packing.Content:
    fewer = [(one, n - count if one is portion else n) for one, n in content]
    return [(one, n) for one, n in fewer if n > 0]
