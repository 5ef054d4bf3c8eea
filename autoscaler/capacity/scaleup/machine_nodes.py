"""What a node will carry once it is a machine group's: its labels and taints, before anybody has put them there. Pure.

The machines controller marks nodes when they are there and ready. Capacity must know it sooner, or it would start no
node for pods that ask for these labels, and a second one between the first one's registration and its marks. Nodes that
carry marks already are taken as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys, machine_catalogue
from autoscaler.api.resources.machines import MachineSpec, NodeMode, NodePoolEntry
from autoscaler.kube import objects, shapes

Labels = Mapping[str, str]
Amounts = Mapping[str, int]
NO_SCHEDULE: Final = "NoSchedule"
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a group adds to a node."""

    labels: Labels
    taints: tuple[objects.NodeTaint, ...] = ()


NONE: Final = Marks(labels={})


def predicted(
    machines: Mapping[str, MachineSpec], labels: Labels, allocatable: Amounts, *, name: str | None = None
) -> Marks:
    """Return what a node with these labels and so much room will be given; nothing if it has its marks already.

    Of groups that ask for one node the first has it. A node that is not there yet has no name.
    """
    if keys.NODE_POOL in labels:
        return NONE
    for group, spec in machines.items():
        entry = _entry(spec, labels, name)
        if entry is not None:
            return _marks(group, spec, entry, allocatable)
    return NONE


def _entry(spec: MachineSpec, labels: Labels, name: str | None) -> NodePoolEntry | None:
    """Return the entry that a node is in: one that names it goes before those that select it."""
    named = (each for each in spec.node_pool if name is not None and each.name == name)
    selecting = (each for each in spec.node_pool if each.node_selector and each.node_selector.items() <= labels.items())
    return next(named, None) or next(selecting, None)


def _marks(group: str, spec: MachineSpec, entry: NodePoolEntry, allocatable: Amounts) -> Marks:
    types = [name for name in _residents(spec, entry.machine_type[0].name) if _may_live(spec, name, allocatable)]
    if entry.mode is not NodeMode.READY or not types:
        return NONE
    ready = {keys.NODE_POOL: keys.NODE_POOL_READY}
    own = {keys.machine_label(entry.machine_type[0].name): group}
    return Marks(
        labels={**{keys.machine_label(name): group for name in types}, **ready},
        taints=tuple(objects.NodeTaint(key, value, NO_SCHEDULE) for key, value in {**own, **ready}.items())
        if entry.taint
        else (),
    )


def _residents(spec: MachineSpec, name: str) -> list[str]:
    """Return the type that an entry names, and those cut from it that have no nodes of their own."""
    settled = {each.machine_type[0].name for each in spec.node_pool}
    cut = (each for each in spec.machine_types if each.spec.dependence and each.spec.dependence.parent == name)
    return [name, *(each.name for each in cut if each.name not in settled)]


def _may_live(spec: MachineSpec, name: str, allocatable: Amounts) -> bool:
    """Tell whether a machine of a type takes no more of a node than its hostLimit."""
    limit = next((each.spec.host_limit for each in spec.machine_types if each.name == name), None)
    if limit is None:
        return True
    one = machine_catalogue.resolve(spec)[name]
    asked = {shapes.CPU: one.cpu_millis, "memory": one.memory_bytes, keys.GPU_RESOURCE: one.gpus}
    return all(amount * _PERCENT <= limit * allocatable.get(key, 0) for key, amount in asked.items())
