"""Write what pools and scopes say about themselves, tell of budgets that change, and keep numbers for whoever measures.

What they say is put together in `pool_status`; here it is written, where it changed. One that cannot be written does
not stop the others, and the next cycle tries again.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import resources
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.custom import ACCOUNTS, POOLS, SCOPES
from autoscaler.capacity.plan import Plan, PoolEvent, Status
from autoscaler.capacity.records import accounting
from autoscaler.capacity.reporting import budget_events, pool_status
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud.prices import MICROS
from autoscaler.control import metrics
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
WAITING_PODS: Final = "sluice_waiting_pods"
USAGE_SECONDS: Final = 300.0
"""How often a pool or a scope says what was used, at most: what changes each minute is the metric."""


class StatusWriter:
    """Publishes."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        pools: store.Table[objects.Custom[resources.InstancePool]],
        scopes: store.Table[objects.Custom[resources.Scope]],
        known: account_reader.AccountReader,
        waiting: Callable[[], Counter[str]] = Counter,
    ) -> None:
        """Take also who counts the pods that wait, by scope, while nothing is planned."""
        self._context = context
        self._pools = pools
        self._scopes = scopes
        self._accounts = known
        self._targets: dict[kinds.ResourceType, writer.Target[Any]] = {
            POOLS: writer.Target(resource=POOLS, decode=objects.custom(resources.InstancePool), table=pools),
            ACCOUNTS: writer.Target(
                resource=ACCOUNTS, decode=objects.custom(resources.ProviderAccount), table=known.accounts
            ),
            SCOPES: writer.Target(resource=SCOPES, decode=objects.custom(resources.Scope), table=scopes),
        }
        self._warned: budget_events.Warned = {}
        self._told_at: dict[pool_status.Teller, float] = {}
        """When each pool and scope last said what was used; those of longer ago are left out."""
        self._metrics: tuple[metrics.Metric, ...] = NOTHING
        self._count_waiting = waiting
        context.measure(self._measure)

    def stated(self) -> pool_status.Stated:
        """Return what says something, each as it is now."""
        named = {each.meta.key.name for each in self._accounts.accounts}
        named |= {pool.resource.spec.provider_account for pool in self._pools}
        return pool_status.Stated(
            pools=tuple(self._pools),
            scopes=tuple(self._scopes),
            accounts=tuple(self._accounts.accounts),
            warned=self._warned,
            problems={name: problem for name in named if (problem := self._accounts.problem(name)) is not None},
            told_lately=self._told_lately(),
        )

    def _told_lately(self) -> frozenset[pool_status.Teller]:
        since = self._context.clock.monotonic() - USAGE_SECONDS
        self._told_at = {teller: at for teller, at in self._told_at.items() if at > since}
        return frozenset(self._told_at)

    async def publish(self, snapshot: Snapshot, plan: Plan) -> None:
        """Write and tell what has changed."""
        for status in plan.statuses:
            await self._write(self._targets[status.resource], status)
        month = pool_status.Month(to_date=offers.used(snapshot), limits=offers.monthly(snapshot))
        for event in plan.pool_events:
            self._tell(event)
        self._warned = budget_events.warned_of(month.limits)
        self._metrics = tuple(_metrics(snapshot, month, pool_status.waiting(snapshot, plan)))

    def _measure(self) -> Iterable[metrics.Metric]:
        """Return what was published last. While we are paused, pods go on waiting: these are counted anew."""
        if self._context.held_back() is None:
            return self._metrics
        if not self._context.is_paused():
            return NOTHING
        return [_waiting_pods(self._count_waiting()) if each.name == WAITING_PODS else each for each in self._metrics]

    async def _write(self, target: writer.Target[Any], status: Status) -> None:
        teller = (status.resource.kind, status.stored.meta.key.name)
        try:
            await self._context.writer.patch_status(target, status.stored, status.changes)
        except port.KubeError as error:
            log.info("status_not_written", kind=teller[0], name=teller[1], error=str(error))
        else:  # it has said what was used as well, unless it did so lately, or little came to it
            self._told_at.setdefault(teller, self._context.clock.monotonic())

    def _tell(self, event: PoolEvent) -> None:
        pool = self._pools.get(objects.Key("", event.pool))
        if pool is None:
            return
        log.info("budget_changed", state=event.reason, **dataclasses.asdict(event.limit))
        self._context.tell(POOLS, pool, event.reason, event.text, is_warning=True, is_change=True)


def _metrics(snapshot: Snapshot, month: pool_status.Month, waiting: Counter[str]) -> Iterable[metrics.Metric]:
    yield metrics.gauge(
        "sluice_pool_instances",
        "Instances of a pool, those still starting included.",
        [({"pool": name}, offers.active(snapshot, name)) for name in sorted(snapshot.pools)],
    )
    yield metrics.gauge(
        "sluice_pool_month_to_date_seconds",
        "Instance-seconds that a pool has used this month.",
        [({"pool": name}, month.to_date.seconds.get(name, 0)) for name in sorted(snapshot.pools)],
    )
    yield metrics.gauge(
        "sluice_pool_month_to_date_cost",
        "What a pool has cost this month, as far as prices are known.",
        [
            ({"pool": name, "currency": snapshot.prices.currency}, micros / MICROS)
            for name, micros in sorted(month.to_date.cost_micros.items())
            if micros
        ],
    )
    yield metrics.gauge(
        "sluice_budget_used_ratio",
        "How much of a month's budget is used; 1 is all of it.",
        [
            ({"pool": each.pool, "scope": each.scope, "kind": each.kind}, each.used / max(1, each.most))
            for each in month.limits
        ],
    )
    yield _waiting_pods(waiting)
    yield from _offerings(snapshot)


def _offerings(snapshot: Snapshot) -> Iterable[metrics.Metric]:
    offered = Counter(group.key.pool for group in snapshot.groups)
    short = Counter(key.pool for key, each in snapshot.unavailable.items() if each.until > snapshot.now)
    yield metrics.gauge(
        "sluice_offerings",
        "Offerings of a pool: instance types, each in every zone that the pool has.",
        [({"pool": pool}, offered[pool]) for pool in sorted(snapshot.pools)],
    )
    yield metrics.gauge(
        "sluice_offerings_unavailable",
        "Offerings of a pool that the provider does not have just now.",
        [({"pool": pool}, short[pool]) for pool in sorted(snapshot.pools)],
    )


def _waiting_pods(waiting: Counter[str]) -> metrics.Metric:
    samples = [({"scope": scope}, count) for scope, count in sorted(waiting.items())]
    return metrics.gauge(WAITING_PODS, "Pods that wait for a node, by scope.", samples)


NOTHING: Final = tuple(
    _metrics(Snapshot(now=0.0), pool_status.Month(to_date=accounting.MonthToDate(month="")), Counter())
)
"""What is measured by who does not act: the metrics, without a number."""
