"""Send admission's writes to what they are about, and remember what became of pods' gates. It decides nothing.

When a refused write is tried again is the kit's to say (`control.executor`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from autoscaler import control
from autoscaler.admission import doubts
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.writes import On, Step, Write
from autoscaler.control import executor, writes
from autoscaler.kube import port
from autoscaler.kube.writing import writer

FOR_GOOD: Final = 3
"""A pod's gate that could not be opened so often, for a reason of its own, will not open."""
REMEMBERED_MAX: Final = 20_000
_PASSING: Final = frozenset({403, 404, 409, 429})
"""Refusals that may well not be the object's own fault, or end by themselves."""
Outcomes = executor.Outcomes[Write]


class Executor:
    """Writes to Workloads, jobs and pods."""

    def __init__(
        self,
        context: control.ControllerContext,
        targets: Mapping[On, writer.Target[Any]],
        kinds: Mapping[str, tuple[jobs.ResizableJob, writer.Target[Any]]],
        unanswered: doubts.Doubts,
    ) -> None:
        self.refused_for_good: dict[str, None] = {}
        """UIDs of pods whose gate will not open."""
        self.touched: dict[str, None] = {}
        """UIDs of pods that were changed since the last attempt to open them."""
        self._writer = context.writer
        self._targets = targets
        self._kinds = kinds
        self._doubts = unanswered
        self._executor = executor.Executor(context.clock, self._send)
        self.due_at = self._executor.due_at

    async def carry_out(self, chosen: Iterable[Write]) -> Outcomes:
        """Try each write that is due; FencedError if we may not act any more."""
        outcomes = await self._executor.carry_out(chosen)
        for write, error in outcomes.refused:
            if write.step is Step.OPEN and _is_own_fault(error) and self._executor.failures(write) >= FOR_GOOD:
                _remember(self.refused_for_good, write.uid)
        return outcomes

    async def _send(self, write: Write) -> None:
        if write.step is Step.OPEN:
            self.touched.pop(write.uid, None)
        with self._doubts.unless_answered(write):
            if write.on is On.JOB:
                kind, target = self._kinds[write.kind]
                write = replace(write, body=kind.suspension(is_suspended=write.body["suspend"]))
            else:
                target = self._targets[write.on]
            await writes.send(self._writer, target, write)
        if write.step is Step.TOUCH:
            _remember(self.touched, write.uid)


def _is_own_fault(error: port.KubeError) -> bool:
    return isinstance(error, port.ApiError) and 400 <= error.status < 500 and error.status not in _PASSING


def _remember(uids: dict[str, None], uid: str) -> None:
    uids[uid] = None
    if len(uids) > REMEMBERED_MAX:
        del uids[next(iter(uids))]
