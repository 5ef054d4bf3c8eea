"""Say on pools that the runtime is paused, and take it back when it goes on.

The annotation on the runtime's namespace stops every other write. This condition is the one exception, since a pool
that nobody works on must not look well: only the replica that leads writes it, and `Fence` lets nothing else pass.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import structlog

from autoscaler import backoff, clock, control
from autoscaler.api import conditions, keys, names, resources, version
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer
from autoscaler.runtime import fence

log = structlog.get_logger()
REASON: Final = "PausedByAnnotation"
_BACKOFF: Final = backoff.Backoff(first_seconds=2.0, longest_seconds=300.0)
"""After a condition that was not written."""
Pool = objects.Custom[resources.WorkerPool] | objects.Custom[resources.InstancePool]
_MODELS: Final[dict[kinds.ResourceType, type[Any]]] = {
    kinds.custom(model): model for model in (resources.WorkerPool, resources.InstancePool)
}
_PLURALS: Final = "|".join(resource.plural for resource in _MODELS)
_PATH: Final = re.compile(
    rf"/apis/{re.escape(version.GROUP)}/{version.API_VERSION}/(namespaces/[^/]+/)?({_PLURALS})/[^/]+/status"
)


class Fence:
    """A writer.Fence that lets only conditions in the status of pools pass, paused or not."""

    def __init__(self, even_if_paused: fence.Fence) -> None:
        """Ask also this fence, which knows of no pause."""
        self._even_if_paused = even_if_paused

    def check(self, request: port.Request) -> float:
        if not _is_condition(request):
            raise writer.FencedError(f"{request.method} {request.path} is not sent: it is no condition of a pool")
        return self._even_if_paused.check(request)


def _is_condition(request: port.Request) -> bool:
    if request.method != "PATCH" or request.content_type != port.MERGE_PATCH or not _PATH.fullmatch(request.path):
        return False
    body: Manifest = msgspec.json.decode(request.body or b"{}")
    return (
        body.keys() == {"metadata", "status"}
        and body["metadata"].keys() <= {"uid", "resourceVersion"}
        and body["status"].keys() == {"conditions"}
    )


class Reporter:
    """A controller that keeps the condition of the pools that are handled under one Lease."""

    def __init__(self, context: control.ControllerContext, *, lease: str, is_paused: Callable[[], bool]) -> None:
        self._context = context
        self._lease = lease
        self._is_paused = is_paused
        self._tables: dict[kinds.ResourceType, store.Table[Any]] = {}
        self._retries = backoff.Retries(context.clock, _BACKOFF)
        """By the UID of a pool."""

    def add(self, resource: kinds.ResourceType, table: store.Table[Any]) -> None:
        """Keep the condition of what is in this table, if it holds pools."""
        if resource in _MODELS and resource not in self._tables:
            self._tables[resource] = table
            table.listen(lambda _, new: self._changed(resource, new))

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Write the condition where it is missing, or take it off where it no longer holds."""
        del dirty
        wrong = [(resource, pool) for resource, pool in self._wrong() if not self._retries.holds(pool.meta.uid)]
        await asyncio.gather(*(self._write(resource, pool) for resource, pool in wrong))
        again_at = clock.earliest(self._retries.next_at(pool.meta.uid) for _, pool in self._wrong())
        return clock.on_wall(self._context.clock, again_at)

    def _changed(self, resource: kinds.ResourceType, pool: Pool | None) -> None:
        if pool is not None and self._is_wrong(pool):
            self._context.wake(resource.kind, pool.meta.key)

    def _wrong(self) -> Iterator[tuple[kinds.ResourceType, Pool]]:
        for resource, table in self._tables.items():
            yield from ((resource, pool) for pool in table if self._is_wrong(pool))

    def _is_wrong(self, pool: Pool) -> bool:
        says = any(each.type == conditions.RUNTIME_PAUSED for each in pool.resource.status.conditions)
        return says is not self._is_paused() and self._is_ours(pool)

    def _is_ours(self, pool: Pool) -> bool:
        """Tell whether a pool is handled under this Lease: worker pools have one for each class."""
        if isinstance(pool.resource, resources.WorkerPool):
            return names.worker_lease(pool.resource.spec.worker_pool_class_name) == self._lease
        return True

    async def _write(self, resource: kinds.ResourceType, pool: Pool) -> None:
        target: writer.Target[Any] = writer.Target(
            resource=resource, decode=objects.custom(_MODELS[resource]), table=self._tables[resource]
        )
        is_done = True
        try:
            await self._context.writer.patch_status(target, pool, {"conditions": self._conditions(pool)})
        except port.NotFoundError:
            pass
        except port.KubeError as error:
            log.info("pause_not_told", kind=resource.kind, key=pool.meta.key, error=str(error))
            is_done = False
        self._retries.note(pool.meta.uid, is_done=is_done)

    def _conditions(self, pool: Pool) -> list[Manifest]:
        before = pool.resource.status.conditions
        others = [each for each in before if each.type != conditions.RUNTIME_PAUSED]
        written: list[Manifest] = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in others]
        if not self._is_paused():
            return written
        message = (
            f"nothing is done for this pool: namespace {self._context.namespace} has the annotation "
            f"{keys.PAUSED}; take it off to go on"
        )
        now = self._context.clock.now()
        said = conditions.written(
            conditions.RUNTIME_PAUSED, holds=True, reason=REASON, message=message, before=before, now=now
        )
        return [*written, said]
