"""Whether a plan ran short of instances, and what it costs: where they are limited, larger ones come before next pools.

Pure. It looks at plans that are made, and makes none.
"""

from collections.abc import Iterable

from autoscaler.capacity.scaleup.placement import demand_rows, index, packing, supply_rows, trimming


def is_short(
    field: supply_rows.SupplyRows, waiting: Iterable[demand_rows.DemandRow], packed: packing.Packed, held_back: int
) -> bool:
    """Tell whether a limit on instances sent pods to other pools, or nowhere, and its nodes could have been larger.

    `held_back`: the groups that could get more nodes but for such limits.
    """
    if not held_back:
        return False
    pools = {field.groups[number].key.pool for number in index.bits(held_back)}
    spare = held_back & _passed_over(field, waiting, packed, pools)
    largest = [max(amounts) for amounts in zip(*_sizes(field, index.bits(spare)), strict=True)]
    used = _sizes(field, (number for number, _, _ in packed.groups if field.groups[number].key.pool in pools))
    return any(more > amount for size in used for more, amount in zip(largest, size, strict=False))


def cost(field: supply_rows.SupplyRows, packed: packing.Packed) -> tuple[int, float]:
    """Return by how many tiers pods are behind their first one, all together, and the price of the new nodes."""
    behind, price = 0, 0.0
    for number, nodes, content in packed.groups:
        behind += sum(nodes * count * _tier(portion.row, number) for portion, count in content)
        price += nodes * field.families[field.family_of[number]].price
    return behind, price


def _passed_over(
    field: supply_rows.SupplyRows, waiting: Iterable[demand_rows.DemandRow], packed: packing.Packed, pools: set[str]
) -> int:
    """Return the groups that pods might have gone to which are in none of these pools now, or nowhere."""
    found, placed = 0, dict[int, int]()
    for _, _, portion, count in trimming.placed(field, packed):
        placed[portion.row.number] = placed.get(portion.row.number, 0) + count
    for row in waiting:
        if placed.get(row.number, 0) < row.demand.count:
            found |= row.groups
    for number, _, content in packed.groups:
        for portion, _ in content if field.groups[number].key.pool not in pools else ():
            for tier in portion.row.tiers[: _tier(portion.row, number) + 1]:
                found |= tier
    return found


def _tier(row: demand_rows.DemandRow, number: int) -> int:
    """Return which tier of a row a group is in."""
    return next((place for place, tier in enumerate(row.tiers) if tier >> number & 1), 0)


def _sizes(field: supply_rows.SupplyRows, groups: Iterable[int]) -> set[tuple[int, ...]]:
    """Return what nodes of groups have, each size once."""
    return {field.families[number].allocatable for number in {field.family_of[group] for group in groups}}
