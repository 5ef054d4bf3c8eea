"""Put a finalizer on an object and take it off, onto the very version that was decided on."""

from collections.abc import Sequence
from typing import TypeVar

from autoscaler.kube import objects, port
from autoscaler.kube.writing import writer

T = TypeVar("T", bound=objects.Stored)


async def add(
    writes: writer.Writer, target: writer.Target[T], stored: T, finalizer: str, *, attempts: int = writer.ATTEMPTS
) -> None:
    """Keep an object from going until we let it go; one that has the finalizer is left as it is."""
    there = stored.meta.finalizers
    if finalizer not in there:
        await _set(writes, target, stored, [*there, finalizer], attempts)


async def remove(
    writes: writer.Writer, target: writer.Target[T], stored: T, finalizer: str, *, attempts: int = writer.ATTEMPTS
) -> None:
    """Let an object go; one that is gone already, or never had the finalizer, is fine."""
    there = stored.meta.finalizers
    if finalizer not in there:
        return
    try:
        await _set(writes, target, stored, [each for each in there if each != finalizer], attempts)
    except port.NotFoundError:
        target.forget(stored.meta.key, stored.meta.uid)


async def _set(
    writes: writer.Writer, target: writer.Target[T], stored: T, finalizers: Sequence[str], attempts: int
) -> None:
    changes = {"metadata": {"finalizers": list(finalizers) or None}}
    only_if = writer.Precondition.of(stored)
    await writes.patch(target, stored.meta.key, changes, only_if=only_if, attempts=attempts)
