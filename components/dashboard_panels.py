"""The dashboard and the alert rules, as data. Pure.

Every metric named here is one that the runtime has; a test holds the two to each other. Panels are laid out two in a
row, in the order of the list. All numbers are of one runtime, told apart by its namespace: `namespace` is where it
runs, so the namespace of a worker pool is `pool_namespace`, whichever way Prometheus settles two labels of one name.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

Dashboard = dict[str, Any]
_WIDTH: Final = 12
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_OF_POOL: Final = "by (pool_namespace, pool)"
_OF_PHASE: Final = "by (pool_namespace, pool, phase)"
_POOL: Final = "{{pool_namespace}}/{{pool}}"
_OF_BUDGET: Final = "by (pool, scope, kind)"
_SHOWN: Final = 10
"""Of a thousand pools, only those are drawn that stand out."""
_POLL_SECONDS: Final = (
    f"sum {_OF_POOL} (rate(sluice_worker_pool_poll_seconds_sum{{$of}}[5m]))"
    f" / sum {_OF_POOL} (rate(sluice_worker_pool_poll_seconds_count{{$of}}[5m]))"
)
_OF_QUEUE: Final = "by (cluster_queue)"
_OF_QUOTA: Final = "by (cluster_queue, flavor, resource)"
_QUEUE: Final = "{{cluster_queue}}"
_QUOTA: Final = "{{cluster_queue}} {{flavor}} {{resource}}"
_QUOTA_USED: Final = (
    f"max {_OF_QUOTA} (sluice_admission_usage{{$of}}) / (max {_OF_QUOTA} (sluice_admission_quota{{$of}}) > 0)"
)
_ADMISSION_SECONDS: Final = (
    "sum(rate(sluice_admission_cycle_seconds_sum{$of}[5m])) / sum(rate(sluice_admission_cycle_seconds_count{$of}[5m]))"
)
_EVICTED: Final = f"sum {_OF_QUEUE} (increase(sluice_admission_evictions_total{{$of}}[1h]))"
_ADMITTED: Final = f"sum {_OF_QUEUE} (increase(sluice_admission_admissions_total{{$of}}[1h]))"
_NOT_PAUSED: Final = "unless on () max(sluice_paused{$of}) > 0"
"""While the runtime is paused, things wait because somebody wants it so: SluicePaused says that."""
_BUCKETS: Final = "rate(sluice_reconcile_duration_seconds_bucket{$of}[5m])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A graph: queries in PromQL, where $of stands for the labels of the runtime that is looked at."""

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    """Each a query and the legend of its lines."""
    unit: str = "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A rule: what must hold for how long before somebody is told, and what they should do."""

    name: str
    expression: str
    after: str
    severity: str
    summary: str
    action: str


