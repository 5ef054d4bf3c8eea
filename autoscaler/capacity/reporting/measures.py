"""Numbers for whoever is on call: what the cloud is asked, what is launched and ended, and how long pods wait.

It decides nothing. Labels are accounts, pools, scopes and closed lists of reasons, and go with their objects.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from autoscaler import control
from autoscaler.api.resources.instances import Phase
from autoscaler.capacity import messages, model
from autoscaler.capacity.accounts import account_reader, cloud_calls
from autoscaler.capacity.plan import Disruption, Launch, Plan, Resize, Unserved
from autoscaler.capacity.scaledown import pool_teardown
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control import metrics
from autoscaler.kube import objects

NO_TARGET_SECONDS: Final = 3600.0
"""What a scope without a target latency is held to."""
BUCKETS: Final = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
_DONE, _FAILED = "Done", "Failed"
_LIMITS: Final = frozenset({model.Reason.AT_MAXIMUM, model.Reason.LIMIT})


class Waiting(NamedTuple):
    """A pod that no node has room for."""

    key: objects.Key
    scope: str
    since: float


class Measures:
    """Counts what each cycle did."""

    def __init__(
        self,
        context: control.ControllerContext,
        known: account_reader.AccountReader,
        *,
        evictions: Callable[[], Mapping[str, int]] = dict,
        queue_failures: Callable[[], int | None] = lambda: None,
        waiting: Callable[[], Mapping[str, Waiting]] | None = None,
    ) -> None:
        """Take also who knows what became of evictions and of the interruption queue, and who waits during a pause."""
        self._context = context
        self._accounts = known
        self._evictions = evictions
        self._queue_failures = queue_failures
        self._waiting_anew = waiting
        self._launches: Counter[tuple[str, str]] = Counter()
        self._terminations: Counter[tuple[str, str, str]] = Counter()
        self._refused: Counter[str] = Counter()
        self._waiting: dict[str, Waiting] = {}
        self._limited: dict[str, float] = {}
        """By UID of those that wait: until when a limit has held them back; infinite while it does."""
        self._targets: dict[str, float] = {}
        self._overdue: dict[str, float] = {}
        self._waits = metrics.Histogram(
            "sluice_pod_wait_seconds", "How long pods waited for a node until they had one.", "scope", BUCKETS
        )
        self._boots = metrics.Histogram(
            "sluice_launch_to_ready_seconds", "From an instance's launch until its node was ready.", "pool", BUCKETS
        )
        context.measure(self._measure)

    def observe(self, snapshot: Snapshot, plan: Plan, outcomes: Iterable[cloud_calls.Outcome]) -> None:
        """Count what became of commands, who was refused, and who found a node."""
        for outcome in outcomes:
            self._count(outcome)
        refused = [(messages.nearest(each.rejections), len(each.pods)) for each in plan.unserved]
        self._refused = Counter()
        for reason, pods in refused:
            self._refused[reason] += pods
        self._follow(snapshot)
        self._limit(snapshot, plan)
        for change in plan.records.changes:
            began = change.after.instance_created_at
            if (change.before.phase, change.after.phase) == (Phase.LAUNCHING, Phase.READY) and began is not None:
                self._boots.observe(change.pool, max(0.0, snapshot.now - began.timestamp()))
        self._targets = {name: _target(snapshot, name) for name in {*snapshot.scopes, ""}}
        self._overdue = {name: float(_is_overdue(snapshot, name)) for name in pool_teardown.waiting(snapshot)}
        self._waits.keep(self._targets)
        self._boots.keep(snapshot.pools)
        self._launches = Counter({key: count for key, count in self._launches.items() if key[0] in snapshot.pools})
        self._terminations = Counter(
            {key: count for key, count in self._terminations.items() if key[0] in snapshot.pools}
        )

    def _count(self, outcome: cloud_calls.Outcome) -> None:
        result = _DONE if outcome.is_done else _FAILED
        match outcome.command:
            case Launch() as launch:
                self._launches[launch.key.pool, result] += launch.after - launch.before
            case Disruption() as gone:
                self._terminations[gone.pool, gone.reason, result] += 1
            case Resize():
                pass  # what it corrects was counted as a launch

    def _follow(self, snapshot: Snapshot) -> None:
        """Note how long those pods waited that have a node since the cycle before."""
        waiting = waiting_pods(snapshot)
        for uid in self._waiting.keys() - waiting.keys():
            was = self._waiting[uid]
            pod = snapshot.pods.get(was.key)
            if pod is not None and pod.meta.uid == uid and pod.bound_at is not None:
                self._waits.observe(was.scope, max(0.0, pod.bound_at - was.since))
        self._waiting = waiting

    def _limit(self, snapshot: Snapshot, plan: Plan) -> None:
        """Note whom a limit holds back, and when it let go of whom."""
        held = {pod.meta.uid for each in plan.unserved if _is_limited(each) for pod in each.pods}
        before = {uid: min(until, snapshot.now) for uid, until in self._limited.items() if uid in self._waiting}
        self._limited = before | {uid: math.inf for uid in held if uid in self._waiting}

    def _measure(self) -> Iterable[metrics.Metric]:
        """Return what was counted; who does not act names the metrics alone."""
        if self._context.held_back() is None:
            return self._metrics(self._waiting)
        if self._context.is_paused() and self._waiting_anew is not None:
            return self._metrics(self._waiting_anew())
        return [metrics.Metric(each.name, each.documentation, each.type) for each in self._metrics({})]

    def _metrics(self, waiting: Mapping[str, Waiting]) -> Iterator[metrics.Metric]:
        yield metrics.gauge(
            "sluice_oldest_waiting_pod_seconds",
            "How long the pod of a scope has waited for a node that has waited longest.",
            self._oldest(waiting.values()),
        )
        yield metrics.gauge(
            "sluice_oldest_unlimited_pod_seconds",
            "The same for pods that no limit or budget holds back, from when it let go of them.",
            self._oldest(self._unlimited(waiting)),
        )
        yield metrics.gauge(
            "sluice_scope_target_seconds",
            "How long pods of a scope should wait at most: the longest target latency of its pools, or an hour.",
            [({"scope": scope}, seconds) for scope, seconds in sorted(self._targets.items())],
        )
        yield metrics.gauge(
            "sluice_refused_pods",
            "Pods for which no instance is started, by the reason of the group that comes nearest.",
            [({"reason": reason}, count) for reason, count in sorted(self._refused.items())],
        )
        yield metrics.gauge(
            "sluice_pool_drain_overdue",
            "1 while a pool that is being removed takes longer than its drainSeconds.",
            [({"pool": pool}, is_overdue) for pool, is_overdue in sorted(self._overdue.items())],
        )
        yield self._waits.metric()
        yield self._boots.metric()
        yield from self._counters()
        yield from self._cloud()

    def _unlimited(self, waiting: Mapping[str, Waiting]) -> Iterator[Waiting]:
        for uid, each in waiting.items():
            limited_until = self._limited.get(uid, each.since)
            if limited_until < math.inf:
                yield each._replace(since=max(each.since, limited_until))

    def _oldest(self, waiting: Iterable[Waiting]) -> list[tuple[dict[str, str], float]]:
        now = self._context.clock.now()
        return [({"scope": scope}, max(0.0, now - since)) for scope, since in sorted(_oldest(waiting).items())]

    def _counters(self) -> Iterator[metrics.Metric]:
        yield metrics.counter(
            "sluice_launches",
            "Instances asked for, by pool and outcome.",
            [({"pool": pool, "outcome": outcome}, count) for (pool, outcome), count in sorted(self._launches.items())],
        )
        yield metrics.counter(
            "sluice_terminations",
            "Instances ended, by pool, reason and outcome.",
            [
                ({"pool": pool, "reason": reason, "outcome": outcome}, count)
                for (pool, reason, outcome), count in sorted(self._terminations.items())
            ],
        )
        yield metrics.counter(
            "sluice_evictions",
            "Pods asked to leave their nodes, by outcome.",
            [({"outcome": outcome}, count) for outcome, count in sorted(self._evictions().items())],
        )

    def _cloud(self) -> Iterator[metrics.Metric]:
        yield metrics.counter(
            "sluice_cloud_calls",
            "Calls to a provider account, by outcome: Done, Throttled, Unreachable, Denied, NotFound, Refused.",
            [
                ({"account": account, "call": call, "outcome": outcome}, count)
                for account, calls in sorted(self._accounts.calls.items())
                for (call, outcome), count in sorted(calls.items())
            ],
        )
        yield metrics.gauge(
            "sluice_cloud_reading_age_seconds",
            "How old the last whole reading of an account's node groups is; infinite before the first.",
            [({"account": account}, age) for account, age in sorted(self._accounts.ages().items())],
        )
        failures = self._queue_failures()
        yield metrics.counter(
            "sluice_interruption_queue_failures",
            "How often the queue of interruption notices could not be read.",
            [] if failures is None else [({}, failures)],
        )


def waiting_pods(snapshot: Snapshot) -> dict[str, Waiting]:
    """Return the pods that no node has room for, by UID."""
    return {
        pod.meta.uid: Waiting(
            pod.meta.key, demand.scope_of(snapshot, pod.meta.key.namespace), pod.unschedulable_since or snapshot.now
        )
        for pod in snapshot.indexed.unbound.values()
        if demand.is_demand(pod)
    }


def _is_limited(unserved: Unserved) -> bool:
    """Tell whether pods wait because of a number that somebody set: with a larger one they would not."""
    return any(each.reason in _LIMITS for each in unserved.rejections)


def _oldest(waiting: Iterable[Waiting]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in waiting:
        found[each.scope] = min(each.since, found.get(each.scope, math.inf))
    return found


def _target(snapshot: Snapshot, scope: str) -> float:
    spec = snapshot.scopes.get(scope)
    targets = [each.limits.target_latency_seconds for each in spec.pools] if spec is not None else []
    return max((float(each) for each in targets if each is not None), default=NO_TARGET_SECONDS)


def _is_overdue(snapshot: Snapshot, pool: str) -> bool:
    left = pool_teardown.remainder(snapshot, pool)
    return left.reason(snapshot.now) is pool_teardown.Reason.OVERDUE
