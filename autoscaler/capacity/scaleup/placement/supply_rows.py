"""What there is to place on, made ready once: rooms, nodes asked for and node groups, with numbers instead of names.

Reads the situation and decides nothing. Equal groups of several zones are one family, judged once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.capacity.scaleup.placement import index, rules
from autoscaler.kube import shapes

MEMORY: Final = "memory"
CPU: Final = "cpu"
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
Amounts = tuple[tuple[int, int], ...]
"""Amounts by the number of their resource."""


@dataclass(slots=True, kw_only=True, eq=False)
class Family:
    """Groups whose nodes are alike but for their zone."""

    pool: str
    allocatable: tuple[int, ...]
    cpu_weight: float
    """What using a unit of cpu takes away from the waste."""
    memory_weight: float
    device_weights: tuple[tuple[int, float], ...]
    empty: float
    """The waste of an unused node."""
    price: float
    cpu_millis: int
    groups: int = 0
    members: list[int] = field(default_factory=list)

    def waste(self, used: Sequence[float]) -> float:
        """Tell how much of a node is left unused: 0 for nothing, more than 1 where devices idle."""
        waste = self.empty - used[1] * self.cpu_weight - used[2] * self.memory_weight
        for resource, weight in self.device_weights:
            waste -= used[resource] * weight
        return waste


class SupplyRows:
    """The situation, made ready."""

    def __init__(self, situation: model.Situation) -> None:
        self.situation = situation
        self.resources = _resources(situation.demands)
        self._absent = [(name, model.absent(name)) for name in self.resources]
        self.numbers = {name: number for number, name in enumerate(self.resources)}
        self.groups = sorted(situation.groups, key=lambda group: order(group.key))
        self.rooms = sorted(situation.rooms, key=lambda room: room.name)
        self.asked = sorted(situation.asked, key=lambda asked: order(asked.key))
        self.group_zones = [group.key.zone for group in self.groups]
        self.room_zones = [zone_of(room.labels) for room in self.rooms]
        self.zones = self._by_zone()
        """The rooms, nodes asked for and groups of each zone."""
        self.group_index = _templates([group.template for group in self.groups])
        self.asked_index = _templates([asked.template for asked in self.asked])
        self.room_index = index.Index(
            names=[room.name for room in self.rooms],
            labels=[room.labels for room in self.rooms],
            taints=[room.taints for room in self.rooms],
            amounts=[room.free for room in self.rooms],
        )
        self.places = [(group.key.pool, group.key.zone) for group in self.groups]
        """By group, what balance looks at."""
        self.families, self.family_of = self._families()
        self._thresholds: dict[int, index.Thresholds] = {}
        self.values = _values(self.families, len(self.resources))
        self.book = rules.Book(situation.namespaces)
        self.pod_rules_of: list[list[tuple[rules.PodRules, int]]] = []
        """How the pods on each room stand to the rules, with their counts; empty where there are no rules."""
        self._read_rules()

    def vector(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        """Return amounts by the number of their resource."""
        return tuple([amounts.get(name, absent) for name, absent in self._absent])

    def _by_zone(self) -> dict[str, tuple[int, int, int]]:
        rooms = index.by_value(self.room_zones)
        asked = index.by_value([asked.key.zone for asked in self.asked])
        groups = index.by_value(self.group_zones)
        names = sorted({*rooms, *asked, *groups} - {""})
        return {name: (rooms.get(name, 0), asked.get(name, 0), groups.get(name, 0)) for name in names}

    def groups_with(self, amounts: Iterable[tuple[int, int]]) -> int:
        """Return the groups whose empty nodes have at least these amounts."""
        found = self.group_index.all
        for resource, amount in amounts:
            known = self._thresholds.get(resource)
            if known is None:
                known = self._thresholds[resource] = index.thresholds(
                    [family.allocatable[resource] for family in self.families],
                    [family.groups for family in self.families],
                )
            found &= index.at_least(known, amount)
        return found

    def _families(self) -> tuple[list[Family], list[int]]:
        found: dict[object, tuple[int, Family]] = {}
        seen: dict[object, tuple[int, Family]] = {}
        family_of: list[int] = []
        bit = 1
        for number, group in enumerate(self.groups):
            has = group.template.allocatable
            capacity = group.template.capacity or has
            pool = self.places[number][0]
            shared = (id(has), id(capacity), pool, group.price_micros)  # zones often share these very values
            known = seen.get(shared)
            if known is None:
                vector = self.vector(has)
                key = (pool, vector, tuple(sorted(capacity.items())), group.price_micros)
                known = found.get(key)
                if known is None:
                    known = found[key] = (len(found), self._family(group, vector, capacity))
                seen[shared] = known
            known[1].members.append(number)
            known[1].groups |= bit
            bit <<= 1
            family_of.append(known[0])
        return [family for _, family in found.values()], family_of

    def _family(self, group: model.Group, allocatable: tuple[int, ...], capacity: Mapping[str, int]) -> Family:
        devices = {name: amount for name, amount in capacity.items() if "/" in name and amount > 0}
        cpu, memory = capacity.get(CPU, 0), capacity.get(MEMORY, 0)
        return Family(
            pool=group.key.pool,
            allocatable=allocatable,
            cpu_weight=0.5 / cpu if cpu > 0 else 0.0,
            memory_weight=0.5 / memory if memory > 0 else 0.0,
            device_weights=tuple(
                (self.numbers[name], 1.0 / amount) for name, amount in devices.items() if name in self.numbers
            ),
            empty=0.5 * (cpu > 0) + 0.5 * (memory > 0) + len(devices),
            price=float("inf") if group.price_micros is None else float(group.price_micros),
            cpu_millis=cpu,
        )

    def _read_rules(self) -> None:
        told = [d.shape for d in self.situation.demands if d.shape.affinity or d.shape.spread]
        for shape in sorted(told, key=_ENCODER.encode):  # rules are numbered as they are read
            self.book.read(shape)
        for demand in self.situation.demands:
            self.book.read(demand.shape)
        residents = [resident for room in self.rooms for resident in room.residents]
        for resident in residents:
            self.book.read(resident.shape, is_resident=True)
        if self.book.rules:
            self.pod_rules_of = [
                [
                    (self.book.pod_rules(r.shape, r.namespace, r.labels, is_resident=True), r.count)
                    for r in room.residents
                ]
                for room in self.rooms
            ]


def zone_of(labels: Mapping[str, str]) -> str:
    """Return the zone that a node's labels tell; empty if they tell none."""
    return labels.get(keys.ZONE) or labels.get(keys.ZONE_BETA) or ""


