"""Which instances of a group nobody asked for: they are more than its desired capacity, and came all the same. Pure.

AWS replaces instances by itself, and may launch the new one first: an instance refresh, a maintenance policy of the
group, or capacity rebalancing does. Until the old one ends, the group has more instances than are desired. Whoever
raised desired for these, or ended them as idle, would undo what AWS does, and AWS would do it again. Other instances
beyond desired were asked for once: those that come after their launch was taken back, and all that were there when
somebody lowered desired. What stays for longer than any replacement takes counts as asked for, too, whoever led then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud

LASTING_SECONDS: Final = 2 * 3600.0
"""An instance refresh waits for an hour for an instance that is protected, besides the time that a new one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A group as it was when it was last looked at."""

    group: cloud.NodeGroup
    unasked: Mapping[cloud.InstanceId, float] = field(default_factory=dict)
    """Members that nobody asked for, and since when."""
    owed: int = 0
    """How many were asked for and have not come; they may still do if that was taken back."""
    owed_until: float = 0.0


def observe(snapshot: Snapshot, before: Mapping[cloud.GroupName, Seen]) -> dict[cloud.GroupName, Seen]:
    """Return all groups as they are now, given what was known a moment ago."""
    return {group.name: _seen(snapshot, group, before.get(group.name)) for group in snapshot.groups}


def found(seen: Mapping[cloud.GroupName, Seen]) -> dict[cloud.GroupName, frozenset[cloud.InstanceId]]:
    """Return the groups that have members which nobody asked for."""
    return {name: frozenset(each.unasked) for name, each in seen.items() if each.unasked}


def _seen(snapshot: Snapshot, group: cloud.NodeGroup, old: Seen | None) -> Seen:
    now = snapshot.now
    if old is not None and old.group is group and not old.unasked and not old.owed:
        return old
    known = {one.id for one in old.group.members} if old is not None else set()
    new = [one.id for one in group.members if one.id not in known]
    owed = old.owed if old is not None and now < old.owed_until else 0
    missing = group.missing
    return Seen(
        group=group,
        unasked=_unasked(snapshot, group, old, new, owed) if len(group.members) > group.desired else {},
        owed=max(missing, owed - len(new)),
        owed_until=now + _patience(snapshot, group) if missing else old.owed_until if old is not None else 0.0,
    )


def _unasked(
    snapshot: Snapshot, group: cloud.NodeGroup, old: Seen | None, new: list[cloud.InstanceId], owed: int
) -> dict[cloud.InstanceId, float]:
    """Return those that were known, and of new ones the latest, as many as nobody can have asked for."""
    now, launched_at = snapshot.now, snapshot.launched_at
    there = {one.id for one in group.members}
    before = old.unasked if old is not None else {}
    kept = {one: since for one, since in before.items() if one in there and now < since + LASTING_SECONDS}
    more = max(0, min(len(new), len(there) - len(kept) - group.desired - owed))
    latest = sorted(new, key=lambda one: (launched_at.get(one, float("inf")), one))
    came = dict.fromkeys(latest[len(latest) - more :], now)
    if old is None:  # we begin to look: it has been there since its launch
        came = {one: min(now, launched_at.get(one, now)) for one in came}
    return {**kept, **{one: since for one, since in came.items() if now < since + LASTING_SECONDS}}


def _patience(snapshot: Snapshot, group: cloud.NodeGroup) -> float:
    pool = snapshot.pools.get(group.key.pool)
    return pool.registration_timeout_seconds if pool is not None else unfinished.TIMEOUT_SECONDS
