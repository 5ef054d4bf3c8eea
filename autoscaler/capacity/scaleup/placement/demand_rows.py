"""Demands made ready to be packed: numbers instead of names, and the nodes on which each may stand as bits.

A row is one demand; a portion is that part of it which is packed under the same terms (in one zone, or in any).
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.capacity.scaleup.placement import rules, supply_rows

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemandRow:
    """A demand, made ready."""

    number: int
    """Its place in the order of packing: what rules out most first, then the largest."""
    demand: model.Demand
    amounts: supply_rows.Amounts
    """What one pod needs; nothing of it is zero."""
    vector: tuple[int, ...]
    """The same, by the number of the resource."""
    pod_rules: rules.PodRules
    rooms: int
    asked: int
    tiers: tuple[int, ...]
    """The groups that take it, in the order in which they are to be tried; one tier if all are alike."""
    kind: int
    """The groups that would take it if it were small."""
    is_alone: bool
    """Whether no two of its pods may share a host."""

    @property
    def groups(self) -> int:
        found = 0
        for tier in self.tiers:
            found |= tier
        return found


class Portion:
    """A part of a row, and how much of it is left to place."""

    __slots__ = (
        "amounts",
        "asked",
        "groups",
        "host",
        "kind",
        "left",
        "now",
        "parts",
        "rooms",
        "row",
        "tiers",
        "together",
        "zone",
    )

    def __init__(self, row: DemandRow, count: int, zone: str | None, masks: tuple[int, int, int]) -> None:
        rooms, asked, groups = masks
        self.row = row
        self.left = count
        self.zone = zone
        """The only zone it may go to; None if any."""
        self.amounts = row.amounts
        self.host = None if row.pod_rules.host is rules.NOTHING else row.pod_rules.host
        self.together = row.pod_rules.together
        """Rules that a pod on the same host must match."""
        self.parts: list[tuple[Portion, int]] = []
        """What it stands for, where pods that share one host are taken as one."""
        self.rooms = row.rooms & rooms
        self.asked = row.asked & asked
        self.tiers = tuple(tier & groups for tier in row.tiers)
        self.kind = row.kind & groups
        self.groups = row.groups & groups
        self.now = -1
        """Of its groups, those that are its turn; it matters only with several tiers, or where pods do not end."""

    def choices(self, open_groups: int) -> int:
        """Return the groups to try now: those of the first tier that has any."""
        for tier in self.tiers:
            found = tier & open_groups
            if found:
                return found
        return 0


def read(field: supply_rows.SupplyRows) -> list[DemandRow]:
    """Make the demands ready, in the order of packing, which does not depend on that of the input."""
    largest = _largest(field)
    drafts = [(_rank(demand, pod_rules, largest), demand, pod_rules) for demand, pod_rules in _pod_rules_of(field)]
    drafts.sort(key=lambda draft: draft[0])
    return [_row(field, number, demand, pod_rules) for number, (_, demand, pod_rules) in enumerate(drafts)]


def _pod_rules_of(field: supply_rows.SupplyRows) -> list[tuple[model.Demand, rules.PodRules]]:
    found = []
    for demand in field.situation.demands:
        shape = demand.shape
        own = bool(shape.namespace)
        pod_rules = field.book.pod_rules(
            shape, shape.namespace if own else demand.namespace, shape.labels if own else demand.labels
        )
        found.append((demand, pod_rules))
    return found


def _largest(field: supply_rows.SupplyRows) -> dict[str, int]:
    nodes = [family.allocatable for family in field.families]
    nodes += [field.vector(asked.template.allocatable) for asked in field.asked]
    nodes += [field.vector(room.free) for room in field.rooms]
    return {name: max((node[i] for node in nodes), default=0) for i, name in enumerate(field.resources)}


def _rank(demand: model.Demand, pod_rules: rules.PodRules, largest: dict[str, int]) -> tuple[object, ...]:
    """Sort those last that join others; those first that need a host each; then by the largest share of a node."""
    shares = [amount / (largest[name] or 1) for name, amount in demand.requests.items() if amount > 0]
    pools = [sorted(tier) for tier in demand.pools] if demand.pools is not None else None
    told = (demand.shape, demand.namespace, demand.labels, demand.scope, pools, demand.zones and sorted(demand.zones))
    refused = sorted((supply_rows.order(key), why) for key, why in demand.missed.items())
    identity = _ENCODER.encode((told, refused, sorted(demand.avoid), demand.count))
    return (
        bool(pod_rules.together),
        not _is_alone(pod_rules),
        -max(shares, default=0.0),
        -sum(sorted(shares)),
        demand.turn,
        identity,
    )


def _is_alone(pod_rules: rules.PodRules) -> bool:
    return any(own == 1 for _, own in pod_rules.host.matching)


def _row(field: supply_rows.SupplyRows, number: int, demand: model.Demand, pod_rules: rules.PodRules) -> DemandRow:
    requests = sorted((field.numbers[name], amount) for name, amount in demand.requests.items() if amount > 0)
    amounts = ((0, 1), *((i, amount) for i, amount in requests if i))
    named = [(field.resources[i], amount) for i, amount in amounts]
    is_refused = bool(pod_rules.unsupported) or demand.refused is not None
    kind = 0 if is_refused else groups_of(field, demand)
    fits = kind & field.groups_with(amounts)
    rooms = asked = 0
    if not is_refused:
        rooms = _rooms(field, demand) & field.room_index.with_amounts(named)
        asked = _asked(field, demand) & field.asked_index.with_amounts(named)
    return DemandRow(
        number=number,
        demand=demand,
        amounts=amounts,
        vector=tuple(dict(amounts).get(i, 0) for i in range(len(field.resources))),
        pod_rules=pod_rules,
        rooms=rooms,
        asked=asked,
        tiers=_tiers(field, demand, fits),
        kind=kind,
        is_alone=_is_alone(pod_rules),
    )


def groups_of(field: supply_rows.SupplyRows, demand: model.Demand) -> int:
    """Return the groups that a demand may use and that take it, its size aside."""
    shape, groups = demand.shape, field.group_index
    found = groups.eligible(shape) & groups.tolerated(shape.tolerations)
    if demand.hosts is not None:
        return 0
    if shape.host_ports:
        found &= ~supply_rows.using_ports(shape, [group.template for group in field.groups])
    if demand.zones is not None:
        found &= supply_rows.mask(zone in demand.zones for zone in field.group_zones)
    if demand.pools is not None:
        allowed = frozenset[str]().union(*demand.pools)
        found &= supply_rows.mask(group.key.pool in allowed for group in field.groups)
    for number, group in enumerate(field.groups) if demand.missed else ():
        if group.key in demand.missed:
            found &= ~(1 << number)
    return found


def _tiers(field: supply_rows.SupplyRows, demand: model.Demand, fits: int) -> tuple[int, ...]:
    if demand.pools is None:
        return (fits,)
    pools = [group.key.pool for group in field.groups]
    return tuple(fits & supply_rows.mask(pool in tier for pool in pools) for tier in demand.pools)


def _rooms(field: supply_rows.SupplyRows, demand: model.Demand) -> int:
    shape, rooms = demand.shape, field.room_index
    found = rooms.eligible(shape) & rooms.tolerated(shape.tolerations)
    if demand.zones is not None:
        found &= supply_rows.mask(supply_rows.zone_of(room.labels) in demand.zones for room in field.rooms)
    if demand.hosts is not None:
        found &= supply_rows.mask(room.labels.get(keys.HOSTNAME) in demand.hosts for room in field.rooms)
    if demand.avoid:
        found &= supply_rows.mask(room.name not in demand.avoid for room in field.rooms)
    return found


def _asked(field: supply_rows.SupplyRows, demand: model.Demand) -> int:
    shape, asked = demand.shape, field.asked_index
    if demand.hosts is not None:
        return 0
    found = asked.eligible(shape) & asked.tolerated(shape.tolerations)
    if shape.host_ports:
        found &= ~supply_rows.using_ports(shape, [one.template for one in field.asked])
    if demand.zones is not None:
        found &= supply_rows.mask(one.key.zone in demand.zones for one in field.asked)
    if demand.missed:
        found &= supply_rows.mask(one.key not in demand.missed for one in field.asked)
    return found
