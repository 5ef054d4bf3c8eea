"""Whether somebody else scales this cluster's nodes: two scalers on one group undo each other's work.

The upstream cluster-autoscaler holds a Lease of a known name while it lives. It is looked at again and again; a Lease
that is no longer renewed means nobody.
"""

from datetime import datetime
from typing import Final

import msgspec

from autoscaler import control
from autoscaler.kube import kinds, port

NAMESPACE: Final = "kube-system"
NAME: Final = "cluster-autoscaler"
LOOK_SECONDS: Final = 15.0


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_DECODER: Final = msgspec.json.Decoder(_Lease)


class Foreign:
    """Looks for another scaler."""

    def __init__(self, footing: control.Footing) -> None:
        self._footing = footing
        self._look_at = float("-inf")
        self._seen: tuple[datetime | None, float] | None = None
        """When the Lease was last renewed by its holder's clock, and since when by ours it has said so."""
        self._who: str | None = None

    async def who(self) -> str | None:
        """Return who else scales nodes; None if nobody does."""
        now = self._footing.clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._who = await self._look(now)
        return self._who

    async def _look(self, now: float) -> str | None:
        request = port.Request(method="GET", path=kinds.LEASES.path(NAME, NAMESPACE))
        try:
            spec = _DECODER.decode(port.required(await self._footing.api.send(request))).spec
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
