"""Say on an object of ours that it makes no sense to us, where its owner will look: a condition and an event.

The API server refuses what breaks a rule, but an object may be older than the rule. Such an object is left alone
otherwise, and the rest works. The condition goes when a controller next writes the object's status.
"""

from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import conditions, version
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
CONDITION: Final = "Readable"
REASON: Final = "Unreadable"


class Reporter:
    """A controller that reports unreadable objects, each once until it or the problem changes."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._tables: dict[kinds.ResourceType, store.Table[Any]] = {}
        self._told: dict[str, tuple[int, str]] = {}

    def add(self, resource: kinds.ResourceType, table: store.Table[Any]) -> None:
        """Report unreadable objects of this table, if they are of a kind of ours."""
        if resource.group == version.GROUP and resource not in self._tables:
            self._tables[resource] = table
            table.on_unreadable.append(lambda found: self._context.wake(resource.kind, found.meta.key))

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Report what was not reported yet."""
        del dirty
        found = [(resource, each) for resource, table in self._tables.items() for each in table.unreadable.values()]
        for resource, each in found:
            said = (each.meta.generation, each.problem)  # not its version: our own report raises that
            if self._told.get(each.meta.uid) != said:
                await self._report(resource, each)
                self._told[each.meta.uid] = said
        present = {each.meta.uid for _, each in found}
        self._told = {uid: said for uid, said in self._told.items() if uid in present}
        return None

    async def _report(self, resource: kinds.ResourceType, found: store.Unreadable) -> None:
        message = f"this object cannot be read and is left alone; correct it: {found.problem}"
        now = self._context.clock.now()
        condition = conditions.written(CONDITION, holds=False, reason=REASON, message=message, before=(), now=now)
        self._context.tell(resource, found, REASON, message, is_warning=True, is_change=True)
        target: writer.Target[objects.Simple] = writer.Target(resource=resource, decode=objects.simple)
        try:
            await self._context.writer.patch(
                target,
                found.meta.key,
                {"status": {"conditions": [condition]}},
                only_if=writer.Precondition(uid=found.meta.uid),
                subresource="status",
            )
        except port.ApiError as error:  # the event has told it
            log.warning("unreadable_not_told", kind=resource.kind, key=found.meta.key, error=str(error))
