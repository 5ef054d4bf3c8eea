"""Who holds a Lease, and whether they live: for those who do not stand for election themselves. Pure."""

from datetime import datetime
from typing import Final

import msgspec


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class Lease(msgspec.Struct, frozen=True):
    """A Lease, as far as it says who lives."""

    metadata: _Meta = _Meta()
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
