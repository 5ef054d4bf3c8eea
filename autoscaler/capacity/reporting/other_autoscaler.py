"""Whether somebody else scales this cluster's nodes: two scalers on one group undo each other's work.

The upstream cluster-autoscaler holds a Lease of a known name while it lives. It is looked at again and again; a Lease
that is no longer renewed means nobody.
"""

from datetime import datetime
from typing import Final

from autoscaler import control
from autoscaler.control import polling
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.leases import lease

NAMESPACE: Final = "kube-system"
NAME: Final = "cluster-autoscaler"
LOOK_SECONDS: Final = 15.0


class OtherAutoscaler:
    """Looks for another scaler, and wakes the controller when that changes."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._seen: tuple[datetime | None, float] | None = None
        """When the Lease was last renewed by its holder's clock, and since when by ours it has said so."""
        self.is_known = False
        self.who: str | None = None
        """Who else scales nodes; None if nobody does."""
        polling.Polling(context, "other autoscaler", self._look_once)

    async def _look_once(self) -> float:
        who = await self._look(self._context.clock.monotonic())
        if not self.is_known or who != self.who:
            self.is_known, self.who = True, who
            self._context.wake(kinds.LEASES.kind, objects.Key(NAMESPACE, NAME))
        return LOOK_SECONDS

    async def _look(self, now: float) -> str | None:
        request = port.Request(method="GET", path=kinds.LEASES.path(NAME, NAMESPACE))
        try:
            spec = lease.decode(port.required(await self._context.api.send(request))).spec
        except port.NotFoundError:
            return None
        if not spec.holder_identity or spec.renew_time is None:
            return None
        if self._seen is None or self._seen[0] != spec.renew_time:
            self._seen = (spec.renew_time, now)
        # Only our own clock tells whether it is old: one that we see for the first time counts until it stood still.
        still = now - self._seen[1]
        lasts = max(LOOK_SECONDS, float(spec.lease_duration_seconds or 0))
        return f"{NAME} ({spec.holder_identity})" if still <= 2 * lasts else None
