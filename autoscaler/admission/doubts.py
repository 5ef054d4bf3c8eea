"""Writes on the sum of many objects that were sent and not answered, and the write that settles each of them.

Such a write may take effect at any later moment, so nothing else is admitted until that is known. It demands the
version of the Workload that it was decided on. It is settled by a fence: another write to that very Workload, which
demands the same version. Where the fence succeeds, the first write can succeed no more; where it is refused because
the Workload is another already, the Workload is read. Either way the table holds another version of it then, and that
is the sign that it is settled, whoever brought it about. Nothing is sent here.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.admission import writes
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api import keys
from autoscaler.control import takeover
from autoscaler.kube import objects, port, store
from autoscaler.kube.writing import writer

_ON_SUMS: Final = frozenset({Step.ADMIT, Step.CLAIM, Step.EVICT})


@dataclass(frozen=True, slots=True)
class _Doubt:
    write: Write
    until: float
    """When it must have ended, on the monotonic clock."""


class Doubts:
    """What was sent, and may still take effect."""

    def __init__(self, time: clock.Clock, workloads: store.Table[Workload]) -> None:
        self._clock = time
        self._workloads = workloads
        self._open: dict[objects.Key, _Doubt] = {}

    @contextlib.contextmanager
    def unless_answered(self, write: Write) -> Iterator[None]:
        """Doubt a write on a sum that is sent meanwhile, unless it is answered, also if the caller is cancelled."""
        seconds: float | None = takeover.UNSURE_SECONDS
        try:
            yield
            seconds = None
        except writer.FencedError:  # nothing was sent
            seconds = None
            raise
        except port.KubeError as error:
            seconds = takeover.unsure_seconds(error)
            raise
        finally:
            if seconds is not None and write.step in _ON_SUMS:
                self._open[write.key] = _Doubt(write, self._clock.monotonic() + seconds)

    def fences(self) -> list[Write]:
        """Return the writes after which what is in doubt takes effect no more; none: everything is known."""
        there = {key: self._in_doubt(doubt.write) for key, doubt in self._open.items()}
        self._open = {key: doubt for key, doubt in self._open.items() if there[key] is not None}
        return [_fence(each) for each in there.values() if each is not None]

    @property
    def until(self) -> float | None:
        """When the first of them must have ended, on the wall clock; None: nothing is in doubt."""
        return clock.on_wall(self._clock, clock.earliest(doubt.until for doubt in self._open.values()))

    def overdue(self) -> list[objects.Key]:
        """Return the Workloads of writes that must have ended, and were not settled: read everything anew."""
        now = self._clock.monotonic()
        return [key for key, doubt in self._open.items() if doubt.until <= now]

    def forget(self, settled: Iterable[objects.Key]) -> None:
        """Doubt no more what was overdue before everything was read anew."""
        for key in settled:
            self._open.pop(key, None)

    def _in_doubt(self, write: Write) -> Workload | None:
        """Return the Workload as it was when the write was decided; None: it is another now, or gone."""
        stored = self._workloads.get(write.key)
        version = stored.meta.resource_version if stored is not None and stored.meta.uid == write.uid else None
        return stored if version == write.resource_version else None


def _fence(stored: Workload) -> Write:
    version = stored.meta.resource_version  # so that it is a change each time
    body = {"metadata": {"annotations": {keys.FENCED: f"a write to version {version} was not answered"}}}
    return writes.patch(On.WORKLOAD, Step.FENCE, stored, body, "a write to it was not answered")
