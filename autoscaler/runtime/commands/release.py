"""`python -m autoscaler release --force`: free a cluster whose runtime cannot come back.

It takes every finalizer, gate and mark of ours off whatever carries one, so that nothing hangs on a runtime that is not
there, and unbinds the policies by which jobs and guests would go on to wait for it. Jobs that are suspended stay so,
and are named. It empties nothing and waits for nobody: that is the runtime's own way to leave. It may be run again and
again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler import clock
from autoscaler.admission import jobs, leaving
from autoscaler.api import keys, names, policies, resources
from autoscaler.kube import kinds, owned_marks, port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.leases import lease
from autoscaler.kube.reading import listing

ATTEMPTS: Final = 5
AT_ONCE: Final = 16
DENIED: Final = frozenset({403, 422})
"""What the API server answers where a policy says no."""
NAMED_MAX: Final = 20
"""So many jobs that stay suspended are named."""
PAUSE_SECONDS: Final = 2.0
"""An API server takes a moment to see that a policy is gone."""


def _type(kind: str) -> kinds.ResourceType:
    """Name the kind of a policy's binding."""
    group = "admissionregistration.k8s.io"
    return kinds.ResourceType(group=group, version="v1", plural=f"{kind.lower()}s", kind=kind, namespaced=False)


_UNBOUND: Final = (*policies.about_jobs(""), *policies.about_guests(""))
_BINDINGS: Final = tuple(policy.manifests()[1] for policy in _UNBOUND)
BINDINGS: Final = tuple((_type(binding["kind"]), str(binding["metadata"]["name"])) for binding in _BINDINGS)
"""Those by which jobs are suspended and jobs and guests are gated, and nobody but the runtime opens gates and writes
Workloads."""
Say = Callable[[str], None]
Found = dict[str, Any]


class ReleaseError(Exception):
    """Nothing was released; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look."""

    namespace: str | None = None
    """The runtime's namespace, whose Leases and drain object are meant; None: any."""
    even_if_running: bool = False


def release(origin: credentials.Origin, scope: Scope, say: Say) -> list[str]:
    """Free the cluster and say what was done; return what could not be freed."""
    try:
        return asyncio.run(_connect(origin, scope, say))
    except (port.KubeError, credentials.CredentialsError) as error:
        raise ReleaseError(f"cannot release: {error}") from error


async def _connect(origin: credentials.Origin, scope: Scope, say: Say) -> list[str]:
    async with contextlib.aclosing(await client.Client.connect(origin)) as api:
        return await free(api, scope, say, now=clock.SystemClock().now())


async def free(api: port.Api, scope: Scope, say: Say, *, now: float) -> list[str]:
    """Take all of ours off every object; one that cannot be freed does not stop the others."""
    if not scope.even_if_running:
        _refuse_if_alive(await listing.read(api, kinds.LEASES, lease.decode), scope.namespace, now)
    failures: list[str] = []
    held: list[tuple[kinds.ResourceType, Found]] = []
    for resource, query in _places():
        try:
            found = await listing.read(api, resource, msgspec.json.decode, query=query)
        except port.KubeError as error:
            failures.append(f"{resource.plural} could not be listed: {error}")
            continue
        held += [(resource, each) for each in found if _changes(resource, each) and _is_meant(resource, each, scope)]
    if not scope.even_if_running or any(_is_kept(resource, each) for resource, each in held):
        failures += [failure for binding in BINDINGS for failure in await _unbind(api, *binding, say)]
    slots = asyncio.Semaphore(AT_ONCE)
    outcomes = await asyncio.gather(*(_free_one(api, resource, each, slots, say) for resource, each in held))
    failures += [failure for failure in outcomes if failure is not None]
    failures += await _name_suspended(api, say)
    say(f"{len(held) - sum(each is not None for each in outcomes)} objects freed, {len(failures)} failures")
    return failures


def living(leases: Iterable[lease.Lease], namespace: str | None, now: float) -> list[str]:
    """Name the runtimes that hold a Lease of ours, of this namespace or of the whole cluster."""
    found = []
    for seen in leases:
        meta = seen.metadata
        is_meant = namespace is None or meta.namespace in {namespace, "kube-system"}
        if is_meant and _is_ours(meta.name) and lease.is_alive(seen, now):
            found.append(f"{seen.spec.holder_identity} (Lease {meta.namespace}/{meta.name})")
    return sorted(found)


def _is_ours(name: str) -> bool:
    return name == names.CLUSTER_LEASE or name.startswith(names.WORKER_LEASE)


