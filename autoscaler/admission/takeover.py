"""See everything that an earlier leader wrote before admitting anything.

A watch may lag behind. Sums over many objects are guarded by no precondition, so a new leader reads Workloads and pods
anew, as the API server itself has them, before it decides on their sum. What the earlier leader sent has ended by
then: each write ends before its Lease does.
"""

from typing import Any

import msgspec
import structlog

from autoscaler import control
from autoscaler.admission import known, workload
from autoscaler.kube import kinds, listing, objects, store

log = structlog.get_logger()


class Takeover:
    """Brings the tables up to date once for each time that we begin to lead."""

    def __init__(self, context: control.ControllerContext, tables: known.Tables) -> None:
        self._context = context
        self._tables = tables
        self._vacant_since: float | None = None

    async def catch_up(self) -> None:
        """Read anew what an earlier leader may have written; nothing if nobody led since."""
        vacant_since = self._context.vacant_since()
        if vacant_since == self._vacant_since:
            return
        await self._read(workload.WORKLOADS, workload.decode, self._tables.workloads)
        await self._read(kinds.PODS, objects.pod, self._tables.pods)
        self._vacant_since = vacant_since
        log.info("took_over", vacant_since=vacant_since)

    async def _read(self, resource: kinds.ResourceType, decode: Any, table: store.Table[Any]) -> None:  # noqa: ANN401
        def readable(raw: msgspec.Raw) -> objects.Stored | None:
            try:
                found: objects.Stored = decode(raw)
            except Exception:  # noqa: BLE001  # the watch puts it aside and tells of it
                return None
            return found

        listed, version = await listing.read_at(self._context.api, resource, readable)
        table.catch_up([each for each in listed if each is not None], version)
