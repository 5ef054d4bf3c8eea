"""The alert rules, as data. Pure.

Every metric named here is one that the runtime has; a test holds the two to each other.
"""

from dataclasses import dataclass
from typing import Any, Final

from components.monitoring import promql

_EVICTED: Final = f"sum {promql.OF_QUEUE} (increase(sluice_admission_evictions_total{{$of}}[1h]))"
_MACHINES: Final = f"max {promql.OF_MACHINES} (sluice_machines_maximum{{$of}})"
_RESERVED: Final = f"max {promql.OF_MACHINES} (sluice_machines_reserved{{$of}})"
_USED: Final = f"max {promql.OF_MACHINES} (sluice_machines_used{{$of}})"
_GUESTS_WAITING: Final = f"max {promql.OF_MACHINES} (sluice_machines_waiting{{$of}})"
_NOT_PAUSED: Final = "unless on () max(sluice_paused{$of}) > 0"
"""While the runtime is paused, things wait because somebody wants it so: SluicePaused says that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A rule: what must hold for how long before somebody is told, and what they should do."""

    name: str
    expression: str
    after: str
    severity: str
    summary: str
    action: str


ALERTS: Final = (
    Alert(
        name="SluiceNobodyLeads",
        expression="sum by (lease) (sluice_leader{$of}) < 1 unless max by (lease) (sluice_rival_operator{$of}) > 0"
        " or absent(sluice_build_info{$of})",
        after="5m",
        severity="critical",
        summary="No replica acts: nothing is scaled, admitted or cleaned up.",
        action="Look at the runtime's pods and their logs; /readyz says what is missing.",
    ),
    Alert(
        name="SluiceTwoLead",
        expression="sum by (lease) (sluice_leader{$of}) > 1",
        after="1m",
        severity="critical",
        summary="Two replicas believe that they hold Lease {{ $labels.lease }}.",
        action="Look for a node whose clock stands still; delete the pod on it.",
    ),
    Alert(
        name="SluiceCyclesFail",
        expression='sum by (controller) (rate(sluice_reconcile_duration_seconds_count{$of,outcome="failed"}[10m])) > 0',
        after="15m",
        severity="warning",
        summary="Cycles of controller {{ $labels.controller }} fail.",
        action="The runtime's log has the reason under cycle_failed.",
    ),
    Alert(
        name="SluiceFallsBehind",
        expression=f"min by (controller) (sluice_oldest_change_seconds{{$of}}) > 60 {_NOT_PAUSED}",
        after="5m",
        severity="warning",
        summary="Changes wait for controller {{ $labels.controller }} for over a minute.",
        action="See in the runtime's log what the controller waits for (waiting, cycle_failed); if its cycles take "
        "long, give the runtime more CPU.",
    ),
    Alert(
        name="SluicePaused",
        expression="max by (namespace) (sluice_paused{$of}) > 0",
        after="15m",
        severity="warning",
        summary="The runtime is paused: no worker is made, no instance is started or removed, and pods wait.",
        action="Its namespace has the annotation sluice.dev/paused. When the reason is gone, take it off: "
        "kubectl annotate namespace {{ $labels.namespace }} sluice.dev/paused-",
    ),
    Alert(
        name="SluiceWatchesBreak",
        expression="sum by (kind) (increase(sluice_watch_restarts_total{$of}[15m])) > 10",
        after="15m",
        severity="warning",
        summary="The watch of {{ $labels.kind }} breaks again and again.",
        action="See whether the API server is overloaded, or the kind's definition has gone.",
    ),
    Alert(
        name="SluiceRivalOperator",
        expression="max by (lease, holder) (sluice_rival_operator{$of}) > 0",
        after="5m",
        severity="warning",
        summary="Another operator, {{ $labels.holder }}, holds Lease {{ $labels.lease }}: this one stands by.",
        action="Two operators handle the same worker pools. Give one another class or scope, or remove it.",
    ),
    Alert(
        name="SluiceQueueUnreadable",
        # A queue that fails is asked every 5 minutes at least, so that 10 show a failure and would show a success.
        expression=f'sum {promql.OF_POOL} (rate(sluice_worker_pool_polls_total{{$of,outcome!="Read"}}[10m])) > 0'
        f' unless sum {promql.OF_POOL} (rate(sluice_worker_pool_polls_total{{$of,outcome="Read"}}[10m])) > 0',
        after="5m",
        severity="warning",
        summary="The queue of worker pool {{ $labels.pool_namespace }}/{{ $labels.pool }} cannot be read: it gets no "
        "new workers.",
        action="The pool's condition Ready says why: kubectl describe workerpool {{ $labels.pool }} "
        "--namespace {{ $labels.pool_namespace }}",
    ),
    Alert(
        name="SluicePoolFull",
        expression=f"max {promql.OF_POOL} (sluice_worker_pool_queue_size{{$of}}) > 0"
        f" and max {promql.OF_POOL} (sluice_worker_pool_capacity{{$of}}) == 0",
        after="30m",
        severity="warning",
        summary="Worker pool {{ $labels.pool_namespace }}/{{ $labels.pool }} has all workers it may have, and jobs "
        "wait.",
        action="Raise the pool's poolCapacity, or see whether failed workers that are retained fill it.",
    ),
    Alert(
        name="SluiceJobsWaitThoughQuotaIsFree",
        expression=f"(max {promql.OF_QUEUE} (sluice_admission_oldest_pending_seconds{{$of}}) > 1800"
        f" and max {promql.OF_QUEUE} ({promql.QUOTA_USED}) < 0.5) {_NOT_PAUSED}",
        after="15m",
        severity="warning",
        summary="A job has waited over half an hour in ClusterQueue {{ $labels.cluster_queue }}, of whose quota less "
        "than half is used.",
        action="Its Workload says why: kubectl get workloads --all-namespaces, then kubectl describe workload. "
        "docs/operations.md, Jobs wait though quota is free.",
    ),
    Alert(
        name="SluiceUsageAboveQuota",
        # A queue may borrow what others of its cohort leave, so one queue's usage says nothing; their sum does.
        expression=f"sum by (flavor, resource) (max {promql.OF_QUOTA} (sluice_admission_usage{{$of}}))"
        f" > sum by (flavor, resource) (max {promql.OF_QUOTA} (sluice_admission_quota{{$of}}))",
        after="15m",
        severity="warning",
        summary="Admitted jobs use more {{ $labels.resource }} of flavor {{ $labels.flavor }} than all ClusterQueues "
        "have quota for.",
        action="Nothing is admitted there until it fits again. Was quota lowered, or a queue removed? "
        "docs/operations.md, Usage is above quota.",
    ),
    Alert(
        name="SluiceJobsEvictedAgainAndAgain",
        expression=f"{_EVICTED} > 10 and {_EVICTED} > {promql.ADMITTED} / 2",
        after="15m",
        severity="warning",
        summary="Jobs of ClusterQueue {{ $labels.cluster_queue }} are evicted nearly as often as they are admitted.",
        action="Panel Admissions and evictions has the reasons. docs/operations.md, Jobs are evicted again and again.",
    ),
    Alert(
        name="SluiceGuestsWaitThoughMachinesAreFree",
        expression=f"({_GUESTS_WAITING} > 0 and {_USED} < {_MACHINES}) {_NOT_PAUSED}",
        after="15m",
        severity="warning",
        summary="Guests wait for machine {{ $labels.type }} of group {{ $labels.group }}, though guests do not use all "
        "there are.",
        action="Their events say why: kubectl describe pod, or `python -m autoscaler explain pod NAMESPACE/NAME`. "
        "docs/operations.md, Guests wait though machines are free.",
    ),
    Alert(
        name="SluiceAllMachinesUsed",
        expression=f"{_GUESTS_WAITING} > 0 and {_USED} >= {_MACHINES}",
        after="1h",
        severity="warning",
        summary="All machines {{ $labels.type }} of group {{ $labels.group }} are used, and guests have waited for one "
        "for an hour.",
        action="Raise the type's available, with nodes that have room for it, or see whether guests run that nobody "
        "needs: kubectl get pods --all-namespaces --selector sluice.dev/machine-group={{ $labels.group }}",
    ),
    Alert(
        name="SluiceMachineRoomMissing",
        # What should be held is what no guest uses or waits for; a guest that waits has an alert of its own.
        expression=f"({_MACHINES} - {_USED} - {_GUESTS_WAITING} > {_RESERVED}) {_NOT_PAUSED}",
        after="30m",
        severity="warning",
        summary="Machine group {{ $labels.group }} lacks room for machines {{ $labels.type }}: guests that come may "
        "have to wait.",
        action="Its conditions say why: kubectl describe machine {{ $labels.group }}. "
        "docs/operations.md, Room for machines is missing.",
    ),
    Alert(
        name="SluiceBudgetNearlyUsed",
        expression=f"max {promql.OF_BUDGET} (sluice_budget_used_ratio{{$of}}) >= 0.8",
        after="1m",
        severity="warning",
        summary="80 % or more of {{ $labels.kind }} is used: pool {{ $labels.pool }} {{ $labels.scope }}.",
        action="See who uses it (kubectl get scopes, kubectl get instances), and raise the limit or let it be reached: "
        "nothing new is started then, and what runs goes on.",
    ),
    Alert(
        name="SluiceBudgetSpent",
        expression=f"max {promql.OF_BUDGET} (sluice_budget_used_ratio{{$of}}) >= 1",
        after="1m",
        severity="critical",
        summary="{{ $labels.kind }} is spent: pool {{ $labels.pool }} {{ $labels.scope }}. Nothing new is started "
        "there until the month is over.",
        action="Raise the limit in the stack's file, or wait: other pools of the scope are used meanwhile.",
    ),
    Alert(
        name="SluicePodsWait",
        expression="max by (scope) (sluice_waiting_pods{$of}) > 0",
        after="1h",
        severity="warning",
        summary="Pods of scope {{ $labels.scope }} have waited for a node for an hour.",
        action="Their events say why (NotTriggerScaleUp), and `python -m autoscaler explain pod NAMESPACE/NAME` what "
        "each node group says.",
    ),
    Alert(
        name="SluiceOfferingsUnavailable",
        expression="max by (pool) (sluice_offerings_unavailable{$of}) > 0",
        after="1h",
        severity="warning",
        summary="The provider has had no instances of some types of pool {{ $labels.pool }} for an hour.",
        action="Give the pool more instance types or zones: kubectl describe instancepool {{ $labels.pool }} names "
        "those that fail.",
    ),
)


def rule_groups(namespace: str) -> list[dict[str, Any]]:
    """Write the alert rules of one runtime, as Prometheus and its operator both read them."""
    return [{"name": "sluice", "rules": [_rule(alert, namespace) for alert in ALERTS]}]


def _rule(alert: Alert, namespace: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": promql.of(alert.expression, namespace),
        "for": alert.after,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.action},
    }
