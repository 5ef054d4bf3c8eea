"""Which types may live on a node: one machine may take no more of it than its type's hostLimit says. Pure.

The limit is compared for each resource that the type asks for, in integers, with what the node can give to pods. A type
that is refused on a node gets no label there, so that neither its guests nor its sleepers go there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.api import keys, machine_catalogue
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.kube import shapes

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much of a node one machine of a type may take."""

    percent: int
    requests: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A type that may not live on a node, with the numbers compared."""

    type: str
    resource: str
    requested: int
    allocatable: int
    percent: int

    def worded(self) -> str:
        """Say it."""
        if not self.allocatable:
            return f"the node has no {self.resource}, which {self.type} takes"
        taken = -(-self.requested * 100 // self.allocatable)
        return (
            f"one {self.type} would take {taken} % of the node's {self.resource}, and its hostLimit is {self.percent} %"
        )


def of(spec: MachineSpec) -> dict[str, Limit]:
    """Return the limits of the types that have one."""
    resolved = machine_catalogue.resolve(spec)
    return {
        each.name: Limit(percent=each.spec.host_limit, requests=amounts(resolved[each.name]))
        for each in spec.machine_types
        if each.spec.host_limit is not None
    }


def refusals(types: Iterable[str], limits: Mapping[str, Limit], allocatable: Amounts) -> tuple[Refusal, ...]:
    """Return which of these types may not live on a node that can give so much, each with the first reason."""
    found = (_refusal(name, limits[name], allocatable) for name in types if name in limits)
    return tuple(each for each in found if each is not None)


def amounts(machine: machine_catalogue.MachineResources) -> dict[str, int]:
    """Return what one machine asks for: cpu in millis, all else in units."""
    gpus = {keys.GPU_RESOURCE: machine.gpus} if machine.gpus else {}
    return {shapes.CPU: machine.cpu_millis, "memory": machine.memory_bytes, **gpus}


def _refusal(name: str, limit: Limit, allocatable: Amounts) -> Refusal | None:
    for resource, requested in limit.requests.items():
        there = allocatable.get(resource, 0)
        if requested * 100 > limit.percent * there:
            return Refusal(type=name, resource=resource, requested=requested, allocatable=there, percent=limit.percent)
    return None