def _refuse_if_alive(leases: Sequence[lease.Lease], namespace: str | None, now: float) -> None:
    if alive := living(leases, namespace, now):
        raise ReleaseError(
            f"nothing was released: the runtime lives: {', '.join(alive)}. It would put everything back. Destroy the "
            "stack instead, and it leaves by itself; or scale its Deployment to 0, wait until its Lease is over, and "
            "try again; or give --even-if-running"
        )


def _places() -> Iterable[tuple[kinds.ResourceType, dict[str, str]]]:
    """Name the kinds that may carry something of ours; the drain object is the last that lets go."""
    yield kinds.NODES, {}
    yield kinds.PODS, {}
    for kind in resources.KINDS:
        yield kinds.custom(kind), {}
    yield kinds.CONFIG_MAPS, {"labelSelector": keys.GROUP_LIST}
    yield kinds.CONFIG_MAPS, {"fieldSelector": f"metadata.name={names.DRAIN_OBJECT}"}


def _changes(resource: kinds.ResourceType, found: Found) -> dict[str, Any]:
    return owned_marks.without({**found, "kind": resource.kind})  # lists leave the kind out


def _is_meant(resource: kinds.ResourceType, found: Found, scope: Scope) -> bool:
    is_elsewhere = scope.namespace is not None and found["metadata"].get("namespace") != scope.namespace
    return not (resource == kinds.CONFIG_MAPS and is_elsewhere)


def _is_kept(resource: kinds.ResourceType, found: Found) -> bool:
    """Tell whether a policy would keep an object as it is."""
    is_gated = resource == kinds.PODS and bool((found.get("spec") or {}).get("schedulingGates"))
    return is_gated or resource == kinds.custom(resources.Workload)


async def _unbind(api: port.Api, resource: kinds.ResourceType, name: str, say: Say) -> list[str]:
    """Take a policy out of force; return what went wrong."""
    try:
        port.required(await api.send(port.Request(method="DELETE", path=resource.path(name))))
    except port.NotFoundError:
        return []
    except port.KubeError as error:
        return [f"{resource.kind} {name}: {error}"]
    say(f"{resource.kind} {name}: deleted, so that nothing new waits for the runtime")
    return []


async def _name_suspended(api: port.Api, say: Say) -> list[str]:
    """Name the jobs that nobody will resume; return what went wrong."""
    failures, found = [], []
    for kind in jobs.KINDS:
        try:
            query = {"labelSelector": keys.QUEUE_NAME}
            listed, _ = await listing.read_readable(api, kind.resource, kind.decode, query=query)
        except port.KubeError as error:
            failures.append(f"{kind.resource.plural} could not be listed: {error}")
            continue
        found += [job for job in listed if leaving.stays_suspended(job)]
    for job in found[:NAMED_MAX]:
        say(f"{job.kind} {job.meta.key.namespace}/{job.meta.key.name}: {leaving.STAYS_SUSPENDED}")
    if len(found) > NAMED_MAX:
        say(f"{len(found) - NAMED_MAX} more jobs stay suspended")
    return failures


async def _free_one(
    api: port.Api, resource: kinds.ResourceType, found: Found, slots: asyncio.Semaphore, say: Say
) -> str | None:
    """Free one object and say so; return what went wrong."""
    name, namespace = found["metadata"]["name"], found["metadata"].get("namespace")
    called = f"{resource.kind} {f'{namespace}/' if namespace else ''}{name}"
    try:
        async with slots:
            freed = await _patch(api, resource, found)
    except port.KubeError as error:
        return f"{called}: {error}"
    if freed:
        say(f"{called}: {freed}")
    return None


async def _patch(api: port.Api, resource: kinds.ResourceType, found: Found) -> str:
    """Take all of ours off an object, looking again where it changed meanwhile; return what was taken off."""
    path = resource.path(found["metadata"]["name"], found["metadata"].get("namespace"))
    for attempt in range(1, ATTEMPTS + 1):
        changes = _changes(resource, found)
        if not changes:
            return ""
        only_if = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        body = msgspec.json.encode({**changes, "metadata": {**changes.get("metadata", {}), **only_if}})
        try:
            request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
            port.required(await api.send(request))
            return owned_marks.told(changes)
        except port.NotFoundError:
            return ""
        except port.ApiError as error:
            if attempt == ATTEMPTS or not (isinstance(error, port.ConflictError) or _may_pass(error)):
                raise
            await asyncio.sleep(0 if isinstance(error, port.ConflictError) else PAUSE_SECONDS)
        try:
            found = msgspec.json.decode(await port.get(api, path))
        except port.NotFoundError:
            return ""
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: port.ApiError) -> bool:
    """Tell whether a policy that was just taken away may still have been in force."""
    return error.status in DENIED and any(name in str(error) for _, name in BINDINGS)
