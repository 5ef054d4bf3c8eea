"""Instance types: what an instance has, and what a node on it will have left for pods.

Every type is known from a bundled table, so that planning never waits for AWS; what EC2 itself says replaces the
table's word once it was asked. What a running node says is truer still, and is for the capacity controller to learn.
"""

import functools
import importlib.resources
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
import structlog

from autoscaler.api import keys, node_resources
from autoscaler.api.resources.pools import Architecture
from autoscaler.cloud import port

_TABLE: Final = "instance_types.json"
_ATTACHMENTS: Final = 28
"""Of a Nitro instance: volumes, network interfaces and accelerators share them (EC2's guide, "volume limits")."""
_ROOT_AND_INTERFACES: Final = 3
"""Taken when a node starts: its own volume and two interfaces."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """What an instance of a type has, as EC2 describes it."""

    name: str
    architecture: Architecture
    vcpus: int
    memory_bytes: int
    network_interfaces: int
    addresses_per_interface: int
    gpus: int = 0
    """NVIDIA GPUs; those of other makers are not counted, for no device plugin of ours offers them."""
    gpu_name: str | None = None
    """What EC2 calls the GPU, such as V100; None without GPUs."""

    @property
    def max_pods(self) -> int:
        """The most pods a node takes."""
        return node_resources.max_pods(
            vcpus=self.vcpus,
            network_interfaces=self.network_interfaces,
            addresses_per_interface=self.addresses_per_interface,
        )

    @property
    def attachable_volumes(self) -> int:
        """How many EBS volumes a node is expected to attach; older types attach more, but none less by much."""
        return max(1, _ATTACHMENTS - _ROOT_AND_INTERFACES - self.gpus)

    def capacity(self) -> dict[str, int]:
        """Return what a node has: cpu in millis, all else in units."""
        gpus = {keys.GPU_RESOURCE: self.gpus} if self.gpus else {}
        return {"cpu": self.vcpus * 1000, "memory": self.memory_bytes, "pods": self.max_pods, **gpus}

    def allocatable(self) -> dict[str, int]:
        """Return what is expected to be left for pods: cpu in millis, all else in units."""
        return {
            **self.capacity(),
            "cpu": self.vcpus * 1000 - node_resources.reserved_cpu_millis(self.vcpus),
            "memory": node_resources.allocatable_memory(self.memory_bytes, pods=self.max_pods),
        }


def expected(kind: InstanceType, node: port.NodeTemplate) -> dict[str, int]:
    """Return what a group's nodes are expected to offer: what the type leaves, or what the group's tags say."""
    return {**kind.allocatable(), **node.resources}


@runtime_checkable
class Source(Protocol):
    """Who can tell what instance types have."""

    async def instance_types(self, names: Collection[str]) -> Mapping[str, InstanceType]:
        """Return those of these types that exist; raise CloudError."""
        ...


class Catalogue:
    """Knows instance types. Asking it never waits."""

    def __init__(self, source: Source | None = None) -> None:
        self._source = source
        self._learned: dict[str, InstanceType] = {}

    def get(self, name: str) -> InstanceType | None:
        """Return a type; None if neither EC2 nor the table knew it."""
        return self._learned.get(name) or bundled().get(name)

    async def learn(self, names: Collection[str]) -> None:
        """Ask once about types that were not asked about; if nobody answers, the table's word stands."""
        unknown = sorted({name for name in names if name not in self._learned})
        if not unknown or self._source is None:
            return
        try:
            self._learned |= await self._source.instance_types(unknown)
        except port.CloudError as error:
            log.warning("instance_types_not_learned", count=len(unknown), reason=error.reason, error=error.message)


def render(types: Iterable[InstanceType]) -> str:
    """Write the table, one line for each type, family by family: a change is a changed line."""
    ordered = sorted(types, key=lambda kind: (kind.name.partition(".")[0], kind.vcpus, kind.memory_bytes, kind.name))
    return "{\n" + ",\n".join(_line(kind) for kind in ordered) + "\n}\n"


def _line(kind: InstanceType) -> str:
    row: list[str | int | None] = [kind.architecture, kind.vcpus, kind.memory_bytes // node_resources.MIB]
    row += [kind.network_interfaces, kind.addresses_per_interface]
    row += [kind.gpus, kind.gpu_name] if kind.gpus else []
    return f' "{kind.name}": {msgspec.json.encode(row).decode()}'


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """A line of the table."""

    architecture: Architecture
    vcpus: int
    memory_mib: int
    network_interfaces: int
    addresses_per_interface: int
    gpus: int = 0
    gpu_name: str | None = None


@functools.cache
def bundled() -> Mapping[str, InstanceType]:
    """Read the table that ships with us: EC2's own descriptions, and its documentation for p2 and p3."""
    text = importlib.resources.files("autoscaler.cloud").joinpath(_TABLE).read_bytes()
    rows = msgspec.json.decode(text, type=dict[str, _Row])
    return {name: _instance_type(name, **msgspec.structs.asdict(row)) for name, row in rows.items()}


def _instance_type(name: str, *, memory_mib: int, **rest: Any) -> InstanceType:  # noqa: ANN401  # as the row has them
    return InstanceType(name=name, memory_bytes=memory_mib * node_resources.MIB, **rest)
