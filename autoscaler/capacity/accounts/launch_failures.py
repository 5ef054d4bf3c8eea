"""Remember which offerings the provider does not have: what failed, what was refused, and what never became a node.

For how long an offering is left alone, and what is taken back for it, is decided in `unavailable_offerings`; which
instances came that nobody had asked for, in `unasked_instances`.
"""

import dataclasses
from collections.abc import Iterable

import structlog

from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.accounts import account_reader, cloud_calls, unasked_instances, unavailable_offerings
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.plan import Disruption, Launch
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.snapshot import Snapshot, Unavailable
from autoscaler.cloud import port as cloud
from autoscaler.cloud import view

log = structlog.get_logger()
_REFUSALS = frozenset({cloud.Reason.DENIED, cloud.Reason.NOT_FOUND, cloud.Reason.REFUSED})


class LaunchFailures:
    """Knows which offerings are left alone."""

    def __init__(self, known: account_reader.AccountReader) -> None:
        self._accounts = known
        self._noted: dict[cloud.GroupName, float] = {}
        """When the last failed launch of a group began that was taken note of."""
        self._failed: frozenset[cloud.GroupName] = frozenset()
        """Groups that failed, and still ask for what they did not get."""
        self._lacks: dict[cloud.GroupName, unavailable_offerings.Lack] = {}
        self._groups: dict[cloud.GroupName, unasked_instances.Seen] = {}
        self._known: dict[NodeGroupKey, Unavailable] = {}
        self._recalled: dict[NodeGroupKey, float] = {}
        """Until when offerings were left alone before we led: launches that failed before are not the present ones."""
        self._is_new = True
        self._late: frozenset[cloud.InstanceId] = frozenset()
        """Instances whose nodes were not finished in time, of which note was taken."""

    def recall(self, pools: Iterable[InstancePool], now: float) -> None:
        """Know from the first look what whoever led before has noted."""
        if self._is_new:
            self._known, self._is_new = unavailable_offerings.recall(pools, now), False
            self._recalled = {key: each.until for key, each in self._known.items() if each.until <= now}

    def observe(self, snapshot: Snapshot, outcomes: Iterable[cloud_calls.Outcome]) -> Snapshot:
        """Add to a snapshot what failed and came since the last one."""
        if snapshot.other_autoscaler is not None:
            return dataclasses.replace(snapshot, unavailable=dict(self._known))
        came = unavailable_offerings.came(snapshot) if self._known else {}
        self._known = unavailable_offerings.current(self._known, snapshot.now, came)
        for outcome in outcomes:
            self._note_outcome(outcome, snapshot.now)
        for seen in self._accounts.seen.values():
            if seen.view.reading is not None:
                self._note_failures(seen.view.reading, snapshot.now)
        self._groups = unasked_instances.observe(snapshot, self._groups)
        self._note_lacks(snapshot)
        self._note_unfinished(snapshot)
        if self._failed:
            asking = {group.name for group in snapshot.groups if group.desired > unavailable_offerings.has(group)}
            self._failed &= asking
        return self.added(snapshot)

    def added(self, snapshot: Snapshot) -> Snapshot:
        """Add to a snapshot what is known."""
        overdue = frozenset(name for name, lack in self._lacks.items() if lack.is_over)
        unasked = unasked_instances.found(self._groups)
        return dataclasses.replace(
            snapshot, unavailable=dict(self._known), failed=self._failed, overdue=overdue, unasked=unasked
        )

    def next_at(self) -> float | None:
        """Return when the next group will have waited for too long."""
        return min((lack.until for lack in self._lacks.values() if not lack.is_over), default=None)

    def _note_outcome(self, outcome: cloud_calls.Outcome, now: float) -> None:
        """Leave an offering alone that we may not ask for, or whose instance did not become a node.

        Another one may help. Never for long: a person mends it.
        """
        match outcome.command:
            case Launch(key=key) if not outcome.is_done and outcome.error and outcome.error.reason in _REFUSALS:
                self._leave(key, None, outcome.error.reason, outcome.error.message, now)
            case Disruption(key=key, reason=Reason.NEVER_JOINED) if key and (outcome.is_done or outcome.error):
                message = f"{outcome.command.instance} did not become a ready node"
                self._leave(key, self._known.get(key), Reason.NEVER_JOINED, message, now)
            case _:
                pass

    def _note_failures(self, reading: view.Reading, now: float) -> None:
        """Leave offerings alone of which a launch failed since the last one that we know of."""
        for name, failures in reading.failures.items():
            group = reading.groups[name]
            latest = max(self._noted.get(name, 0.0), self._recalled.get(group.key, 0.0))
            if failures and failures[0].started_at > latest:
                self._noted[name] = failures[0].started_at
                self._note(group, failures[0], now)

    def _note_lacks(self, snapshot: Snapshot) -> None:
        """Leave offerings alone that neither came nor failed in time, and have them taken back."""
        before, self._lacks = self._lacks, unavailable_offerings.lacking(snapshot, self._lacks)
        known = {name for name, lack in before.items() if lack.is_over}
        over = {name for name, lack in self._lacks.items() if lack.is_over} - known
        unread = self._accounts.unread() if over else {}
        for group in [group for group in snapshot.groups if group.name in over]:
            lack = self._lacks[group.name]
            why = unread.get(group.name, "nobody says why")
            message = f"{group.missing} instances did not come within {lack.until - lack.since:.0f} s: {why}"
            self._leave(
                group.key, self._known.get(group.key), unavailable_offerings.NEVER_LAUNCHED, message, snapshot.now
            )
            self._failed |= {group.name}
            log.warning("launch_overdue", group=group.name, missing=group.missing, why=why)

    def _leave(self, key: NodeGroupKey, before: Unavailable | None, reason: str, message: str, now: float) -> None:
        self._known[key] = unavailable_offerings.note_useless(before, reason, message, now)

    def _note_unfinished(self, snapshot: Snapshot) -> None:
        """Leave offerings alone whose nodes were not finished in time: the next one might not be either."""
        late = [each for each in unfinished.never_finished(snapshot) if each.is_late]
        for each in late:
            if each.instance.id not in self._late:
                key, message = each.group.key, f"the node of {each.instance.id} was not finished in time: {each.lacks}"
                self._leave(key, self._known.get(key), Reason.NEVER_FINISHED, message, snapshot.now)
                log.warning("node_not_finished", node=each.node.meta.key.name, group=each.group.name, lacks=each.lacks)
        self._late = frozenset(each.instance.id for each in late)

    def _note(self, group: cloud.NodeGroup, failure: cloud.Activity, now: float) -> None:
        noted = unavailable_offerings.note(self._known.get(group.key), failure, now)
        self._known[group.key] = noted
        self._failed |= {group.name}
        log.warning("launch_failed", group=group.name, reason=noted.reason, error=noted.message, until=noted.until)
