"""See everything that was written before admitting anything: by an earlier leader, or by us without an answer.

A watch may lag behind. Sums over many objects are guarded by no precondition, so a new leader reads Workloads and pods
anew, as the API server itself has them, before it decides on their sum. What the earlier leader sent has ended by
then: each write ends before its Lease does. A write of our own that was not answered, and could not be settled
otherwise, may take effect until its time is over; it is waited for, and everything is read anew then.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import structlog

from autoscaler import control
from autoscaler.admission import doubts, known, workload
from autoscaler.admission.writes import Write
from autoscaler.kube import kinds, listing, objects, port, store

log = structlog.get_logger()
T = TypeVar("T")


class Takeover:
    """Brings the tables up to date each time that we begin to lead, or do not know what we wrote."""

    def __init__(self, context: control.ControllerContext, tables: known.Tables, unanswered: doubts.Doubts) -> None:
        self._context = context
        self._tables = tables
        self._doubts = unanswered
        self._vacant_since: float | None = None

    async def catch_up(self) -> None:
        """Read anew what others or we ourselves may have written; nothing if nobody led since, and all is known."""
        vacant_since, overdue = self._context.vacant_since(), self._doubts.overdue()
        if vacant_since == self._vacant_since and not overdue:
            return
        await self._read(workload.WORKLOADS, workload.decode, self._tables.workloads)
        await self._read(kinds.PODS, objects.pod, self._tables.pods)
        self._vacant_since = vacant_since
        self._doubts.forget(overdue)
        log.info("read_anew", vacant_since=vacant_since)

    async def look_at(self, written: Iterable[Write]) -> None:
        """Read single Workloads as they are now; where that fails, they are as unknown as before."""
        for each in written:
            try:
                await self._look(each)
            except port.KubeError as error:
                log.info("workload_not_read", key=each.key, error=str(error))

    async def _look(self, written: Write) -> None:
        key = written.key
        request = port.Request(method="GET", path=workload.WORKLOADS.path(key.name, key.namespace))
        try:
            found = _readable(workload.decode)(msgspec.Raw(port.required(await self._context.api.send(request))))
        except port.NotFoundError:
            self._tables.workloads.deleted(key, written.uid)
        else:
            if found is not None:
                self._tables.workloads.wrote(found)

    async def _read(self, resource: kinds.ResourceType, decode: Any, table: store.Table[Any]) -> None:  # noqa: ANN401
        listed, version = await listing.read_at(self._context.api, resource, _readable(decode))
        table.catch_up([each for each in listed if each is not None], version)


def _readable(decode: Callable[[msgspec.Raw], T]) -> Callable[[msgspec.Raw], T | None]:
    def readable(raw: msgspec.Raw) -> T | None:
        try:
            return decode(raw)
        except Exception:  # noqa: BLE001  # the watch puts it aside and tells of it
            return None

    return readable
