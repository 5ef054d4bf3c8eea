"""Leave machines behind: when the stack goes, no guest may hang on our gate, and no node may carry a mark of ours.

Gates of live guests are opened, sleepers go with their StatefulSets, marks are taken off nodes, and the catalogue goes.
Guests that run go on. Guests that are made after that are let through for as long as this process lives.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import structlog

from autoscaler import backoff, control
from autoscaler.api import controllers, keys
from autoscaler.control import drain_object
from autoscaler.control.drain_object import Stage
from autoscaler.kube import batch, kinds, listing, objects, port, store, writer
from autoscaler.machines import catalogue, node_views, owned, patches, pods
from autoscaler.machines.known import Tables

log = structlog.get_logger()
_BACKOFF: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=60.0)
SENT_SECONDS: Final = 10.0
"""How long what was sent before may take to arrive."""
LOOK_SECONDS: Final = 1.0
"""How often nodes are looked at that keep marks for a moment."""


class Farewell:
    """Lets go of all guests and nodes, once the stack leaves."""

    def __init__(self, context: control.ControllerContext, tables: Tables, kept: catalogue.Catalogue) -> None:
        self._context = context
        self._tables = tables
        self._catalogue = kept
        self._object = drain_object.DrainObject(context, controllers.MACHINES)
        self._gated = tables.pods.index(_waiting)
        self._is_done = False
        self._retry = backoff.Retry(context.clock, _BACKOFF)

    @property
    def is_leaving(self) -> bool:
        """Tell whether nothing is to be done any more but to let go."""
        is_leaving = self._object.stage is not Stage.STAYING
        self._is_done = self._is_done and is_leaving
        return is_leaving

    async def carry_out(self) -> float | None:
        """Let go of everything, then of the drain object; return when to try again."""
        if not self._retry.is_due and self._retry.next_at is not None:
            return self._context.clock.now() + self._retry.next_at - self._context.clock.monotonic()
        try:
            again = await self._leave()
        except port.KubeError as error:
            log.info("machines_not_let_go", error=str(error))
            return self._context.clock.now() + self._retry.failed()
        self._retry.succeeded()
        return again

    async def _leave(self) -> float | None:
        if self._is_done:
            await self._open(self._gated.get(True).values())
            return None
        await self._context.writer.flush(SENT_SECONDS)
        listed = await listing.read(self._context.api, kinds.PODS, objects.pod)
        await self._open(pod for pod in listed if _waiting(pod))
        await self._drop(kinds.STATEFUL_SETS, self._tables.stateful_sets)
        await self._drop(kinds.SERVICES, self._tables.services)
        if await self._unmark():
            return self._context.clock.now() + LOOK_SECONDS
        await self._catalogue.remove()
        await self._object.let_go()
        self._is_done = True
        log.info("machines_let_go")
        return None

    async def _open(self, waiting: Iterable[objects.Pod]) -> None:
        """Open our gate of guests; other gates stay."""
        await _all([pod for pod in waiting if not pods.is_sleeper(pod, self._context.namespace)], self._open_one)

    async def _open_one(self, pod: objects.Pod) -> None:
        target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=self._tables.pods)
        changes = {"spec": {"schedulingGates": objects.other_gates(pod, keys.MACHINE_GATE)}}
        await self._context.writer.patch(target, pod.meta.key, changes, only_if=writer.Precondition.of(pod))

    async def _drop(self, resource: kinds.ResourceType, table: store.Table[owned.Owned]) -> None:
        """Delete what holds room; its pods go with it."""
        target = writer.Target(resource=resource, decode=owned.decode, table=table)

        async def drop(found: owned.Owned) -> None:
            only_if = writer.Precondition(uid=found.meta.uid)
            await self._context.writer.delete(target, found.meta.key, only_if=only_if)

        await _all(owned.unwanted(table, ()), drop)

    async def _unmark(self) -> bool:
        """Take the next step of taking marks off nodes; tell whether there are more."""
        nobody, now = node_views.Machines.of(()), self._context.clock.now()
        seen = [
            (node, node_views.look(nobody, node.meta.key.name, node, needed=frozenset(), now=now).marks)
            for node in self._tables.nodes
        ]
        steps = [(node, marks.patch) for node, marks in seen if marks is not None and marks.patch is not None]
        await _all(steps, self._unmark_one)
        return bool(steps) or any(marks is not None and marks.wake_at is not None for _, marks in seen)

    async def _unmark_one(self, step: tuple[objects.Node, dict[str, Any]]) -> None:
        node, patch = step
        target = writer.Target(resource=kinds.NODES, decode=objects.node, table=self._tables.nodes)
        await self._context.writer.patch(target, node.meta.key, patch, only_if=writer.Precondition.of(node))


async def _all(things: Sequence[Any], do: Any) -> None:  # noqa: ANN401  # what is done to each
    """Do something to each; raise what went wrong, other than that one is gone."""
    outcome = await batch.each(things, do)
    wrong = [each for each in outcome.failures if not isinstance(each, port.NotFoundError)]
    if wrong:
        raise wrong[-1]


def _waiting(pod: objects.Pod) -> tuple[bool, ...]:
    """Tell whether a pod is there to stay and waits behind our gate."""
    is_there = not pod.is_terminal and pod.meta.deleted_at is None
    return (True,) if is_there and keys.MACHINE_GATE in pod.gates else ()
