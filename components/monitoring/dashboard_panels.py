"""The dashboard, as data. Pure.

Every metric named here is one that the runtime has; a test holds the two to each other. Panels are laid out two in a
row, in the order of the list.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from components.monitoring import promql

Dashboard = dict[str, Any]
_WIDTH: Final = 12
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_OF_PHASE: Final = "by (pool_namespace, pool, phase)"
_POOL: Final = "{{pool_namespace}}/{{pool}}"
_SHOWN: Final = 10
"""Of a thousand pools, only those are drawn that stand out."""
_POLL_SECONDS: Final = (
    f"sum {promql.OF_POOL} (rate(sluice_worker_pool_poll_seconds_sum{{$of}}[5m]))"
    f" / sum {promql.OF_POOL} (rate(sluice_worker_pool_poll_seconds_count{{$of}}[5m]))"
)
_QUEUE: Final = "{{cluster_queue}}"
_QUOTA: Final = "{{cluster_queue}} {{flavor}} {{resource}}"
_ADMISSION_SECONDS: Final = (
    "sum(rate(sluice_admission_cycle_seconds_sum{$of}[5m])) / sum(rate(sluice_admission_cycle_seconds_count{$of}[5m]))"
)
_WAITS: Final = "increase(sluice_pod_wait_seconds_bucket{$of}[1h])"
_BOOTS: Final = "increase(sluice_launch_to_ready_seconds_bucket{$of}[1h])"
_BUCKETS: Final = "rate(sluice_reconcile_duration_seconds_bucket{$of}[5m])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A graph: queries in PromQL, where $of stands for the labels of the runtime that is looked at."""

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    """Each a query and the legend of its lines."""
    unit: str = "short"


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
        queries=((f"topk({_SHOWN}, max {promql.OF_POOL} (sluice_worker_pool_queue_size{{$of}}))", _POOL),),
    ),
    Panel(
        title="Fullest pools",
        description="How many more workers a pool may have. At 0 its jobs wait for workers to come free.",
        queries=((f"bottomk({_SHOWN}, max {promql.OF_POOL} (sluice_worker_pool_capacity{{$of}}))", _POOL),),
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
            (f"max {promql.OF_QUEUE} (sluice_admission_pending_workloads{{$of}})", "{{cluster_queue}} waiting"),
            (f"max {promql.OF_QUEUE} (sluice_admission_admitted_workloads{{$of}})", "{{cluster_queue}} admitted"),
        ),
    ),
    Panel(
        title="Longest waits for quota",
        description="How long the oldest job of a ClusterQueue has waited.",
        queries=((f"topk({_SHOWN}, max {promql.OF_QUEUE} (sluice_admission_oldest_pending_seconds{{$of}}))", _QUEUE),),
        unit="s",
    ),
    Panel(
        title="Quota used",
        description="How much of its own quota a ClusterQueue uses, by flavor and resource. Above 100 % it borrows "
        "from its cohort.",
        queries=((f"topk({_SHOWN}, {promql.QUOTA_USED} < Inf)", _QUOTA),),
        unit="percentunit",
    ),
    Panel(
        title="Admissions and evictions",
        description="Jobs, and parts that jobs grew by, that were admitted in the last hour; jobs that were evicted.",
        queries=(
            (promql.ADMITTED, "{{cluster_queue}} admitted"),
            (
                "sum by (cluster_queue, reason) (increase(sluice_admission_evictions_total{$of}[1h]))",
                "{{cluster_queue}} {{reason}}",
            ),
        ),
    ),
    Panel(
        title="Pods behind the gate of quota",
        description="Pods of queued jobs whose gate is not opened: they are more than what was granted.",
        queries=((f"max {promql.OF_QUEUE} (sluice_admission_gated_pods{{$of}})", _QUEUE),),
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
        queries=((f"max {promql.OF_BUDGET} (sluice_budget_used_ratio{{$of}})", "{{pool}} {{scope}} {{kind}}"),),
        unit="percentunit",
    ),
    Panel(
        title="Cost this month",
        description="What instances of each pool have cost, in the currency of the stack's prices.",
        queries=(("max by (pool, currency) (sluice_pool_month_to_date_cost{$of})", "{{pool}} ({{currency}})"),),
    ),
    Panel(
        title="Instance-hours this month",
        description="For how long instances of each pool have existed.",
        queries=(("max by (pool) (sluice_pool_month_to_date_seconds{$of}) / 3600", "{{pool}}"),),
        unit="h",
    ),
    Panel(
        title="Machines",
        description="Machines of each type: free with their room held, and used by guests.",
        queries=(
            ("max by (group, type) (sluice_machines_reserved{$of})", "{{group}} {{type}} reserved"),
            ("max by (group, type) (sluice_machines_used{$of})", "{{group}} {{type}} used"),
            ("max by (group, type) (sluice_machines_maximum{$of})", "{{group}} {{type}} maximum"),
        ),
    ),
    Panel(
        title="Guests that wait for a machine",
        description="Where it stays above 0, all machines of the type are used, or no node has room for them.",
        queries=(("max by (group, type) (sluice_machines_waiting{$of})", "{{group}} {{type}}"),),
    ),
    Panel(
        title="Longest waits for a node",
        description="How long the oldest waiting pod of a scope has waited, the oldest that no limit or budget holds "
        "back, and how long it should wait at most.",
        queries=(
            ("max by (scope) (sluice_oldest_waiting_pod_seconds{$of})", "{{scope}} waited"),
            ("max by (scope) (sluice_oldest_unlimited_pod_seconds{$of})", "{{scope}} waited without a limit"),
            ("max by (scope) (sluice_scope_target_seconds{$of})", "{{scope}} at most"),
        ),
        unit="s",
    ),
    Panel(
        title="Waits for a node: 95 of 100 are at most",
        description="How long pods waited that found a node in the last hour, by scope.",
        queries=((f"histogram_quantile(0.95, sum by (le, scope) ({_WAITS}))", "{{scope}}"),),
        unit="s",
    ),
    Panel(
        title="Launch to ready: half take at most",
        description="From an instance's launch until its node is ready, in the last hour, by pool.",
        queries=((f"histogram_quantile(0.5, sum by (le, pool) ({_BOOTS}))", "{{pool}}"),),
        unit="s",
    ),
    Panel(
        title="Pods that no instance is started for",
        description="By the reason of the node group that comes nearest.",
        queries=(("max by (reason) (sluice_refused_pods{$of})", "{{reason}}"),),
    ),
    Panel(
        title="Instances started and ended",
        description="In the last hour, by pool, and by reason where they ended.",
        queries=(
            ("sum by (pool, outcome) (increase(sluice_launches_total{$of}[1h]))", "{{pool}} started {{outcome}}"),
            (
                "sum by (pool, reason, outcome) (increase(sluice_terminations_total{$of}[1h]))",
                "{{pool}} ended {{reason}} {{outcome}}",
            ),
        ),
    ),
    Panel(
        title="Evictions",
        description="Pods asked to leave their nodes in the last hour, by what came of it.",
        queries=(("sum by (outcome) (increase(sluice_evictions_total{$of}[1h]))", "{{outcome}}"),),
    ),
    Panel(
        title="Calls to the provider",
        description="Calls a second, by account, call and outcome.",
        queries=(
            (
                "sum by (account, call, outcome) (rate(sluice_cloud_calls_total{$of}[5m]))",
                "{{account}} {{call}} {{outcome}}",
            ),
        ),
        unit="ops",
    ),
    Panel(
        title="Age of what is known of the provider",
        description="How old the last whole reading of an account is. Normally at most a minute.",
        queries=(("min by (account) (sluice_cloud_reading_age_seconds{$of})", "{{account}}"),),
        unit="s",
    ),
    Panel(
        title="Removal of pools, and notices of interruption",
        description="Pools that take longer to leave than they should, and failed readings of the notices, an hour.",
        queries=(
            ("max by (pool) (sluice_pool_drain_overdue{$of})", "{{pool}} overdue"),
            ("sum(increase(sluice_interruption_queue_failures_total{$of}[1h]))", "notices not read"),
        ),
    ),
    Panel(
        title="Offerings that are not to be had",
        description="Instance types in zones that the provider did not have, and that are left alone for a while.",
        queries=(
            ("max by (pool) (sluice_offerings_unavailable{$of})", "{{pool}}"),
            ("max by (pool) (sluice_offerings{$of})", "{{pool}} has"),
        ),
    ),
)


def uid(cluster: str) -> str:
    """Name the dashboard in Grafana's addresses, which take 40 characters."""
    return f"sluice-{cluster}"[:40]


def url(grafana: str, cluster: str) -> str:
    """Return the dashboard's address."""
    return f"{grafana.rstrip('/')}/d/{uid(cluster)}"


def dashboard(runtime: promql.Runtime) -> Dashboard:
    """Write the dashboard of one runtime."""
    cluster = runtime.cluster
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
        "panels": [_panel(index, panel, runtime) for index, panel in enumerate(PANELS)],
    }


def text(value: object) -> str:
    """Write data as JSON, the same text for the same data."""
    return json.dumps(value, indent=1, sort_keys=True)


def _panel(index: int, panel: Panel, runtime: promql.Runtime) -> dict[str, Any]:
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
                "expr": runtime.of(query),
                "legendFormat": legend,
                "datasource": _SOURCE,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }
