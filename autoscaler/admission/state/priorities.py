"""PriorityClasses: what the priority of a job's pods is. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from autoscaler.kube import objects, wire

SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has, also while they are not listed."""


class PriorityClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PriorityClass."""

    meta: objects.Meta
    value: int
    is_default: bool


class _PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    metadata: wire.ObjectMeta
    value: int = 0
    global_default: bool = False


_DECODER: Final = msgspec.json.Decoder(_PriorityClass)


def decode(raw: bytes | msgspec.Raw) -> PriorityClass:
    """Decode a PriorityClass."""
    read = _DECODER.decode(raw)
    return PriorityClass(meta=objects.meta(read.metadata), value=read.value, is_default=read.global_default)


def value_of(name: str, classes: Iterable[PriorityClass]) -> int:
    """Return the value of a class; of no name, that of the cluster's default; of one that is not there, 0."""
    if not name:
        return max((each.value for each in classes if each.is_default), default=0)
    return next((each.value for each in classes if each.meta.key.name == name), SYSTEM.get(name, 0))
