"""`python -m autoscaler explain …`: read the live cluster once, and say why a pod, a job or a Workload waits.

What quota says is in `explain_quota`, and what machine groups say in `explain_machines`; here is what every node group
says to a pod.
"""

import asyncio
import contextlib
from collections.abc import Iterable

import msgspec

from autoscaler import clock
from autoscaler.api import keys, resources
from autoscaler.capacity import messages
from autoscaler.capacity.reporting import explaining
from autoscaler.capacity.scaleup.storage import volume_objects
from autoscaler.capacity.scaleup.storage.needs import Storage
from autoscaler.control import plans
from autoscaler.kube import kinds, objects, port, wire
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.reading import listing
from autoscaler.runtime.commands import explain_machines, explain_quota


class ExplainError(Exception):
    """The cluster could not be read; the message says why."""


def explain(origin: credentials.Origin, kind: str, key: objects.Key) -> str:
    """Say why a pod, job or Workload waits; raise ExplainError if the cluster cannot be read."""
    try:
        return "\n".join(asyncio.run(_connect(origin, kind, key)))
    except (port.KubeError, credentials.CredentialsError) as error:
        raise ExplainError(f"cannot explain {kind} {key.namespace}/{key.name}: {error}") from error


async def _connect(origin: credentials.Origin, kind: str, key: objects.Key) -> list[str]:
    async with contextlib.aclosing(await client.Client.connect(origin)) as api:
        return await lines(api, kind, key, now=clock.SystemClock().now())


async def lines(api: port.Api, kind: str, key: objects.Key, *, now: float) -> list[str]:
    """Say why one waits; a pod that waits for quota, or for a machine, is told what these say first."""
    if kind == "workload":
        return await explain_quota.of_workload(api, key, now=now)
    if kind == "job":
        return await explain_quota.of_job(api, key, now=now)
    raw = await port.get(api, kinds.PODS.path(key.name, key.namespace))
    pod = objects.pod(raw)
    said = list(_lines(key, await _explain(api, pod, _scheduler_said(raw), now)))
    first: list[str] = []
    if keys.ADMISSION_GATE in pod.gates:
        first += await explain_quota.of_pod(api, pod, now=now)
    if keys.MACHINE_GROUP in pod.meta.labels:
        first += await explain_machines.of_pod(api, pod, now=now)
    return [*first, *(plans.wrapped(line) for line in said)] if first else said


def _lines(key: objects.Key, explanation: explaining.Explanation) -> Iterable[str]:
    """Write an explanation down."""
    scope = f" (scope {explanation.scope})" if explanation.scope else ""
    yield f"pod {key.namespace}/{key.name}{scope}: {explanation.summary}"
    if explanation.told:
        yield f"last told: {explanation.told}"
    yield from explanation.notes
    if explanation.room:
        yield f"nodes with room: {', '.join(explanation.room[:10])}"
    if not explanation.verdicts:
        return
    rows = [("POOL", "ZONE", "TYPE", "SAYS")]
    rows += [(v.key.pool, v.key.zone, v.key.instance_type, v.says) for v in explanation.verdicts]
    yield from plans.table(rows)


async def _explain(api: port.Api, pod: objects.Pod, scheduler_said: str, now: float) -> explaining.Explanation:
    pods, nodes, namespaces, pools, scopes, accounts = await asyncio.gather(
        listing.read(api, kinds.PODS, objects.pod),
        listing.read(api, kinds.NODES, objects.node),
        listing.read(api, kinds.NAMESPACES, objects.simple),
        listing.read(api, kinds.custom(resources.InstancePool), objects.custom(resources.InstancePool)),
        listing.read(api, kinds.custom(resources.Scope), objects.custom(resources.Scope)),
        _accounts(api),
    )
    told, storage = await _told(api, pod), await _storage(api, pod)
    return explaining.explain(
        explaining.Evidence(
            now=now,
            pod=pod,
            pods={each.meta.key: each for each in pods},
            nodes={each.meta.key: each for each in nodes},
            namespaces={each.meta.key.name: each.meta.labels for each in namespaces},
            pools=tuple(each.resource for each in pools),
            scopes=tuple(each.resource for each in scopes),
            storage=storage,
            told=told,
            scheduler_said=scheduler_said,
            accounts=accounts,
        )
    )


async def _storage(api: port.Api, pod: objects.Pod) -> Storage:
    """Return what there is of volumes; nothing is read for a pod that has none."""
    if not pod.shape.claims:
        return Storage()
    claims, found, classes, limits = await asyncio.gather(
        listing.read(api, kinds.CLAIMS, volume_objects.claim),  # others' volumes are attached to nodes, too
        listing.read(api, kinds.VOLUMES, volume_objects.volume),
        listing.read(api, kinds.STORAGE_CLASSES, volume_objects.storage_class),
        _attach_limits(api),
    )
    return Storage(
        claims={each.meta.key: each for each in claims},
        volumes={each.meta.key: each for each in found},
        classes={each.meta.key: each for each in classes},
        attach_limits={each.meta.key: each for each in limits},
    )


async def _attach_limits(api: port.Api) -> list[volume_objects.AttachLimits]:
    """Return how many volumes nodes attach; nothing where nobody lets us see it."""
    try:
        return await listing.read(api, kinds.CSI_NODES, volume_objects.attach_limits)
    except port.ApiError:
        return []


async def _accounts(api: port.Api) -> tuple[resources.ProviderAccount, ...]:
    """Return the provider accounts; none where nobody lets us see them."""
    try:
        found = await listing.read(
            api, kinds.custom(resources.ProviderAccount), objects.custom(resources.ProviderAccount)
        )
    except port.ApiError:
        return ()
    return tuple(each.resource for each in found)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Conditioned(msgspec.Struct):
    """A pod, as far as its conditions' words are shown."""

    status: _Status


def _scheduler_said(raw: bytes) -> str:
    """Return why the scheduler found no node for a pod."""
    conditions = msgspec.json.decode(raw, type=_Conditioned).status.conditions
    said = (each.message for each in conditions if each.type == "PodScheduled" and each.status == "False")
    return next(said, "")


class _Told(msgspec.Struct, rename="camel"):
    """An event, as far as it is shown."""

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None


async def _told(api: port.Api, pod: objects.Pod) -> str | None:
    """Return what the runtime told a pod last; None if it told nothing, or nobody lets us see it."""
    query = {"fieldSelector": f"involvedObject.uid={pod.meta.uid}"}
    path = kinds.EVENTS.collection(pod.meta.key.namespace)
    try:
        page = wire.LISTING.decode(await port.get(api, path, query))
    except port.ApiError:
        return None
    found = [msgspec.json.decode(item, type=_Told) for item in page.items]
    ours = [each for each in found if each.reason in {messages.TRIGGERED, messages.NOT_TRIGGERED}]
    last = max(ours, key=lambda each: each.last_timestamp or "", default=None)
    return None if last is None else f"{last.last_timestamp} {last.message}"
