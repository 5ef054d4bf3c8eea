"""`python -m autoscaler plan`: ask the leaders what all controllers would do now. It reads, and decides nothing.

A leader is found by its Lease and asked through the API server's proxy to its pod, so that no more is needed than
kubectl needs; or, where the runtime is no pod, at a URL.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from autoscaler import clock
from autoscaler.api import controllers, names
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.leases import lease
from autoscaler.kube.reading import listing
from autoscaler.runtime import leadership
from autoscaler.runtime.plans import plan_document
from autoscaler.runtime.plans.plan_document import Document, State

HOPS_MAX: Final = 5
"""So many replicas are asked at most: leaders may change meanwhile."""
TIMEOUT_SECONDS: Final = 10.0
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_DECODER: Final = msgspec.json.Decoder(Document)


class PlanError(Exception):
    """There is no plan to print; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to ask."""

    origin: credentials.Origin | None = None
    """The API server; None: nobody but the replica at `url`."""
    namespace: str | None = None
    """The runtime's; None: wherever a pod has the leader's name."""
    url: str = ""


def plan(place: Place) -> Document:
    """Return what all controllers would do now; PlanError if nobody could say."""
    try:
        return asyncio.run(_at_url(place.url) if place.origin is None else _connect(place.origin, place.namespace))
    except (port.KubeError, credentials.CredentialsError) as error:
        raise PlanError(f"cannot plan: {error}") from error


async def _at_url(url: str) -> Document:
    limit = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(f"{url.rstrip('/')}/plan") as answer:
            found = _decoded(answer.status, await answer.read(), url)
    except (aiohttp.ClientError, OSError) as error:
        raise PlanError(f"cannot plan: nobody answers at {url}: {error!r}") from error
    if all(each.state is State.STANDBY for each in found.controllers):
        leaders = sorted({leadership.pod_of(each.leader) for each in found.controllers if each.leader})
        raise PlanError(f"cannot plan: {url} does not lead: {', '.join(leaders) or 'nobody'} does. Ask there")
    return found


async def _connect(origin: credentials.Origin, namespace: str | None) -> Document:
    async with contextlib.aclosing(await client.Client.connect(origin)) as api:
        return await of_leaders(api, namespace, now=clock.SystemClock().now())


async def of_leaders(api: port.Api, namespace: str | None, *, now: float) -> Document:
    """Ask every leader, and whomever they name instead of themselves."""
    waiting = dict.fromkeys(holders(await _leases(api, namespace), now))
    if not waiting:
        raise PlanError(
            "cannot plan: nobody leads. No Lease of the runtime is held: does it run, in this cluster? A runtime that "
            "just ended leads again within a minute"
        )
    asked: dict[str, Document] = {}
    while (holder := next((each for each in waiting if each not in asked), None)) and len(asked) < HOPS_MAX:
        asked[holder] = await _ask(api, holder, namespace)
        said = asked[holder].controllers
        waiting |= dict.fromkeys(each.leader for each in said if each.leader and each.state is State.STANDBY)
    return plan_document.joined(list(asked.values()))


def holders(leases: Iterable[lease.Lease], now: float) -> Iterator[str]:
    """Name those who hold Leases of ours."""
    for seen in sorted(leases, key=lambda each: (each.metadata.name, each.metadata.namespace)):
        is_ours = seen.metadata.name == names.CLUSTER_LEASE or seen.metadata.name.startswith(names.WORKER_LEASE)
        if is_ours and seen.spec.holder_identity and lease.is_alive(seen, now):
            yield seen.spec.holder_identity


async def _leases(api: port.Api, namespace: str | None) -> list[lease.Lease]:
    places = (None,) if namespace is None else dict.fromkeys((controllers.KUBE_SYSTEM, namespace))
    with _explained("list", "leases.coordination.k8s.io"):
        return [
            each for place in places for each in await listing.read(api, kinds.LEASES, lease.decode, namespace=place)
        ]


async def _ask(api: port.Api, holder: str, namespace: str | None) -> Document:
    """Ask a replica, through the API server's proxy to its pod; the port is the first that the pod names."""
    pod = leadership.pod_of(holder)
    where = namespace or await _namespace(api, pod)
    request = port.Request(
        method="GET", path=f"{kinds.PODS.path(pod, where)}/proxy/plan", timeout_seconds=TIMEOUT_SECONDS
    )
    answer = await api.send(request)
    with _explained("get", f"pods/proxy in namespace {where}"):
        if answer.status == _FORBIDDEN:
            port.required(answer)
    return _decoded(answer.status, answer.body, f"pod {where}/{pod}")


async def _namespace(api: port.Api, pod: str) -> str:
    with _explained("list", "pods in all namespaces (or give --namespace)"):
        found = await listing.read(api, kinds.PODS, objects.simple, query={"fieldSelector": f"metadata.name={pod}"})
    places = sorted(each.meta.key.namespace for each in found)
    if len(places) == 1:
        return places[0]
    if places:
        raise PlanError(f"cannot plan: several pods are called {pod}: give --namespace, one of {', '.join(places)}")
    raise PlanError(f"cannot plan: the leader {pod} is no pod of this cluster: give its address by --url")


def _decoded(status: int, body: bytes, who: str) -> Document:
    """Read an answer of a replica, or of a proxy before it."""
    if 200 <= status < 300:
        try:
            found = _DECODER.decode(body)
        except msgspec.MsgspecError as error:
            raise PlanError(f"cannot plan: {who} gave no plan that this version understands: {error}") from error
        if found.version != plan_document.VERSION:
            raise PlanError(
                f"cannot plan: {who} gave a plan of version {found.version}: use this command of its version"
            )
        return found
    refusal = port.error_of(status, body)
    if status == _NOT_FOUND and not refusal.reason:
        raise PlanError(f"cannot plan: {who} is too old to tell its plan: upgrade the runtime")
    raise PlanError(f"cannot plan: {who} could not be asked: {refusal}")


@contextlib.contextmanager
def _explained(verb: str, what: str) -> Iterator[None]:
    """Name the right that is missing."""
    try:
        yield
    except port.ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        raise PlanError(f"cannot plan: you lack the right to {verb} {what}: {error.message}") from error