def order(key: NodeGroupKey) -> tuple[str, str, str]:
    """Sort node groups."""
    return (key.pool, key.zone, key.instance_type)


def mask(flags: Iterable[bool]) -> int:
    """Return flags as the bits of a number."""
    found, bit = 0, 1
    for flag in flags:
        if flag:
            found |= bit
        bit <<= 1
    return found


def using_ports(shape: shapes.Shape, templates: Iterable[model.Template]) -> int:
    """Return the nodes on which DaemonSets use a port that a shape needs."""
    wanted = {(protocol, port) for _, protocol, port in shape.host_ports}
    return mask(not wanted.isdisjoint(template.host_ports) for template in templates)


def _resources(demands: Sequence[model.Demand]) -> list[str]:
    """Number the resources that anybody asks for: pods, cpu and memory first."""
    first = [model.PODS, CPU, MEMORY]
    asked = {name for demand in demands for name, amount in demand.requests.items() if amount > 0}
    return [*first, *sorted(asked.difference(first))]


def _templates(templates: Sequence[model.Template]) -> index.Index:
    return index.Index(
        names=[""] * len(templates),
        labels=[template.labels for template in templates],
        taints=[template.taints for template in templates],
        amounts=[template.allocatable for template in templates],
    )


def _values(families: Sequence[Family], resources: int) -> list[float]:
    """Value a unit of each resource by the largest node that has it, to compare prices of unlike contents."""
    largest = [max((family.allocatable[i] for family in families), default=0) for i in range(resources)]
    return [0.0 if i == 0 or not amount else 1.0 / amount for i, amount in enumerate(largest)]
