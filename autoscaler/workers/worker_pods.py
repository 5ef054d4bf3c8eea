"""The worker pods of one pool: how they are made, removed and let go. It decides no number.

A worker carries our finalizer, so that nobody can take it away without our knowing. It is taken off as soon as the
worker's deletion was asked for: the kubelet still ends it in its own time, and nothing hangs on us.
"""

import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from autoscaler import control
from autoscaler.api import keys, names
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import batch, finalizers, writer
from autoscaler.workers import pods, worker_index
from autoscaler.workers.model import Phase
from autoscaler.workers.worker_index import PoolId, PoolWorkers

NAMES_TRIED: Final = 5
PROVEN_SECONDS: Final = 30.0
UNANSWERED_SECONDS: Final = 90.0
"""Longer than an API server works on a request: an unanswered creation has happened by then, or never will."""
_SERVER_ERROR: Final = 500
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes uses them for generated names: no word comes out by chance."""


def random_suffix() -> str:
    """Make the random part of a worker's name."""
    return "".join(secrets.choice(_LETTERS) for _ in range(names.POD_SUFFIX_LENGTH))


class WorkerPods:
    """The workers of one pool."""

    def __init__(  # noqa: PLR0913  # what it works on, and whose workers they are
        self,
        context: control.ControllerContext,
        table: store.Table[objects.Pod],
        index: worker_index.WorkerIndex,
        *,
        pool: objects.Key,
        uid: str,
        unanswered: dict[str, float],
        suffix: Callable[[], str] = random_suffix,
    ) -> None:
        """Take care of a pool's workers; `unanswered` outlives us, since what was asked for may come later."""
        self._api = context.api
        self._writer = context.writer
        self._time = context.clock
        self._table = table
        self._index = index
        self._target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=table)
        self._pool = pool
        self._id = PoolId(pool.namespace, uid)
        self._suffix = suffix
        self._is_listed = False
        self._unanswered = unanswered
        """Names of workers that were asked for without an answer, and until when they may still come."""
        self._refused: set[str] = set()
        """Names of workers whose removal was refused: they go last, so that others do not wait behind them."""

    @property
    def there(self) -> PoolWorkers:
        """The workers that are known. It changes with the table."""
        return self._index.get(self._id) or worker_index.NOBODY

    def unanswered(self) -> int:
        """Return how many workers may have been made without our knowing."""
        there, now = self.there.pods, self._time.monotonic()
        for name in [name for name, until in self._unanswered.items() if until <= now or name in there]:
            del self._unanswered[name]
        return len(self._unanswered)

    def total(self) -> int:
        """Return how many workers there are, those that may have been made included."""
        return len(self.there) + self.unanswered()

    async def look_up(self) -> None:
        """Ask the API server itself, once, who is there: what we watch may lag behind what a replica before us did."""
        if self._is_listed:
            return
        query = {"labelSelector": f"{keys.WORKER_POOL}={self._pool.name}"}
        where = self._pool.namespace
        found, _ = await listing.read_readable(self._api, kinds.PODS, objects.pod, namespace=where, query=query)
        for pod in found:
            self._table.wrote(pod)
        self._is_listed = True

    async def create(self, count: int, prototype: pods.Prototype, *, is_wanted: Callable[[], bool]) -> batch.Outcome:
        """Make so many workers, each only if it is still wanted."""
        return await batch.each(itertools.repeat(prototype, count), self._create, go_on=is_wanted)

    async def remove(self, chosen: Iterable[str]) -> batch.Outcome:
        """Delete workers. Letting them go is another step: it may be refused on its own."""
        there = self.there.pods
        found = [there[name] for name in chosen if name in there]
        return await batch.each(self._refused_last(found), self._remembering_refusals(self._remove))

    async def let_go(self, which: Mapping[str, objects.Pod]) -> batch.Outcome:
        """Take our finalizer off workers."""
        return await batch.each(self._refused_last(which.values()), self._remembering_refusals(self._let_go))

    def has_started(self) -> bool:
        """Tell whether one of the workers has started."""
        return len(self.there) > self.there.phases[Phase.PENDING]

    def has_proven(self, template: str | None) -> bool:
        """Tell whether a worker did its work, or has been at it for a while.

        Only those prove something that were made from the same template, by its hash; None: nobody knows which it is.
        """
        now = self._time.now()
        return any(
            template in (None, worker_index.template_of(pod)) and _is_at_work(pod, now)
            for pod in self.there.pods.values()
        )

    async def _create(self, prototype: pods.Prototype) -> None:
        for _ in range(NAMES_TRIED):
            manifest = prototype.named(self._suffix())
            try:
                return await self._post(manifest)
            except port.AlreadyExistsError:
                if manifest["metadata"]["name"] in self.there.pods:
                    return None  # it is ours: the answer to an earlier attempt was lost
        raise port.UnreachableError(f"no free name for a worker of {self._pool.name} was found")

    async def _post(self, manifest: Manifest) -> None:
        """Create a worker; one whose creation was not answered is counted until it cannot come any more."""
        name = manifest["metadata"]["name"]
        self._unanswered[name] = self._time.monotonic() + UNANSWERED_SECONDS
        try:
            await self._writer.create(self._target, manifest, attempts=1)
        except port.ApiError as error:
            if error.status < _SERVER_ERROR or await self._is_absent(name):
                self._unanswered.pop(name, None)
            # Without the random name: what is told again and again must be the same words.
            raise type(error)(error.status, error.reason, error.message.replace(f'"{name}" ', "")) from error
        self._unanswered.pop(name, None)

    async def _is_absent(self, name: str) -> bool:
        """Tell whether a worker was surely not made, after an answer that leaves it open."""
        try:
            self._target.remember(await port.get(self._api, kinds.PODS.path(name, self._pool.namespace)))
        except port.NotFoundError:
            return True
        except (port.KubeError, msgspec.MsgspecError, ValueError):
            return False
        return False

    async def _remove(self, pod: objects.Pod) -> None:
        only_if = writer.Precondition(uid=pod.meta.uid)
        await self._writer.delete(self._target, pod.meta.key, only_if=only_if, attempts=1)

    async def _let_go(self, pod: objects.Pod) -> None:
        await finalizers.remove(self._writer, self._target, pod, keys.FINALIZER, attempts=1)

    def _refused_last(self, found: Iterable[objects.Pod]) -> list[objects.Pod]:
        self._refused &= self.there.pods.keys()  # others may have taken away what we could not
        return sorted(found, key=lambda pod: pod.meta.key.name in self._refused)

    def _remembering_refusals(self, do: Callable[[objects.Pod], Any]) -> Callable[[objects.Pod], Any]:
        async def remember(pod: objects.Pod) -> None:
            try:
                await do(pod)
            except port.KubeError:
                self._refused.add(pod.meta.key.name)
                raise
            self._refused.discard(pod.meta.key.name)

        return remember


def _is_at_work(pod: objects.Pod, now: float) -> bool:
    """Tell whether a worker did its work and is still there, or has been at it for a while."""
    if pod.phase == "Succeeded":
        return pod.meta.deleted_at is None
    return pod.phase == "Running" and pod.started_at is not None and now - pod.started_at > PROVEN_SECONDS
