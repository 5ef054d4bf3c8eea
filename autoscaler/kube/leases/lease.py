"""A Lease as the API server has it, and whether its holder lives. Pure."""

from datetime import datetime
from typing import Final

import msgspec

from autoscaler.kube import wire


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """A Lease."""

    metadata: wire.ObjectMeta = wire.ObjectMeta()
    spec: _Spec = _Spec()


_DECODER: Final = msgspec.json.Decoder(Lease)


def decode(raw: bytes | msgspec.Raw) -> Lease:
    """Decode a Lease."""
    return _DECODER.decode(raw)


def is_alive(lease: Lease, now: float) -> bool:
    """Tell whether somebody holds a Lease and has renewed it in time."""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return False
    return spec.renew_time.timestamp() + (spec.lease_duration_seconds or 0) > now
