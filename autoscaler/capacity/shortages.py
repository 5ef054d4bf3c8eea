"""Offerings that the provider does not have: note them, take back what was asked of them, and keep what came late.

For how long an offering is left alone is decided in `availability`. Here groups are set to what they have: down to it
after a launch that failed, up to it where an instance came that nobody asked for any more. A group is read again before
that, so that no instance is ended by a size that was true a moment ago.
"""

from collections.abc import Awaitable, Callable, Mapping

import structlog

from autoscaler import backoff, control
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity import availability, clouds
from autoscaler.capacity.marks import Reason
from autoscaler.capacity.plan import Disruption
from autoscaler.capacity.snapshot import Snapshot, Unavailable
from autoscaler.cloud import port as cloud

log = structlog.get_logger()
SetDesired = Callable[[cloud.NodeGroup, int], Awaitable[bool]]


class Shortages:
    """Knows which offerings are left alone."""

    def __init__(
        self, context: control.ControllerContext, known: clouds.Clouds, set_desired: SetDesired, rests: backoff.Retries
    ) -> None:
        self._context = context
        self._resting = rests
        self._clouds = known
        self._set_desired = set_desired
        self._noted: dict[cloud.GroupName, float] = {}
        """When the last failed launch of a group began that was taken note of."""
        self._owed: set[cloud.GroupName] = set()
        """Groups that failed, and still ask for what they did not get."""
        self._known: dict[NodeGroupKey, Unavailable] = {}

    @property
    def known(self) -> Mapping[NodeGroupKey, Unavailable]:
        return self._known

    async def look(self, snapshot: Snapshot) -> bool:
        """Note what failed and came; False: a group could not be set to what it has, and must be again."""
        came = availability.came(snapshot) if self._known else {}
        self._known = availability.current(self._known, snapshot.now, came)
        for seen in self._clouds.seen.values():
            reading = seen.view.reading
            for name, failures in reading.failures.items() if reading is not None else ():
                if failures and reading is not None and failures[0].started_at > self._noted.get(name, 0.0):
                    self._noted[name] = failures[0].started_at
                    self._note(reading.groups[name], failures[0], snapshot.now)
        late = {group.name for group in snapshot.groups if min(group.maximum, len(group.members)) > group.desired}
        settled = [await self._settle(name) for name in sorted(self._owed | late)]
        return all(settled)

    def note_useless(self, each: Disruption) -> None:
        """Leave an offering alone whose instance did not become a node: the next one might not either."""
        if each.reason is Reason.NEVER_JOINED and each.key is not None:
            message = f"{each.instance} did not become a ready node"
            before, now = self._known.get(each.key), self._context.clock.now()
            self._known[each.key] = availability.note_useless(before, each.reason, message, now)

    def note_refused(self, group: cloud.NodeGroup, error: cloud.CloudError | None) -> None:
        """Leave an offering alone that we may not ask for: another one may help; never for long, a person mends it."""
        if error is not None and error.reason in {cloud.Reason.DENIED, cloud.Reason.NOT_FOUND, cloud.Reason.REFUSED}:
            now = self._context.clock.now()
            self._known[group.key] = availability.note_useless(None, error.reason, error.message, now)

    def _note(self, group: cloud.NodeGroup, failure: cloud.Activity, now: float) -> None:
        noted = availability.note(self._known.get(group.key), failure, now)
        self._known[group.key] = noted
        self._owed.add(group.name)
        log.warning("launch_failed", group=group.name, reason=noted.reason, error=noted.message, until=noted.until)

    async def _settle(self, name: cloud.GroupName) -> bool:
        """Set a group to what it has, as it is now."""
        if self._resting.holds(name):
            return False
        try:
            group = await self._read_again(name)
        except cloud.CloudError as error:
            log.warning("group_not_read_again", group=name, reason=error.reason, error=error.message)
            self._resting.note(name, is_done=False)
            return False
        if group is None:
            self._owed.discard(name)
            return True
        has = max(group.minimum, min(group.maximum, len(group.members)))
        is_wrong = group.desired > has if name in self._owed else group.desired < has
        if is_wrong and not await self._set_desired(group, has):
            return False
        self._owed.discard(name)
        return True

    async def _read_again(self, name: cloud.GroupName) -> cloud.NodeGroup | None:
        """Return a group as it is now; None if it is gone."""
        seen = self._clouds.of(name)
        reading = await seen.view.reread([name]) if seen is not None else None
        return reading.groups.get(name) if reading is not None else None
