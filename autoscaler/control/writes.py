"""A write to one object, as all controllers hand it to the executor, and how it is sent. It decides nothing.

Every write is sent once, and what follows from something that was read names the object and the version that was read:
a decision made on an old view fails instead of taking effect twice. What failed is the caller's to decide anew.
"""

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from autoscaler.kube.objects import Key
from autoscaler.kube.writing import writer


class Verb(StrEnum):
    """What is done."""

    CREATE = "create"
    PATCH = "patch"
    PATCH_STATUS = "patch status of"
    DELETE = "delete"


class Write(Protocol):
    """One write to one object. Each object has one moment per step at which a refused one is tried again."""

    @property
    def step(self) -> str:
        """What it is for."""
        ...

    @property
    def on(self) -> str:
        """The kind that is written to."""
        ...

    @property
    def verb(self) -> Verb: ...

    @property
    def key(self) -> Key: ...

    @property
    def uid(self) -> str:
        """The very object it is for; empty: it is made."""
        ...

    @property
    def resource_version(self) -> int | None:
        """The version that was decided on; None: any of this object."""
        ...

    @property
    def body(self) -> Mapping[str, Any]:
        """The object, or the merge patch; of a status patch, the status."""
        ...

    @property
    def sort(self) -> Hashable:
        """What it shares with other writes that are refused for the same reasons."""
        ...


async def send(via: writer.Writer, target: writer.Target[Any], write: Write) -> None:
    """Send a write once."""
    only_if = writer.Precondition(uid=write.uid, resource_version=write.resource_version)
    match write.verb:
        case Verb.CREATE:
            await via.create(target, write.body, attempts=1)
        case Verb.PATCH:
            await via.patch(target, write.key, write.body, only_if=only_if, attempts=1)
        case Verb.PATCH_STATUS:
            status = {"status": dict(write.body)}
            await via.patch(target, write.key, status, only_if=only_if, subresource="status", attempts=1)
        case Verb.DELETE:
            await via.delete(target, write.key, only_if=only_if, attempts=1)
