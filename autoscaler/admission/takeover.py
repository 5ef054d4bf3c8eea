"""See everything that was written before admitting anything: by an earlier leader, or by us without an answer.

A watch may lag behind. Sums over many objects are guarded by no precondition, so a new leader reads Workloads and pods
anew, as the API server itself has them, before it decides on their sum. What the earlier leader sent has ended by
then: each write ends before its Lease does. A write of our own that was not answered, and could not be settled
otherwise, may take effect until its time is over; it is waited for, and everything is read anew then.
"""

from collections.abc import Iterable

import msgspec
import structlog

from autoscaler import control
from autoscaler.admission import doubts
from autoscaler.admission.state import known
from autoscaler.admission.workloads import workload
from autoscaler.admission.writes import Write
from autoscaler.control import takeover
from autoscaler.kube import port
from autoscaler.kube.reading import listing

log = structlog.get_logger()


class Takeover:
    """Brings the tables up to date each time that we begin to lead, or do not know what we wrote."""

    def __init__(self, context: control.ControllerContext, tables: known.Tables, unanswered: doubts.Doubts) -> None:
        self._context = context
        self._workloads = tables.workloads
        self._doubts = unanswered
        self._all = takeover.Takeover(context, tables.summed_up)

    async def catch_up(self) -> None:
        """Read anew what others or we ourselves may have written; nothing if nobody led since, and all is known."""
        overdue = self._doubts.overdue()
        if await self._all.catch_up(anew=bool(overdue)):
            self._doubts.forget(overdue)

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
            found = listing.readable(workload.decode)(msgspec.Raw(port.required(await self._context.api.send(request))))
        except port.NotFoundError:
            self._workloads.deleted(key, written.uid)
        else:
            if found is not None:
                self._workloads.wrote(found)
