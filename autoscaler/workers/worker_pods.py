"""The worker pods of one pool: who is there, and how some are made, removed and let go. It decides no number.

A worker carries our finalizer, so that nobody can take it away without our knowing. It is taken off as soon as the
worker's deletion was asked for: the kubelet still ends it in its own time, and nothing hangs on us.
"""

import asyncio
import functools
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import structlog

from autoscaler import control
from autoscaler.api import keys, names, version
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, objects, port, store, wire, writer
from autoscaler.workers import pods
from autoscaler.workers.model import Phase, Worker

log = structlog.get_logger()
AT_ONCE: Final = 16
"""So many writes of one pool are under way at once: others must not wait for the last of a thousand workers."""
NAMES_TRIED: Final = 5
PROVEN_SECONDS: Final = 30.0
UNSURE_SECONDS: Final = 90.0
"""Longer than an API server works on a request: an unanswered creation has happened by then, or never will."""
_SERVER_ERROR: Final = 500
PAGE: Final = 500
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes uses them for generated names: no word comes out by chance."""
_TROUBLE: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
T = TypeVar("T")


def random_suffix() -> str:
    """Make the random part of a worker's name."""
    return "".join(secrets.choice(_LETTERS) for _ in range(names.POD_SUFFIX_LENGTH))


class PoolId(NamedTuple):
    """A pool, as its workers name it. The namespace is part of it: anybody may write any uid into a pod."""

    namespace: str
    uid: str


def by_pool(pod: objects.Pod) -> tuple[PoolId, ...]:
    """Return the pool that a pod is a worker of."""
    owner = pod.meta.controller
    is_ours = owner is not None and owner.kind == "WorkerPool" and owner.api_version == version.GROUP_VERSION
    return (PoolId(pod.meta.key.namespace, owner.uid),) if owner is not None and is_ours else ()


def hangs_on_us(pod: objects.Pod) -> bool:
    """Tell whether a pod's deletion was asked for and waits for us."""
    return pod.meta.deleted_at is not None and keys.FINALIZER in pod.meta.finalizers


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of several writes, each on its own."""

    done: int = 0
    failures: tuple[port.KubeError, ...] = ()

    @property
    def failure(self) -> port.KubeError | None:
        """Return the first thing that went wrong."""
        return self.failures[0] if self.failures else None


class WorkerPods:
    """The workers of one pool."""

    def __init__(
        self,
        context: control.ControllerContext,
        table: store.Table[objects.Pod],
        *,
        pool: objects.Key,
        uid: str,
        unsure: dict[str, float],
        suffix: Callable[[], str] = random_suffix,
    ) -> None:
        """Take care of a pool's workers; `unsure` outlives us, since what was asked for may come later."""
        self._api = context.api
        self._writer = context.writer
        self._time = context.clock
        self._table = table
        self._index = table.index(by_pool)
        self._target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=table)
        self._pool = pool
        self._id = PoolId(pool.namespace, uid)
        self._suffix = suffix
        self._is_confirmed = False
        self._unsure = unsure
        """Names of workers that were asked for without an answer, and until when they may still come."""

    def there(self) -> Mapping[objects.Key, objects.Pod]:
        """Return the pods that are known. A view: it changes with the table."""
        return self._index.get(self._id)

    def workers(self) -> tuple[Worker, ...]:
        """Return all workers, those that may have been made included."""
        found = [_worker(pod) for pod in self.there().values()]
        known, now = {worker.name for worker in found}, self._time.monotonic()
        for name in [name for name, until in self._unsure.items() if until <= now or name in known]:
            del self._unsure[name]
        return (*found, *(Worker(name=name, phase=Phase.PENDING) for name in self._unsure))

    async def confirm(self) -> None:
        """Ask the API server itself, once, who is there: what we watch may lag behind what a replica before us did."""
        if self._is_confirmed:
            return
        query = {"labelSelector": f"{keys.WORKER_POOL}={self._pool.name}", "limit": str(PAGE)}
        while True:
            request = port.Request(method="GET", path=kinds.PODS.collection(self._pool.namespace), query=query)
            page = wire.LISTING.decode(port.required(await self._api.send(request)))
            for item in page.items:
                try:
                    self._table.wrote(objects.pod(item))
                except (msgspec.MsgspecError, ValueError) as error:  # the watch has put it aside, and says so
                    log.info("pod_unreadable", pool=self._pool, error=str(error))
            if not page.metadata.continue_:
                break
            query = {**query, "continue": page.metadata.continue_}
        self._is_confirmed = True

    async def create(
        self, count: int, template: Mapping[str, Any], blueprint: pods.Blueprint, *, is_wanted: Callable[[], bool]
    ) -> Outcome:
        """Make so many workers, each only if it is still wanted; stop at a refusal, as the others would be refused."""
        make = functools.partial(self._create, template, blueprint)
        return await _each(range(count), lambda _: make(), go_on=is_wanted, stop_early=True)

    async def remove(self, chosen: Iterable[str]) -> Outcome:
        """Delete workers and let them go."""
        there = [pod for name in chosen if (pod := self.there().get(objects.Key(self._pool.namespace, name)))]
        return await _each(there, self._remove)

    async def let_go(self) -> Outcome:
        """Take our finalizer off all workers whose deletion was asked for."""
        return await _each([pod for pod in self.there().values() if hangs_on_us(pod)], self._let_go)

    def has_proven(self) -> bool:
        """Tell whether one of the workers did its work, or has been at it for a while."""
        now = self._time.now()
        return any(
            pod.phase == "Succeeded"
            or (pod.phase == "Running" and pod.started_at is not None and now - pod.started_at > PROVEN_SECONDS)
            for pod in self.there().values()
        )

    def is_free(self) -> bool:
        """Tell whether no pod has our finalizer any more."""
        return not any(keys.FINALIZER in pod.meta.finalizers for pod in self.there().values())

    async def _create(self, template: Mapping[str, Any], blueprint: pods.Blueprint) -> None:
        for _ in range(NAMES_TRIED):
            manifest = pods.make(template, blueprint, self._suffix())
            try:
                return await self._post(manifest)
            except port.AlreadyExistsError:
                if objects.Key(self._pool.namespace, manifest["metadata"]["name"]) in self.there():
                    return None  # it is ours: the answer to an earlier attempt was lost
        raise port.UnreachableError(f"no free name for a worker of {self._pool.name} was found")

    async def _post(self, manifest: Manifest) -> None:
        """Create a worker; one whose creation was not answered is counted until it cannot come any more."""
        name = manifest["metadata"]["name"]
        self._unsure[name] = self._time.monotonic() + UNSURE_SECONDS
        try:
            await self._writer.create(self._target, manifest)
        except port.ApiError as error:
            if error.status < _SERVER_ERROR or await self._is_absent(name):
                self._unsure.pop(name, None)
            # Without the random name: what is told again and again must be the same words.
            raise type(error)(error.status, error.reason, error.message.replace(f'"{name}" ', "")) from error
        self._unsure.pop(name, None)

    async def _is_absent(self, name: str) -> bool:
        """Tell whether a worker was surely not made, after an answer that leaves it open."""
        request = port.Request(method="GET", path=kinds.PODS.path(name, self._pool.namespace))
        try:
            self._target.remember(port.required(await self._api.send(request)))
        except port.NotFoundError:
            return True
        except (port.KubeError, msgspec.MsgspecError, ValueError):
            return False
        return False

    async def _remove(self, pod: objects.Pod) -> None:
        if pod.meta.deleted_at is None:
            await self._writer.delete(self._target, pod.meta.key, only_if=writer.Precondition(uid=pod.meta.uid))
        left = self._table.get(pod.meta.key)
        if left is not None and left.meta.uid == pod.meta.uid and hangs_on_us(left):
            await self._let_go(left)

    async def _let_go(self, pod: objects.Pod) -> None:
        await let_go(self._writer, self._target, pod)


