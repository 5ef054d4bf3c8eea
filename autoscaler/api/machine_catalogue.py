"""The catalogue of machine groups and types: what one machine of a type has, in a ConfigMap that policies read.

The runtime alone writes the ConfigMap; admission policies read it, also while the runtime is away. They are written in
CEL, which reads no JSON, so every fact has a key of its own: `<group>.<type>.cpu`. Names of groups and types have no
dots, so no two facts share a key, whatever labels a pod invents. A group is in the catalogue whole or not at all.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from autoscaler.api import keys, quantities
from autoscaler.api.resources.machines import Gpu, MachineSpec, MachineType

CPU: Final = "cpu"
MEMORY: Final = "memory"
GPU: Final = "gpu"
GPU_LABEL: Final = "gpu-label"
GPU_VALUE: Final = "gpu-value"
PARENT: Final = "parent"
GROUPS: Final = "groups"
"""The key of all groups' names, as people read them."""
TYPES: Final = "types"
"""The last part of the key of a group's types, as people read them."""

SIZE_MAX: Final = 900_000
"""The API server takes a ConfigMap of 1 MiB. A full group of 32 types has about 8 kB here."""
NAMED_MAX: Final = 2_000
"""So many characters of names fit into a refusal: the API server drops messages above 5 kB."""
_OVERHEAD: Final = 8
"""What JSON adds to a key and its value."""
_BINARY: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


class NodeLabel(NamedTuple):
    """A label that a node must have."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResources:
    """What one machine of a type has, with what it derives from its parent resolved."""

    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    gpu_label: NodeLabel | None = None
    """Which GPU: the label of nodes that have it; None without GPUs."""
    parent: str | None = None
    """The type that this one depends on, and on whose nodes it may live; None: it depends on none."""

    def requests(self) -> dict[str, str]:
        """Write the requests, which are the limits too, of a container that has this machine."""
        gpus = {keys.GPU_RESOURCE: str(self.gpus)} if self.gpus else {}
        return {"cpu": _cpu(self.cpu_millis), "memory": _memory(self.memory_bytes), **gpus}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The data of the ConfigMap, and what found no room in it."""

    data: Mapping[str, str]
    known: tuple[str, ...] = ()
    """The groups that are in it."""
    left_out: tuple[str, ...] = ()
    """Groups that would make the ConfigMap too large: their guests are refused as if the group were unknown."""


def resolve(spec: MachineSpec) -> dict[str, MachineResources]:
    """Return what one machine of each type has, by the type's name."""
    by_name = {each.name: each for each in spec.machine_types}
    return {name: _resolved(each, by_name) for name, each in by_name.items()}


def catalogue(groups: Iterable[tuple[str, MachineSpec]]) -> Catalogue:
    """Write the catalogue of groups by name; those that come first have room first."""
    facts: dict[str, str] = {}
    size, known, left_out = NAMED_MAX, list[str](), list[str]()
    for group, spec in groups:
        added = _group_facts(group, spec)
        grown = size + sum(len(key) + len(value.encode()) + _OVERHEAD for key, value in added.items())
        if grown > SIZE_MAX:
            left_out.append(group)
            continue
        size = grown
        facts |= added
        known.append(group)
    data = {GROUPS: _named(sorted(known)), **facts}
    return Catalogue(data=dict(sorted(data.items())), known=tuple(sorted(known)), left_out=tuple(left_out))


def with_kept(made: Catalogue, found: Mapping[str, str], kept: Collection[str]) -> Mapping[str, str]:
    """Return a catalogue's data with what a found one says of groups that are kept as they are."""
    facts = {key: value for key, value in found.items() if key != GROUPS and key.partition(".")[0] in kept}
    groups = {key.partition(".")[0] for key in facts}
    return {**facts, **made.data, GROUPS: _named(sorted({*made.known, *groups}))} if facts else made.data


def find(data: Mapping[str, str], group: str, machine_type: str) -> MachineResources | None:
    """Read what one machine of a type has; None where the catalogue does not have the type."""
    prefix = f"{group}.{machine_type}"
    if f"{prefix}.{CPU}" not in data:
        return None
    label = data.get(f"{prefix}.{GPU_LABEL}")
    return MachineResources(
        cpu_millis=quantities.millis(data[f"{prefix}.{CPU}"]),
        memory_bytes=quantities.units(data[f"{prefix}.{MEMORY}"]),
        gpus=quantities.units(data.get(f"{prefix}.{GPU}", "0")),
        gpu_label=None if label is None else NodeLabel(label, data[f"{prefix}.{GPU_VALUE}"]),
        parent=data.get(f"{prefix}.{PARENT}"),
    )


def _resolved(machine_type: MachineType, by_name: Mapping[str, MachineType]) -> MachineResources:
    spec = machine_type.spec
    return MachineResources(
        cpu_millis=_within(quantities.millis(spec.cpu)) if spec.cpu else _share(machine_type, by_name, CPU),
        memory_bytes=_within(quantities.units(spec.memory)) if spec.memory else _share(machine_type, by_name, MEMORY),
        gpus=spec.gpu.num if spec.gpu else 0,
        gpu_label=_gpu_label(spec.gpu) if spec.gpu else None,
        parent=spec.dependence.parent if spec.dependence else None,
    )


def _within(amount: int) -> int:
    return min(quantities.LARGEST, amount)


def _share(machine_type: MachineType, by_name: Mapping[str, MachineType], resource: str) -> int:
    """Return a child's part of what its parent has, rounded down.

    The schema demands the amount or a dependence, and a parent that is there and depends on nobody.
    """
    dependence = machine_type.spec.dependence
    if dependence is None:
        raise ValueError(f"machine type {machine_type.name} has neither {resource} nor a parent to derive it from")
    parent = _resolved(by_name[dependence.parent], {})
    whole = parent.cpu_millis if resource == CPU else parent.memory_bytes
    return int(Fraction(dependence.available_ratio, 100) * whole)


def _gpu_label(gpu: Gpu) -> NodeLabel:
    given = {keys.GPU_FAMILY: gpu.family, keys.GPU_PRODUCT: gpu.product, keys.GPU_MACHINE: gpu.machine}
    ((key, value),) = ((key, value) for key, value in given.items() if value is not None)
    return NodeLabel(key, value)


def _group_facts(group: str, spec: MachineSpec) -> dict[str, str]:
    resolved = resolve(spec)
    facts = {f"{group}.{TYPES}": ", ".join(sorted(resolved))}
    for name, machine in resolved.items():
        facts |= {f"{group}.{name}.{fact}": value for fact, value in _facts(machine).items()}
    return facts


def _facts(machine: MachineResources) -> dict[str, str]:
    facts = {CPU: _cpu(machine.cpu_millis), MEMORY: _memory(machine.memory_bytes)}
    if machine.gpu_label is not None:
        facts |= {GPU: str(machine.gpus), GPU_LABEL: machine.gpu_label.key, GPU_VALUE: machine.gpu_label.value}
    if machine.parent is not None:
        facts[PARENT] = machine.parent
    return facts


def _named(names: list[str]) -> str:
    """Write names in a row, as many as fit."""
    text = ", ".join(names) if names else "none"
    if len(text) <= NAMED_MAX:
        return text
    shown = text[: text.rindex(", ", 0, NAMED_MAX - len(", and 10000 more"))]
    return f"{shown}, and {len(names) - shown.count(', ') - 1} more"


def _cpu(millis: int) -> str:
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def _memory(count: int) -> str:
    for suffix, unit in _BINARY:
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)
