"""Write what pools and scopes say about themselves, tell of budgets that change, and keep numbers for whoever measures.

What they say is put together in `pool_status`; here it is written, where it changed. One that cannot be written does
not stop the others, and the next cycle tries again.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import structlog

from autoscaler import control
from autoscaler.api import resources
from autoscaler.api.manifests import Manifest
from autoscaler.capacity import messages
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.custom import POOLS, SCOPES
from autoscaler.capacity.model import Limit, LimitKind
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.records import accounting
from autoscaler.capacity.reporting import pool_status
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud.prices import MICROS
from autoscaler.control import metrics
from autoscaler.kube import objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
WAITING_PODS: Final = "sluice_waiting_pods"
S = TypeVar("S", bound=objects.Stored)


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
        self._pool_target = writer.Target(resource=POOLS, decode=objects.custom(resources.InstancePool), table=pools)
        self._account_target = writer.Target(
            resource=account_reader.ACCOUNTS, decode=objects.custom(resources.ProviderAccount), table=known.accounts
        )
        self._scope_target = writer.Target(resource=SCOPES, decode=objects.custom(resources.Scope), table=scopes)
        self._warned: dict[tuple[str, str, LimitKind], frozenset[budgets.State]] = {}
        self._metrics: tuple[metrics.Metric, ...] = NOTHING
        self._count_waiting = waiting
        context.measure(self._measure)

    async def publish(self, snapshot: Snapshot, plan: Plan) -> None:
        """Write and tell what has changed."""
        month = pool_status.Month(to_date=offers.used(snapshot), limits=offers.monthly(snapshot))
        for pool in list(self._pools):
            problem = self._accounts.problem(pool.resource.spec.provider_account)
            changes = pool_status.changes(pool.resource, snapshot, month, problem)
            await self._write(self._pool_target, pool, changes)
        for account in list(self._accounts.accounts):
            name = account.meta.key.name
            problem = self._accounts.problem(name) or snapshot.outages.get(name) or snapshot.silent.get(name)
            await self._write(
                self._account_target, account, pool_status.account_changes(account.resource, problem, snapshot.now)
            )
        waiting = _waiting(snapshot, plan)
        for scope in list(self._scopes):
            pending = waiting[scope.meta.key.name]
            changes = pool_status.scope_changes(scope.resource, month, pending, snapshot.durations, now=snapshot.now)
            await self._write(self._scope_target, scope, changes)
        self._tell_budgets(month.limits)
        self._metrics = tuple(_metrics(snapshot, month, waiting))

    def _measure(self) -> Iterable[metrics.Metric]:
        """Return what was published last. While we are paused, pods go on waiting: these are counted anew."""
        if self._context.held_back() is None:
            return self._metrics
        if not self._context.is_paused():
            return NOTHING
        return [_waiting_pods(self._count_waiting()) if each.name == WAITING_PODS else each for each in self._metrics]

    async def _write(self, target: "writer.Target[S]", stored: S, changes: Manifest) -> None:
        try:
            await self._context.writer.patch_status(target, stored, changes)
        except port.KubeError as error:
            log.info("status_not_written", kind=target.resource.kind, name=stored.meta.key.name, error=str(error))

    def _tell_budgets(self, found: Iterable[Limit]) -> None:
        """Tell of a budget that is nearly used, committed or spent, once each time it becomes so."""
        warned = {}
        for budget in found:
            key = (budget.pool, budget.scope, budget.kind)
            warned[key] = pool_status.warnings(budget)
            new = warned[key] - self._warned.get(key, frozenset())
            for each in budgets.State:  # in the order in which a budget becomes so
                if each in new:
                    self._tell(budget, each)
        self._warned = warned

    def _tell(self, budget: Limit, state: budgets.State) -> None:
        pool = self._pools.get(objects.Key("", budget.pool))
        if pool is None:
            return
        log.info("budget_changed", state=state, **dataclasses.asdict(budget))
        self._context.tell(POOLS, pool, state, messages.limit(budget), is_warning=True, is_change=True)


def _waiting(snapshot: Snapshot, plan: Plan) -> Counter[str]:
    """Count the pods that wait, by scope."""
    pods = [pod for launch in plan.launches for pod in launch.pods]
    pods += [pod for refused in plan.unserved for pod in refused.pods]
    return Counter(demand.scope_of(snapshot, pod.meta.key.namespace) for pod in pods)


def _metrics(snapshot: Snapshot, month: pool_status.Month, waiting: Counter[str]) -> Iterable[metrics.Metric]:
    yield metrics.gauge(
        "sluice_pool_instances",
        "Instances of a pool, those still starting included.",
        [({"pool": name}, offers.active(snapshot, name)) for name in sorted(snapshot.pools)],
    )
    yield metrics.gauge(
        "sluice_pool_seconds_this_month",
        "Instance-seconds that a pool has used this month.",
        [({"pool": name}, month.to_date.seconds.get(name, 0)) for name in sorted(snapshot.pools)],
    )
    yield metrics.gauge(
        "sluice_pool_cost_this_month",
        "What a pool has cost this month, in the currency of the prices, as far as they are known.",
        [({"pool": name}, micros / MICROS) for name, micros in sorted(month.to_date.cost_micros.items()) if micros],
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
    short = [key for key, each in snapshot.unavailable.items() if each.until > snapshot.now]
    yield metrics.gauge(
        "sluice_offerings_unavailable",
        "Offerings of a pool that the provider does not have just now.",
        [({"pool": pool}, count) for pool, count in sorted(Counter(key.pool for key in short).items())],
    )


def _waiting_pods(waiting: Counter[str]) -> metrics.Metric:
    samples = [({"scope": scope}, count) for scope, count in sorted(waiting.items())]
    return metrics.gauge(WAITING_PODS, "Pods that wait for a node, by scope.", samples)


NOTHING: Final = tuple(
    _metrics(Snapshot(now=0.0), pool_status.Month(to_date=accounting.MonthToDate(month="")), Counter())
)
"""What is measured by who does not act: the metrics, without a number."""
