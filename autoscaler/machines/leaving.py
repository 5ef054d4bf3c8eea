"""Leave machines behind: when the stack goes, no guest may hang on our gate, and no node may carry a mark of ours.

Gates of live guests are opened, sleepers go with their StatefulSets, marks are taken off nodes, and the catalogue goes.
Guests that run go on. Guests that are made after that are let through for as long as this process lives.
"""

from collections.abc import Iterable
from typing import Any, Final

from autoscaler import control
from autoscaler.api import keys
from autoscaler.kube import kinds, objects, store
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import batch, writer
from autoscaler.machines import catalogue
from autoscaler.machines.nodes import node_views
from autoscaler.machines.objects import owned, pods
from autoscaler.machines.state.known import Tables

LOOK_SECONDS: Final = 1.0
"""How often nodes are looked at that keep marks for a moment."""


class Leaving:
    """Lets go of all guests and nodes."""

    def __init__(self, context: control.ControllerContext, tables: Tables, kept: catalogue.Catalogue) -> None:
        self._context = context
        self._tables = tables
        self._catalogue = kept
        self._gated = tables.pods.index(_waiting)

    async def leave(self) -> float | None:
        """Let go of everything; return when to go on, on the wall clock; None: nothing is left."""
        listed = await listing.read(self._context.api, kinds.PODS, objects.pod)
        await self._open(pod for pod in listed if _waiting(pod))
        await self._drop(kinds.STATEFUL_SETS, self._tables.stateful_sets)
        await self._drop(kinds.SERVICES, self._tables.services)
        if await self._unmark():
            return self._context.clock.now() + LOOK_SECONDS
        await self._catalogue.remove()
        return None

    async def open_gates(self) -> None:
        """Let guests through that were made since."""
        await self._open(self._gated.get(True).values())

    async def _open(self, waiting: Iterable[objects.Pod]) -> None:
        """Open our gate of guests; other gates stay."""
        guests = [pod for pod in waiting if not pods.is_sleeper(pod, self._context.namespace)]
        await batch.all_of(guests, self._open_one)

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

        await batch.all_of(owned.unwanted(table, ()), drop)

    async def _unmark(self) -> bool:
        """Take the next step of taking marks off nodes; tell whether there are more."""
        nobody, now = node_views.Machines.of(()), self._context.clock.now()
        seen = [
            (node, node_views.look(nobody, node.meta.key.name, node, needed=frozenset(), now=now).marks)
            for node in self._tables.nodes
        ]
        steps = [(node, marks.patch) for node, marks in seen if marks is not None and marks.patch is not None]
        await batch.all_of(steps, self._unmark_one)
        return bool(steps) or any(marks is not None and marks.wake_at is not None for _, marks in seen)

    async def _unmark_one(self, step: tuple[objects.Node, dict[str, Any]]) -> None:
        node, patch = step
        target = writer.Target(resource=kinds.NODES, decode=objects.node, table=self._tables.nodes)
        await self._context.writer.patch(target, node.meta.key, patch, only_if=writer.Precondition.of(node))


def _waiting(pod: objects.Pod) -> tuple[bool, ...]:
    """Tell whether a pod is there to stay and waits behind our gate."""
    is_there = not pod.is_terminal and pod.meta.deleted_at is None
    return (True,) if is_there and keys.MACHINE_GATE in pod.gates else ()
