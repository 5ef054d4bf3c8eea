"""Which offerings the provider does not have just now, and for how long they are left alone. Pure.

A shortage is an outcome with a lifetime: an offering that failed is not asked for again for a while, which grows with
each failure in a row and begins anew once an instance came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler import backoff
from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.plan import Resize
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.snapshot import Snapshot, Unavailable
from autoscaler.cloud import port as cloud

FIRST_SECONDS: Final = 180.0
LONGEST_SECONDS: Final = 3600.0
UNSUPPORTED_SECONDS: Final = 6 * 3600.0
"""A zone that does not offer a type will not do so in an hour either."""
NEVER_LAUNCHED: Final = "NeverLaunched"
"""Instances were asked for, and neither came nor failed."""
_BACKOFF: Final = backoff.Backoff(first_seconds=FIRST_SECONDS, longest_seconds=LONGEST_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A group that waits for instances which it asked for."""

    since: float
    """When it asked for them, or got the last one."""
    until: float
    """When they count no more."""
    members: frozenset[cloud.InstanceId]
    desired: int
    is_over: bool = False
    """It has waited for too long."""


def note(before: Unavailable | None, activity: cloud.Activity, now: float) -> Unavailable:
    """Return for how long an offering is left alone after one more failed launch."""
    failures = before.failures + bool(before.reason) if before is not None else 1  # it may be the one that was recalled
    reason = activity.failure or cloud.LaunchFailure.OTHER
    return Unavailable(
        until=now + _pause(reason, failures),
        reason=str(reason),
        message=activity.message,
        failures=failures,
        since=now,
    )


def recall(pools: Iterable[InstancePool], now: float) -> dict[NodeGroupKey, Unavailable]:
    """Return which offerings whoever led before left alone, as pools say."""
    found = {}
    for pool in pools:
        for each in pool.status.node_groups:
            if each.unavailable_until is not None and each.zone is not None and each.instance_type is not None:
                key = NodeGroupKey(pool=pool.metadata.name, zone=each.zone, instance_type=each.instance_type)
                until, failures = each.unavailable_until.timestamp(), each.failures or 1
                found[key] = Unavailable(
                    until=until, reason="", message=each.reason or "", failures=failures, since=now
                )
    return found


def note_useless(before: Unavailable | None, reason: str, message: str, now: float) -> Unavailable:
    """Return for how long an offering is left alone whose instance was of no use."""
    failures = before.failures + 1 if before is not None else 1
    pause = _pause(cloud.LaunchFailure.OTHER, failures)
    return Unavailable(until=now + pause, reason=reason, message=message, failures=failures, since=now)


def came(snapshot: Snapshot) -> dict[NodeGroupKey, float]:
    """Return by group when the newest of its instances was launched that became a finished node."""
    found: dict[NodeGroupKey, float] = {}
    for group in snapshot.groups:
        for one in group.members:
            launched_at = snapshot.launched_at.get(one.id)
            if launched_at is not None and one.provider_id in snapshot.records.were_ready:
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


def has(group: cloud.NodeGroup) -> int:
    """Return how many instances a group should ask for to keep what it has and get no more."""
    return max(group.minimum, min(group.maximum, len(group.members)))


def resizes(snapshot: Snapshot) -> tuple[Resize, ...]:
    """Set groups to what they have: down after a launch that failed, up where an instance came late.

    Those that the provider launched to replace others by itself are left to it.
    """
    found = []
    for group in snapshot.groups:
        asked = len(group.members) - len(snapshot.unasked.get(group.name, ()))
        size = max(group.minimum, min(group.maximum, asked)) if group.desired < len(group.members) else has(group)
        late = min(group.maximum, asked) > group.desired
        if (group.name in snapshot.failed and group.desired > size) or (late and size > group.desired):
            found.append(Resize(key=group.key, group=group.name, before=group.desired, after=size))
    return tuple(found)


def lacking(snapshot: Snapshot, before: Mapping[cloud.GroupName, Lack]) -> dict[cloud.GroupName, Lack]:
    """Return since when groups have waited for instances without getting any, given what was known a moment ago.

    Who asks for more meanwhile waits no longer for it: none came since, so the offering does not work.
    """
    found = {}
    for group in snapshot.groups:
        if group.missing:
            ids = frozenset(one.id for one in group.members)
            old = before.get(group.name)
            is_new = old is None or not ids <= old.members or (old.is_over and group.desired > old.desired)
            since, is_over = (snapshot.now, False) if is_new or old is None else (old.since, old.is_over)
            pool = snapshot.pools.get(group.key.pool)
            timeout = pool.registration_timeout_seconds if pool is not None else unfinished.TIMEOUT_SECONDS
            until = since + timeout
            found[group.name] = Lack(
                since=since,
                until=until,
                members=ids,
                desired=group.desired,
                is_over=is_over or until <= snapshot.now,
            )
    return found


def next_end(known: Mapping[NodeGroupKey, Unavailable], now: float) -> float | None:
    """Return when the next offering may be asked for again."""
    return min((each.until for each in known.values() if each.until > now), default=None)


def _pause(reason: cloud.LaunchFailure, failures: int) -> float:
    if reason is cloud.LaunchFailure.UNSUPPORTED:
        return UNSUPPORTED_SECONDS
    return _BACKOFF.pause(failures)
