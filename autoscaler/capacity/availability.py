"""Which offerings the provider does not have just now, and for how long they are left alone. Pure.

A shortage is an outcome with a lifetime: an offering that failed is not asked for again for a while, which grows with
each failure in a row and begins anew once an instance came.
"""

from collections.abc import Mapping
from typing import Final

from autoscaler import backoff
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity.snapshot import Snapshot, Unavailable
from autoscaler.cloud import port as cloud

FIRST_SECONDS: Final = 180.0
LONGEST_SECONDS: Final = 3600.0
UNSUPPORTED_SECONDS: Final = 6 * 3600.0
"""A zone that does not offer a type will not do so in an hour either."""
_BACKOFF: Final = backoff.Backoff(first_seconds=FIRST_SECONDS, longest_seconds=LONGEST_SECONDS)


def note(before: Unavailable | None, activity: cloud.Activity, now: float) -> Unavailable:
    """Return for how long an offering is left alone after one more failed launch."""
    failures = before.failures + 1 if before is not None else 1
    reason = activity.failure or cloud.LaunchFailure.OTHER
    return Unavailable(
        until=now + _pause(reason, failures),
        reason=str(reason),
        message=activity.message,
        failures=failures,
        since=now,
    )


def note_useless(before: Unavailable | None, reason: str, message: str, now: float) -> Unavailable:
    """Return for how long an offering is left alone whose instance was of no use."""
    failures = before.failures + 1 if before is not None else 1
    pause = _pause(cloud.LaunchFailure.OTHER, failures)
    return Unavailable(until=now + pause, reason=reason, message=message, failures=failures, since=now)


def came(snapshot: Snapshot) -> dict[NodeGroupKey, float]:
    """Return by group when the newest of its instances was launched that became a ready node."""
    found: dict[NodeGroupKey, float] = {}
    for group in snapshot.groups:
        for one in group.members:
            node, launched_at = snapshot.by_provider.get(one.provider_id), snapshot.launched_at.get(one.id)
            if node is not None and node.ready and launched_at is not None:
                found[group.key] = max(launched_at, found.get(group.key, 0.0))
    return found


def current(
    known: Mapping[NodeGroupKey, Unavailable], now: float, came: Mapping[NodeGroupKey, float]
) -> dict[NodeGroupKey, Unavailable]:
    """Forget shortages that are long over, and those of offerings of which an instance came since.

    One that seems to be in the future was noted before the clock was set back: nobody knows how long ago.
    """
    return {
        key: each
        for key, each in known.items()
        if each.since <= now < each.until + LONGEST_SECONDS and came.get(key, 0.0) <= each.since
    }


def next_end(known: Mapping[NodeGroupKey, Unavailable], now: float) -> float | None:
    """Return when the next offering may be asked for again."""
    return min((each.until for each in known.values() if each.until > now), default=None)


def _pause(reason: cloud.LaunchFailure, failures: int) -> float:
    if reason is cloud.LaunchFailure.UNSUPPORTED:
        return UNSUPPORTED_SECONDS
    return _BACKOFF.pause(failures)
