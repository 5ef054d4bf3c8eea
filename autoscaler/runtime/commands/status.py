"""`python -m autoscaler status`: read the live cluster once, and say how the whole system is. It only reads."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import msgspec

from autoscaler import clock
from autoscaler.api import resources
from autoscaler.api.resources.base import Resource
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.leases import lease
from autoscaler.kube.reading import listing
from autoscaler.runtime import leadership
from autoscaler.runtime.commands import plan
from autoscaler.runtime.commands.status_tables import Seen

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
UNBOUND = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}


class StatusError(Exception):
    """The cluster could not be read; the message says why."""


def status(origin: credentials.Origin) -> Seen:
    """Return the state of the system; raise StatusError if nothing of it can be read."""
    try:
        return asyncio.run(_connect(origin))
    except (port.KubeError, credentials.CredentialsError) as error:
        raise StatusError(f"cannot tell the status: {error}") from error


async def _connect(origin: credentials.Origin) -> Seen:
    async with contextlib.aclosing(await client.Client.connect(origin)) as api:
        return await read(api, now=clock.SystemClock().now())


async def read(api: port.Api, *, now: float) -> Seen:
    """Read all that is shown; what cannot be read is named, and the rest is shown all the same."""
    unread: list[str] = []

    async def found(resource: kinds.ResourceType, decode: Callable[[msgspec.Raw], T], **query: str) -> tuple[T, ...]:
        def readable(raw: msgspec.Raw) -> T | None:
            try:
                return decode(raw)
            except Exception as error:  # noqa: BLE001  # whatever is strange about it: the rest is shown
                unread.append(_unreadable(resource, raw, error))
                return None

        try:
            listed = await listing.read(api, resource, readable, query=query or None)
        except port.ApiError as error:
            unread.append(f"{resource.plural}: {error}")
            return ()
        return tuple(each for each in listed if each is not None)

    async def custom(model: type[R]) -> tuple[objects.Custom[R], ...]:
        listed = await found(kinds.custom(model), objects.custom(model))
        return tuple(sorted(listed, key=lambda each: each.meta.key))

    namespaces = await found(kinds.NAMESPACES, objects.simple)
    leases = await found(kinds.LEASES, lease.decode)
    return Seen(
        at=now,
        leaders=tuple(sorted({leadership.pod_of(holder) for holder in plan.holders(leases, now)})),
        worker_pools=await custom(resources.WorkerPool),
        pools=await custom(resources.InstancePool),
        scopes=await custom(resources.Scope),
        accounts=await custom(resources.ProviderAccount),
        queues=await custom(resources.ClusterQueue),
        machines=await custom(resources.Machine),
        waiting=await found(kinds.PODS, objects.pod, **UNBOUND),
        namespaces={each.meta.key.name: each.meta.labels for each in namespaces},
        unread=tuple(unread),
    )


def _unreadable(resource: kinds.ResourceType, raw: msgspec.Raw, error: Exception) -> str:
    """Name an object that makes no sense to us: it may be older than a rule, or newer than we are."""
    known = listing.readable(objects.simple)(raw)
    place = f"{known.meta.key.namespace}/" if known is not None and known.meta.key.namespace else ""
    name = f"{place}{known.meta.key.name}" if known is not None else "(without a name)"
    return f"{resource.plural} {name}: {' '.join(str(error).split())}"
