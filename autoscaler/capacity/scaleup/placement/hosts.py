"""Pods that must share a host with others, none of which has a host yet: they go to one node together, or nowhere.

Such a set is packed as if it were one large pod. Who must join a pod that is there, or one that is placed on its own,
is no matter of this module: packing lets it onto that pod's node alone.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.capacity.scaleup.placement import demand_rows, packing, rules, supply_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Set:
    """Rows whose pods all share one host."""

    rows: tuple[demand_rows.DemandRow, ...]

    @property
    def count(self) -> int:
        return sum(row.demand.count for row in self.rows)

    @property
    def vector(self) -> tuple[int, ...]:
        """Return what all of its pods need, by the number of the resource."""
        wanted = [[amount * row.demand.count for amount in row.vector] for row in self.rows]
        return tuple(map(sum, zip(*wanted, strict=True)))

    @property
    def amounts(self) -> supply_rows.Amounts:
        return tuple((resource, amount) for resource, amount in enumerate(self.vector) if amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Portions to be packed, and what the large ones among them stand for."""

    portions: list[demand_rows.Portion]
    sets: list[demand_rows.Portion]


def sets(field: supply_rows.SupplyRows, waiting: Sequence[demand_rows.DemandRow]) -> list[Set]:
    """Return rows that hold a rule which only such as hold it too can meet, with one another."""
    holders = [row for row in waiting if row.pod_rules.together]
    if not holders:
        return []
    met = {rule for there in field.pod_rules_of for pod_rules, _ in there for rule in pod_rules.matched}
    met |= {rule for row in waiting for rule in row.pod_rules.matched.difference(row.pod_rules.together)}
    own = {rule for row in holders for rule in row.pod_rules.matched.intersection(row.pod_rules.together)} - met
    found: list[tuple[set[int], list[demand_rows.DemandRow]]] = []
    for row in holders:
        unmet = own.intersection(row.pod_rules.together)
        if unmet:
            joined = [each for each in found if each[0] & unmet]
            found = [each for each in found if each not in joined]
            rows = [other for each in joined for other in each[1]]
            found.append((unmet.union(*(each[0] for each in joined)), [*rows, row]))
    return [Set(rows=tuple(rows)) for _, rows in found]


def gather(field: supply_rows.SupplyRows, portions: Sequence[demand_rows.Portion], together: Iterable[Set]) -> Gathered:
    """Put one large portion, first of all, in the place of those of each set; those that no host bears are left out."""
    by_row: dict[int, list[demand_rows.Portion]] = {}
    for portion in portions:
        by_row.setdefault(portion.row.number, []).append(portion)
    large, taken = [], set[int]()
    for each in together:
        taken |= {row.number for row in each.rows}
        parts = [portion for row in each.rows for portion in by_row.get(row.number, ())]
        if len(parts) == len(each.rows) and _is_possible(parts):
            large.append(_large(field, each, parts))
    others = [portion for portion in portions if portion.row.number not in taken]
    return Gathered(portions=[*large, *others], sets=large)


def scatter(packed: packing.Packed, large: Iterable[demand_rows.Portion]) -> None:
    """Put the portions of each set back in the place of the large one."""
    parts = {portion: portion.parts for portion in large}
    if not parts:
        return

    def whole(content: packing.Content) -> packing.Content:
        return [part for portion, count in content for part in parts.get(portion, [(portion, count)])]

    for portion, own in parts.items():
        for part, count in own if not portion.left else ():
            part.left -= count
    packed.rooms = {number: whole(content) for number, content in packed.rooms.items()}
    packed.asked = [(number, nodes, whole(content)) for number, nodes, content in packed.asked]
    packed.groups = [(number, nodes, whole(content)) for number, nodes, content in packed.groups]


def _is_possible(parts: Sequence[demand_rows.Portion]) -> bool:
    """Tell whether pods go to one zone, all of them, and bear one another on a host."""
    zones = {part.zone for part in parts if part.zone is not None}
    is_whole = all(part.left == part.row.demand.count for part in parts)
    tally = rules.Tally()
    return is_whole and len(zones) <= 1 and all(packing.joins(part, part.left, tally) for part in parts)


def _large(field: supply_rows.SupplyRows, each: Set, parts: Sequence[demand_rows.Portion]) -> demand_rows.Portion:
    first = parts[0]
    fits = field.groups_with(each.amounts)
    rooms = asked = kind = -1
    tiers = [fits] * max(len(part.tiers) for part in parts)
    for part in parts:
        rooms, asked, kind = rooms & part.rooms, asked & part.asked, kind & part.kind
        own = part.tiers if len(part.tiers) == len(tiers) else (part.groups,) * len(tiers)
        tiers = [tier & other for tier, other in zip(tiers, own, strict=True)]
    row = dataclasses.replace(
        first.row,
        amounts=each.amounts,
        vector=each.vector,
        rooms=rooms,
        asked=asked,
        tiers=tuple(tiers),
        kind=kind,
        is_alone=False,
    )
    portion = demand_rows.Portion(row, 1, first.zone, (-1, -1, -1))
    inside = {rule for part in parts for rule in part.row.pod_rules.matched}
    portion.host = None
    portion.together = tuple(sorted({rule for part in parts for rule in part.together} - inside))
    portion.parts = [(part, part.left) for part in parts]
    return portion
