"""The alert rules, as data. Pure.

Every metric named here is one that the runtime has; a test holds the two to each other.
"""

from dataclasses import dataclass
from typing import Any, Final

from autoscaler.api import names
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
        action="The runtime's log has the reason under cycle_failed: kubectl --namespace $namespace logs "
        "--selector app.kubernetes.io/part-of=sluice --tail 1000 | grep cycle_failed",
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
        name="SluiceRemovalsHeld",
        expression="max(sluice_removals_held_seconds{$of}) > 600",
        after="5m",
        severity="warning",
        summary="No instance has been ended for ten minutes, idle or not: what is seen of pods and nodes has gaps.",
        action="Watches of pods or nodes break again and again, or lists have to be made anew: see whether the API "
        "server is overloaded, or a proxy cuts long requests. The runtime's log has watch_failed and watch_expired: "
        "kubectl --namespace $namespace logs --selector app.kubernetes.io/part-of=sluice --tail 1000 | grep watch_",
    ),
    Alert(
        name="SluiceWritesRefused",
        # An eviction is refused by a disruption budget, which is its ordinary answer. What is refused for ever is sent
        # twice a minute.
        expression='sum by (verb, kind) (increase(sluice_writes_total{$of,outcome="failed",verb!="evict"}[15m])) > 5',
        after="15m",
        severity="warning",
        summary="The API server refuses again and again what the runtime writes: {{ $labels.verb }} of "
        "{{ $labels.kind }}.",
        action="The runtime's log has its answer: kubectl --namespace $namespace logs --selector "
        "app.kubernetes.io/part-of=sluice --tail 1000 | grep error. Often a role was narrowed, or somebody's admission "
        "policy or webhook refuses it.",
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
        action="Its Workload says why: kubectl get workloads --all-namespaces, then kubectl describe workload.",
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
        action="Nothing is admitted there until it fits again. Was quota lowered, or a queue removed?",
    ),
    Alert(
        name="SluiceJobsEvictedAgainAndAgain",
        expression=f"{_EVICTED} > 10 and {_EVICTED} > {promql.ADMITTED} / 2",
        after="15m",
        severity="warning",
        summary="Jobs of ClusterQueue {{ $labels.cluster_queue }} are evicted nearly as often as they are admitted.",
        action="Panel Admissions and evictions has the reasons.",
    ),
    Alert(
        name="SluiceGuestsWaitThoughMachinesAreFree",
        expression=f"({_GUESTS_WAITING} > 0 and {_USED} < {_MACHINES}) {_NOT_PAUSED}",
        after="15m",
        severity="warning",
        summary="Guests wait for machine {{ $labels.type }} of group {{ $labels.group }}, though guests do not use all "
        "there are.",
        action="Their events say why: kubectl describe pod, or `$run explain pod NAMESPACE/NAME`.",
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
        action="Its conditions say why: kubectl describe machine {{ $labels.group }}.",
    ),
    Alert(
        name="SluiceBudgetNearlyUsed",
        expression=f"max {promql.OF_BUDGET} (sluice_budget_used_ratio{{$of}}) >= 0.8 < 1",
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
        severity="warning",
        summary="{{ $labels.kind }} is spent: pool {{ $labels.pool }} {{ $labels.scope }}. Nothing new is started "
        "there until the month is over.",
        action="Raise the limit in the stack's file, or wait: other pools of the scope are used meanwhile.",
    ),
    Alert(
        name="SluicePodsWait",
        # Not of pods that a limit or budget holds back: somebody set that, and pods and pools say so.
        expression="max by (scope) (sluice_oldest_unlimited_pod_seconds{$of})"
        " > max by (scope) (sluice_scope_target_seconds{$of})",
        after="15m",
        severity="warning",
        summary="A pod of scope {{ $labels.scope }} waits for a node for longer than the scope's target latency "
        "(without one: an hour), and no limit or budget holds it back.",
        action="Its events say why (NotTriggerScaleUp), and what each node group says: $run explain pod NAMESPACE/NAME",
    ),
    Alert(
        name="SluiceAccountSilent",
        expression=f"min by (account) (sluice_cloud_reading_age_seconds{{$of}}) > 600 {_NOT_PAUSED}",
        after="5m",
        severity="critical",
        summary="Provider account {{ $labels.account }} could not be read for ten minutes: nothing is started or ended "
        "there.",
        action="Its condition Ready says why: kubectl describe provideraccount {{ $labels.account }}. Then look at "
        "its role or Secret, and at the provider's health page.",
    ),
    Alert(
        name="SluiceAutoscalersUnseen",
        expression="max(sluice_autoscalers_unseen_seconds{$of}) > 300",
        after="5m",
        severity="warning",
        summary="Nobody can see whether another autoscaler scales this cluster's nodes. A runtime that never could "
        "starts and ends nothing.",
        action="The condition Ready of InstancePools has the API server's answer: kubectl describe instancepools. "
        "Often the runtime's role may not list Leases: kubectl auth can-i list leases --all-namespaces --as "
        "system:serviceaccount:$namespace:sluice",
    ),
    Alert(
        name="SluiceNodesNeverReady",
        expression='sum by (pool) (increase(sluice_terminations_total{$of,reason=~"NeverJoined|NeverFinished"}[1h]))'
        " >= 3",
        after="1m",
        severity="warning",
        summary="Instances of pool {{ $labels.pool }} were started and never became ready nodes; they were ended.",
        action="Read the console output of one of them in EC2: image, user data, subnets, and the cluster's access "
        "entries. kubectl describe instancepool {{ $labels.pool }} has the events.",
    ),
    Alert(
        name="SluiceDrainOverdue",
        expression="max by (pool) (sluice_pool_drain_overdue{$of}) > 0",
        after="1m",
        severity="warning",
        summary="Pool {{ $labels.pool }} is being removed for longer than its drainSeconds: pods still run there.",
        action="Its condition Draining names them, and whether a PodDisruptionBudget holds them: "
        "kubectl describe instancepool {{ $labels.pool }}",
    ),
    Alert(
        name="SluiceInterruptionQueueUnread",
        expression="sum(increase(sluice_interruption_queue_failures_total{$of}[15m])) > 5",
        after="15m",
        severity="warning",
        summary="The queue of spot interruption notices cannot be read: spot instances go without being drained.",
        action="The runtime's log has the reason under interruptions_not_read: kubectl --namespace $namespace logs "
        "--selector app.kubernetes.io/part-of=sluice. Often its role may not read the queue.",
    ),
    Alert(
        name="SluiceOfferingsUnavailable",
        # One zone or type without instances is nothing new, and others are used. One that is tried again counts as
        # available until that has failed, too: hence the average.
        expression="max by (pool) (avg_over_time(sluice_offerings_unavailable{$of}[30m]))"
        " >= 0.9 * max by (pool) (sluice_offerings{$of} > 0)",
        after="30m",
        severity="warning",
        summary="The provider has had no instances of any type of pool {{ $labels.pool }} in any zone for an hour.",
        action="Give the pool more instance types or zones: kubectl describe instancepool {{ $labels.pool }} names "
        "those that fail.",
    ),
)


def rule_groups(runtime: promql.Runtime, runbooks: str | None = None) -> list[dict[str, Any]]:
    """Write the alert rules of one runtime, as Prometheus and its operator both read them.

    `runbooks` is where people read docs/runbooks.md; None: nobody has said.
    """
    return [{"name": "sluice", "rules": [rule(alert, runtime, runbooks) for alert in ALERTS]}]


def rule(alert: Alert, runtime: promql.Runtime, runbooks: str | None = None) -> dict[str, Any]:
    """Write one of them."""
    annotations = {"summary": alert.summary, "description": runtime.run(alert.action), "runbook": runbook(alert)}
    if runbooks is not None:
        annotations["runbook_url"] = f"{runbooks}#{alert.name.lower()}"
    return {
        "alert": alert.name,
        "expr": runtime.of(alert.expression),
        "for": alert.after,
        "labels": {"severity": alert.severity, names.CLUSTER_LABEL: runtime.cluster},
        "annotations": annotations,
    }


def runbook(alert: Alert) -> str:
    """Return where its runbook is in this repository."""
    return f"docs/runbooks.md#{alert.name.lower()}"