async def let_go(writes: writer.Writer, target: writer.Target[objects.Pod], pod: objects.Pod) -> None:
    """Take our finalizer off a pod."""
    left = [finalizer for finalizer in pod.meta.finalizers if finalizer != keys.FINALIZER]
    try:
        await writes.patch(
            target, pod.meta.key, {"metadata": {"finalizers": left or None}}, only_if=writer.Precondition.of(pod)
        )
    except port.NotFoundError:
        target.forget(pod.meta.key, pod.meta.uid)


async def _each(
    things: Sequence[T],
    do: Callable[[T], Awaitable[None]],
    *,
    go_on: Callable[[], bool] = lambda: True,
    stop_early: bool = False,
) -> Outcome:
    """Do something to each, several at once; one failure does not stop the others unless told so."""
    failures: list[port.KubeError] = []
    fenced: list[writer.FencedError] = []
    done = 0
    left = iter(things)

    async def work() -> None:
        nonlocal done
        for thing in left:
            if fenced or (stop_early and failures) or not go_on():
                return
            try:
                await do(thing)
                done += 1
            except port.KubeError as error:
                failures.append(error)
            except writer.FencedError as error:
                fenced.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(things))):
            group.create_task(work())
    if fenced:
        raise fenced[0]
    return Outcome(done=done, failures=tuple(failures))


def _worker(pod: objects.Pod) -> Worker:
    return Worker(
        name=pod.meta.key.name,
        phase=_phase(pod.phase),
        terminating=pod.meta.deleted_at is not None,
        trouble=next((reason for reason in pod.waiting_reasons if reason in _TROUBLE), ""),
    )


def _phase(text: str) -> Phase:
    match text:
        case "Succeeded":
            return Phase.SUCCEEDED
        case "Failed":
            return Phase.FAILED
        case "Running" | "Unknown":  # nobody knows better: its node does not answer
            return Phase.RUNNING
        case _:
            return Phase.PENDING