PANELS: Final = (
    Panel(
        title="Who leads",
        description="Replicas that act, by Lease. Always one; none for a few seconds when a leader goes.",
        queries=(("sum by (lease) (sluice_leader{$of})", "{{lease}}"),),
    ),
    Panel(
        title="Paused or observing",
        description="1 while the annotation sluice.dev/paused stops everything, or while the runtime only observes.",
        queries=(
            ("max(sluice_paused{$of})", "paused"),
            ("max(sluice_observing{$of})", "observing"),
        ),
    ),
    Panel(
        title="Versions",
        description="Replicas by the version that runs.",
        queries=(("count by (version) (sluice_build_info{$of})", "{{version}}"),),
    ),
    Panel(
        title="Longest wait for a cycle",
        description="How long the oldest change has waited for its controller. Only who leads takes changes up, so the "
        "leader's number is the smallest.",
        queries=(("min by (controller) (sluice_oldest_change_seconds{$of})", "{{controller}}"),),
        unit="s",
    ),
    Panel(
        title="Cycles: 99 of 100 take at most",
        description="How long cycles take, by controller.",
        queries=((f"histogram_quantile(0.99, sum by (le, controller) ({_BUCKETS}))", "{{controller}}"),),
        unit="s",
    ),
    Panel(
        title="Cycles",
        description="Cycles a second, by controller and outcome.",
        queries=(
            (
                "sum by (controller, outcome) (rate(sluice_reconcile_duration_seconds_count{$of}[5m]))",
                "{{controller}} {{outcome}}",
            ),
        ),
        unit="ops",
    ),
    Panel(
        title="Writes to the API server",
        description="Writes a second, by kind, verb and outcome.",
        queries=(
            (
                "sum by (kind, verb, outcome) (rate(sluice_writes_total{$of}[5m]))",
                "{{verb}} {{kind}} {{outcome}}",
            ),
        ),
        unit="ops",
    ),
    Panel(
        title="Watches that began anew",
        description="Watches that broke, or lists that had to be made again, an hour.",
        queries=(("sum by (kind) (increase(sluice_watch_restarts_total{$of}[1h]))", "{{kind}}"),),
    ),
    Panel(
        title="Events not sent",
        description="Events about objects that could not be sent, an hour.",
        queries=(("sum by (lease) (increase(sluice_events_dropped_total{$of}[1h]))", "{{lease}}"),),
    ),
    Panel(
        title="Other operators",
        description="Leases of this runtime that another operator holds. Always none.",
        queries=(("max by (lease, holder) (sluice_rival_operator{$of})", "{{lease}}: {{holder}}"),),
    ),
    Panel(
        title="Workers",
        description="Worker pods of all pools, by phase.",
        queries=((f"sum by (phase) (max {_OF_PHASE} (sluice_worker_pool_workers{{$of}}))", "{{phase}}"),),
    ),
    Panel(
        title="Longest queues",
        description="Jobs that wait, when the queue was last read.",
        queries=((f"topk({_SHOWN}, max {_OF_POOL} (sluice_worker_pool_queue_size{{$of}}))", _POOL),),
    ),
    Panel(
        title="Fullest pools",
        description="How many more workers a pool may have. At 0 its jobs wait for workers to come free.",
        queries=((f"bottomk({_SHOWN}, max {_OF_POOL} (sluice_worker_pool_capacity{{$of}}))", _POOL),),
    ),
    Panel(
        title="Readings of queues",
        description="Queues asked a second, by what came of it.",
        queries=(("sum by (outcome) (rate(sluice_worker_pool_polls_total{$of}[5m]))", "{{outcome}}"),),
        unit="ops",
    ),
    Panel(
        title="Slowest queues",
        description="How long a reading takes on average.",
        queries=((f"topk({_SHOWN}, {_POLL_SECONDS})", _POOL),),
        unit="s",
    ),
    Panel(
        title="Jobs in queues",
        description="Queued jobs that wait for quota, and those that have it, by ClusterQueue.",
        queries=(
            (f"max {_OF_QUEUE} (sluice_admission_pending_workloads{{$of}})", "{{cluster_queue}} waiting"),
            (f"max {_OF_QUEUE} (sluice_admission_admitted_workloads{{$of}})", "{{cluster_queue}} admitted"),
        ),
    ),
    Panel(
        title="Longest waits for quota",
        description="How long the oldest job of a ClusterQueue has waited.",
        queries=((f"topk({_SHOWN}, max {_OF_QUEUE} (sluice_admission_oldest_pending_seconds{{$of}}))", _QUEUE),),
        unit="s",
    ),
    Panel(
        title="Quota used",
        description="How much of its own quota a ClusterQueue uses, by flavor and resource. Above 100 % it borrows "
        "from its cohort.",
        queries=((f"topk({_SHOWN}, {_QUOTA_USED})", _QUOTA),),
        unit="percentunit",
    ),
    Panel(
        title="Admissions and evictions",
        description="Jobs, and parts that jobs grew by, that were admitted in the last hour; jobs that were evicted.",
        queries=(
            (_ADMITTED, "{{cluster_queue}} admitted"),
            (
                "sum by (cluster_queue, reason) (increase(sluice_admission_evictions_total{$of}[1h]))",
                "{{cluster_queue}} {{reason}}",
            ),
        ),
    ),
    Panel(
        title="Pods behind the gate of quota",
        description="Pods of queued jobs whose gate is not opened: they are more than what was granted.",
        queries=((f"max {_OF_QUEUE} (sluice_admission_gated_pods{{$of}})", _QUEUE),),
    ),
    Panel(
        title="Cycles of admission",
        description="How long a cycle takes on average, over all queues.",
        queries=((_ADMISSION_SECONDS, "cycle"),),
        unit="s",
    ),
    Panel(
        title="Instances",
        description="Instances of each instance pool, those still starting included.",
        queries=(("max by (pool) (sluice_pool_instances{$of})", "{{pool}}"),),
    ),
    Panel(
        title="Pods that wait for a node",
        description="Pods that no node has room for, by scope; those of no scope are under none.",
        queries=(("max by (scope) (sluice_waiting_pods{$of})", "{{scope}}"),),
    ),
    Panel(
        title="Budgets used this month",
        description="How much of each monthly limit is used, of pools and of scopes in them. At 80 % a warning comes; "
        "at 100 % idle instances go, and nothing new is started well before.",
        queries=((f"max {_OF_BUDGET} (sluice_budget_used_ratio{{$of}})", "{{pool}} {{scope}} {{kind}}"),),
        unit="percentunit",
    ),
    Panel(
        title="Cost this month",
        description="What instances of each pool have cost, in the currency of the stack's prices.",
        queries=(("max by (pool) (sluice_pool_cost_this_month{$of})", "{{pool}}"),),
    ),
    Panel(
        title="Instance-hours this month",
        description="For how long instances of each pool have existed.",
        queries=(("max by (pool) (sluice_pool_seconds_this_month{$of}) / 3600", "{{pool}}"),),
        unit="h",
    ),
    Panel(
        title="Offerings that are not to be had",
        description="Instance types in zones that the provider did not have, and that are left alone for a while.",
        queries=(("max by (pool) (sluice_offerings_unavailable{$of})", "{{pool}}"),),
    ),
)

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
        summary="The runtime is paused: no worker is made, no machine is started or removed, and pods wait.",
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
        expression=f'sum {_OF_POOL} (rate(sluice_worker_pool_polls_total{{$of,outcome!="Read"}}[10m])) > 0'
        f' unless sum {_OF_POOL} (rate(sluice_worker_pool_polls_total{{$of,outcome="Read"}}[10m])) > 0',
        after="5m",
        severity="warning",
        summary="The queue of worker pool {{ $labels.pool_namespace }}/{{ $labels.pool }} cannot be read: it gets no "
        "new workers.",
        action="The pool's condition Ready says why: kubectl describe workerpool {{ $labels.pool }} "
        "--namespace {{ $labels.pool_namespace }}",
    ),
    Alert(
        name="SluicePoolFull",
        expression=f"max {_OF_POOL} (sluice_worker_pool_queue_size{{$of}}) > 0"
        f" and max {_OF_POOL} (sluice_worker_pool_capacity{{$of}}) == 0",
        after="30m",
        severity="warning",
        summary="Worker pool {{ $labels.pool_namespace }}/{{ $labels.pool }} has all workers it may have, and jobs "
        "wait.",
        action="Raise the pool's poolCapacity, or see whether failed workers that are retained fill it.",
    ),
    Alert(
        name="SluiceJobsWaitThoughQuotaIsFree",
        expression=f"(max {_OF_QUEUE} (sluice_admission_oldest_pending_seconds{{$of}}) > 1800"
        f" and max {_OF_QUEUE} ({_QUOTA_USED}) < 0.5) {_NOT_PAUSED}",
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
        expression=f"sum by (flavor, resource) (max {_OF_QUOTA} (sluice_admission_usage{{$of}}))"
        f" > sum by (flavor, resource) (max {_OF_QUOTA} (sluice_admission_quota{{$of}}))",
        after="15m",
        severity="warning",
        summary="Admitted jobs use more {{ $labels.resource }} of flavor {{ $labels.flavor }} than all ClusterQueues "
        "have quota for.",
        action="Nothing is admitted there until it fits again. Was quota lowered, or a queue removed? "
        "docs/operations.md, Usage is above quota.",
    ),
    Alert(
        name="SluiceJobsEvictedAgainAndAgain",
        expression=f"{_EVICTED} > 10 and {_EVICTED} > {_ADMITTED} / 2",
        after="15m",
        severity="warning",
        summary="Jobs of ClusterQueue {{ $labels.cluster_queue }} are evicted nearly as often as they are admitted.",
        action="Panel Admissions and evictions has the reasons. docs/operations.md, Jobs are evicted again and again.",
    ),
    Alert(
        name="SluiceBudgetNearlyUsed",
        expression=f"max {_OF_BUDGET} (sluice_budget_used_ratio{{$of}}) >= 0.8",
        after="1m",
        severity="warning",
        summary="80 % or more of {{ $labels.kind }} is used: pool {{ $labels.pool }} {{ $labels.scope }}.",
        action="See who uses it (kubectl get scopes, kubectl get instances), and raise the limit or let it be reached: "
        "nothing new is started then, and what runs goes on.",
    ),
    Alert(
        name="SluiceBudgetSpent",
        expression=f"max {_OF_BUDGET} (sluice_budget_used_ratio{{$of}}) >= 1",
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


def uid(cluster: str) -> str:
    """Name the dashboard in Grafana's addresses, which take 40 characters."""
    return f"sluice-{cluster}"[:40]


def url(grafana: str, cluster: str) -> str:
    """Return the dashboard's address."""
    return f"{grafana.rstrip('/')}/d/{uid(cluster)}"


def dashboard(cluster: str, namespace: str) -> Dashboard:
    """Write the dashboard of one runtime."""
    return {
        "uid": uid(cluster),
        "title": f"Sluice: {cluster}",
        "tags": ["sluice"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}]
        },
        "panels": [_panel(index, panel, namespace) for index, panel in enumerate(PANELS)],
    }


def rule_groups(namespace: str) -> list[dict[str, Any]]:
    """Write the alert rules of one runtime, as Prometheus and its operator both read them."""
    return [{"name": "sluice", "rules": [_rule(alert, namespace) for alert in ALERTS]}]


def text(value: object) -> str:
    """Write data as JSON, the same text for the same data."""
    return json.dumps(value, indent=1, sort_keys=True)


def _panel(index: int, panel: Panel, namespace: str) -> dict[str, Any]:
    place = {"x": index % 2 * _WIDTH, "y": index // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": _of(query, namespace),
                "legendFormat": legend,
                "datasource": _SOURCE,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _rule(alert: Alert, namespace: str) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": _of(alert.expression, namespace),
        "for": alert.after,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.action},
    }


def _of(query: str, namespace: str) -> str:
    return query.replace("$of", f'namespace="{namespace}"')
