"""Whether somebody else scales this cluster's nodes: two scalers on one group undo each other's work.

The upstream cluster-autoscaler holds a Lease of a known name while it lives. It is looked at again and again; a Lease
that is no longer renewed means nobody.
"""

import asyncio
from datetime import datetime
from typing import Final

import structlog

from autoscaler import control
from autoscaler.kube import kinds, lease, objects, port

NAMESPACE: Final = "kube-system"
NAME: Final = "cluster-autoscaler"
LOOK_SECONDS: Final = 15.0
SOON_SECONDS: Final = 0.5
log = structlog.get_logger()


class Foreign:
    """A source that looks for another scaler, and wakes the controller when that changes."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._seen: tuple[datetime | None, float] | None = None
        """When the Lease was last renewed by its holder's clock, and since when by ours it has said so."""
        self.is_known = False
        self.who: str | None = None
        """Who else scales nodes; None if nobody does."""
        context.feed(self)

    async def run(self) -> None:
        """Look again and again while we may act."""
        while True:
            if self._context.held_back() is None:
                await self._look_once()
            await asyncio.sleep(LOOK_SECONDS if self.is_known else SOON_SECONDS)

    def unsynced(self) -> str | None:
        """Return None: the controller asks whether we know."""
        return None

    async def _look_once(self) -> None:
        try:
            who = await self._look(self._context.clock.monotonic())
        except port.KubeError as error:
            log.warning("foreign_scaler_unknown", error=str(error))
            return
        if not self.is_known or who != self.who:
            self.is_known, self.who = True, who
            self._context.wake(kinds.LEASES.kind, objects.Key(NAMESPACE, NAME))

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
