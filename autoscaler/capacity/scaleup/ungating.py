"""Let pods go to the zone that was chosen for them: take the placement gate off and select that zone.

Which pods, and which zone, is decided in `colocation`. Here it is carried out, pod by pod and once for each: what is
done stays done, and whoever comes after a kill finds the zone on the pods that were opened.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api import keys
from autoscaler.capacity.scaleup.colocation.colocation import Opening
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
AGAIN_SECONDS: Final = 5.0
"""When pods that could not be opened are tried again."""


class Ungater:
    """Opens pods."""

    def __init__(self, context: control.ControllerContext, pods: store.Table[objects.Pod]) -> None:
        self._context = context
        self._target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=pods)

    async def open(self, openings: Iterable[Opening]) -> float | None:
        """Open pods; return when to try those again that were not."""
        done = await asyncio.gather(*(self._open(each) for each in openings))
        return None if all(done) else self._context.clock.now() + AGAIN_SECONDS

    async def _open(self, opening: Opening) -> bool:
        pod = opening.pod
        gates = objects.other_gates(pod, keys.PLACEMENT_GATE)
        changes = {"spec": {"schedulingGates": gates, "nodeSelector": {keys.ZONE: opening.zone}}}
        try:
            await self._context.writer.patch(self._target, pod.meta.key, changes, only_if=writer.Precondition.of(pod))
        except (port.ConflictError, port.NotFoundError):
            return True  # it changed or is gone, and that wakes us
        except port.KubeError as error:
            log.warning("pod_not_opened", pod=pod.meta.key, zone=opening.zone, error=str(error))
            return False
        log.info("pod_opened", pod=pod.meta.key, zone=opening.zone)
        return True
