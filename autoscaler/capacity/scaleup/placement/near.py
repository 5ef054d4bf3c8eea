"""Pods that must be near others by a label of nodes that is neither host nor zone: which nodes that leaves them.

Where pods that are there match, it is their label's values. Where only such as hold the rule too can meet it, all of
them go to one value, that which most of them can reach. Who must join a pod that waits itself waits for it.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from autoscaler.capacity.scaleup.placement import demand_rows, index, supply_rows


def narrow(field: supply_rows.SupplyRows, rows: Sequence[demand_rows.DemandRow]) -> list[demand_rows.DemandRow]:
    """Cut rows down to the nodes whose labels have values that their rules allow."""
    asked = {rule for row in rows for rule in row.pod_rules.near}
    if not asked:
        return list(rows)
    values = _present(field, asked)
    waiting = {rule for row in rows for rule in row.pod_rules.matched.difference(row.pod_rules.near)}
    narrowed = {row.number: row for row in rows}
    for rule in sorted(asked):
        holders = [row for row in narrowed.values() if rule in row.pod_rules.near]
        if rule not in values and rule not in waiting and any(rule in row.pod_rules.matched for row in holders):
            values[rule] = _reachable(field, field.book.rules[rule].key, holders)
        for row in holders:
            narrowed[row.number] = _cut(field, row, field.book.rules[rule].key, values.get(rule, set()))
    return list(narrowed.values())


def _present(field: supply_rows.SupplyRows, asked: set[int]) -> dict[int, set[str]]:
    """Return the values of its label under which each rule is matched by a pod that is there."""
    found: dict[int, set[str]] = {}
    for room, there in zip(field.rooms, field.pod_rules_of, strict=False):
        for pod_rules, _ in there:
            for rule in pod_rules.matched & asked:
                value = room.labels.get(field.book.rules[rule].key)
                found.setdefault(rule, set()).update(() if value is None else (value,))
    return found


def _reachable(field: supply_rows.SupplyRows, key: str, rows: Iterable[demand_rows.DemandRow]) -> set[str]:
    """Return the one value that most pods can go to; none if no node has the label."""
    is_open = supply_rows.mask(group.refused is None and group.more > 0 for group in field.groups)
    counts: dict[str, int] = {}
    for row in rows:
        for nodes, reach in _reach(field, row, is_open):
            for value, having in nodes.with_value(key).items():
                if value is not None and having & reach:
                    counts[value] = counts.get(value, 0) + row.demand.count
    return {min(counts, key=lambda value: (-counts[value], value))} if counts else set()


def _reach(
    field: supply_rows.SupplyRows, row: demand_rows.DemandRow, is_open: int
) -> tuple[tuple[index.Index, int], ...]:
    rooms, asked = (field.room_index, row.rooms), (field.asked_index, row.asked)
    return rooms, asked, (field.group_index, row.groups & is_open)


def _cut(
    field: supply_rows.SupplyRows, row: demand_rows.DemandRow, key: str, values: Iterable[str]
) -> demand_rows.DemandRow:
    rooms = asked = groups = 0
    for value in values:
        rooms |= field.room_index.with_value(key).get(value, 0)
        asked |= field.asked_index.with_value(key).get(value, 0)
        groups |= field.group_index.with_value(key).get(value, 0)
    return dataclasses.replace(
        row,
        rooms=row.rooms & rooms,
        asked=row.asked & asked,
        tiers=tuple(tier & groups for tier in row.tiers),
        kind=row.kind & groups,
    )
