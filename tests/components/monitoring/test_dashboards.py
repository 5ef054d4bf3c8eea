"""A dashboard and alert rules that speak of metrics the runtime has, where Grafana and Prometheus look for them."""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client.parser
import pulumi_kubernetes as k8s
import pytest

from autoscaler import clock, control
from autoscaler.admission.reporting import queue_metrics
from autoscaler.capacity import continuity
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.reporting import measures, other_autoscaler, status_writer
from autoscaler.kube import objects, store
from autoscaler.machines.reporting import measuring
from autoscaler.runtime import process
from autoscaler.workers import controller, model
from autoscaler.workers.reporting import pool_metrics
from components.monitoring import alert_rules, dashboard_panels, dashboards, promql
from components.runtime import deployment
from tests.components import accesses, monitor, places

QUERIES = [
    *(query for panel in dashboard_panels.PANELS for query, _ in panel.queries),
    *(alert.expression for alert in alert_rules.ALERTS),
]
RUNTIME = promql.Runtime(cluster="c", namespace="ops")
ROOT = Path(__file__).parents[3]
SUFFIXES = {
    "gauge": [""],
    "counter": ["_total"],
    "histogram": ["_bucket", "_count", "_sum"],
    "summary": ["_count", "_sum"],
}
NOBODY: Any = None
"""A process that is not run asks nobody."""


def run(**fields: Any) -> monitor.World:
    config = accesses.config(monitoring=fields, autoscaler={"namespace": "ops"})

    def program() -> dict[str, Any]:
        namespace = k8s.core.v1.Namespace("ops")
        args = dashboards.DashboardsArgs(
            config=config, place=places.place(), access=accesses.of_eks(), namespace=namespace
        )
        return {"url": dashboards.Dashboards("d", args).url}

    return monitor.run(program)


def scraped(*lives: Any) -> list[prometheus_client.Metric]:
    """Scrape a process of the runtime that handles these worker pools, admits jobs, holds room and scales nodes."""
    around = process.Surroundings(
        api=NOBODY, clock=NOBODY, leadership=NOBODY, plan=NOBODY, namespace="ops", identity="sluice"
    )
    metrics = process.Process(around, {}).metrics
    workers = controller.Controller(
        context(metrics.measure),
        class_name=None,
        classes=frozenset({None}),
        namespace=None,
        open_queues=NOBODY,
        suffix=NOBODY,
    )
    workers._reconcilers.update({begun.key: (begun, NOBODY) for begun in lives})
    ground = context(metrics.measure)
    known = account_reader.AccountReader(ground, NOBODY)
    status_writer.StatusWriter(ground, pools=store.Table(), scopes=store.Table(), known=known)
    measures.Measures(ground, known)
    continuity.Continuity(ground, ())
    other_autoscaler.OtherAutoscaler(ground, store.Table())
    metrics.measure(lambda: queue_metrics.of((), queue_metrics.Cycles()))
    metrics.measure(lambda: measuring.of({}))
    return [*prometheus_client.parser.text_string_to_metric_families(metrics.render().decode())]


def context(measure: Any) -> control.ControllerContext:
    """What a controller stands on that is never run."""
    unused: dict[str, Any] = {field.name: NOBODY for field in dataclasses.fields(control.ControllerContext)}
    used = {
        "clock": clock.SystemClock(),
        "watch": lambda *_: store.Table[Any](),
        "feed": lambda _: None,
        "measure": measure,
        "held_back": lambda: None,
        "is_paused": lambda: False,
    }
    return control.ControllerContext(**{**unused, **used})


def series(families: Iterable[prometheus_client.Metric]) -> dict[str, set[str]]:
    """Name the series of each metric."""
    return {family.name: {f"{family.name}{suffix}" for suffix in SUFFIXES[family.type]} for family in families}


def test_every_metric_named_is_one_that_the_runtime_has() -> None:
    named = {name for query in QUERIES for name in re.findall(r"sluice_\w+", query)}
    assert named
    assert named <= set().union(*series(scraped()).values())


def test_every_metric_of_the_runtime_is_shown() -> None:
    named = {name for query in QUERIES for name in re.findall(r"sluice_\w+", query)}
    assert [metric for metric, known in series(scraped()).items() if not known & named] == []


def test_a_pools_numbers_are_told_apart_by_labels_that_no_scrape_has() -> None:
    numbers = pool_metrics.Numbers(
        pool=objects.Key("jobs", "cloud"),
        workers=model.Counts(running=1, pending=1, failed=1, total=3, capacity=1),
        queue_size=5,
        polls=Counter(Read=1),
        poll_seconds=0.1,
    )
    begun = SimpleNamespace(key=numbers.pool, numbers=lambda: numbers)
    samples = [sample for family in scraped(begun) for sample in family.samples if "worker_pool" in sample.name]
    pool = {"pool_namespace": "jobs", "pool": "cloud"}
    more = {"sluice_worker_pool_workers": {"phase"}, "sluice_worker_pool_polls_total": {"outcome"}}
    assert len(samples) == 8
    for sample in samples:
        assert sample.labels.items() >= pool.items()
        assert sample.labels.keys() == pool.keys() | more.get(sample.name, set())


def test_every_query_is_about_this_runtime_alone() -> None:
    for query in QUERIES:
        assert len(re.findall(r"sluice_\w+\{\$of[,}]", query)) == len(re.findall(r"sluice_\w+", query))
    text = json.dumps([dashboard_panels.dashboard(RUNTIME), alert_rules.rule_groups(RUNTIME)])
    assert "$of" not in text
    assert 'namespace=\\"ops\\",sluice_cluster=\\"c\\"' in text


def test_panels_do_not_lie_on_each_other() -> None:
    panels = dashboard_panels.dashboard(RUNTIME)["panels"]
    places_taken = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places_taken)) == len(places_taken) == len(dashboard_panels.PANELS)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    (group,) = alert_rules.rule_groups(RUNTIME, "https://wiki.example/runbooks")
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    for rule in group["rules"]:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert "$run" not in rule["annotations"]["description"]
        assert "docs/" not in rule["annotations"]["description"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["labels"]["sluice_cluster"] == "c"
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example/runbooks#{rule['alert'].lower()}"


def test_commands_in_alerts_work_from_anywhere() -> None:
    (rule,) = [rule for rule in alert_rules.rule_groups(RUNTIME)[0]["rules"] if rule["alert"] == "SluicePodsWait"]
    want = "kubectl --namespace ops exec deploy/sluice -- python -m autoscaler explain pod NAMESPACE/NAME"
    assert want in rule["annotations"]["description"]
    assert "runbook_url" not in rule["annotations"]


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text()
    assert sorted(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == sorted(each.name for each in alert_rules.ALERTS)
    (rule, *_) = alert_rules.rule_groups(RUNTIME)[0]["rules"]
    assert rule["annotations"]["runbook"] == "docs/runbooks.md#sluicenobodyleads"


def test_a_runtime_without_controllers_raises_no_alarm_of_leadership() -> None:
    (rule,) = [alert for alert in alert_rules.ALERTS if alert.name == "SluiceNobodyLeads"]
    assert "absent(sluice_leader" not in rule.expression


def test_the_dashboard_is_where_grafanas_sidecar_looks() -> None:
    world = run()
    made = world.one(":ConfigMap", "d.dashboard")
    assert made.inputs["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made.inputs["metadata"]["namespace"] == "ops"
    (text,) = made.inputs["data"].values()
    assert json.loads(text)["uid"] == f"sluice-{places.CLUSTER}"
    assert made.waits_for(world.one(":Namespace", "ops"))
    assert made.parent == world.one(":Dashboards").urn


@pytest.mark.parametrize("operator", [True, False])
def test_rules_are_an_object_of_the_operator_or_a_config_map(operator: bool) -> None:  # noqa: FBT001
    world = run(prometheusOperator=operator)
    runtime = promql.Runtime(cluster=places.CLUSTER, namespace="ops")
    groups = {"groups": alert_rules.rule_groups(runtime)}
    rules = [one for one in world.made if one.name == "d.alerts"]
    assert len(rules) == 1
    if operator:
        assert (rules[0].inputs["kind"], rules[0].inputs["spec"]) == ("PrometheusRule", groups)
    else:
        assert not world.of_type(":ServiceMonitor")
        assert json.loads(rules[0].inputs["data"]["sluice.rules.yaml"]) == groups


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, None),
        ({"grafanaUrl": "https://grafana.example/"}, f"https://grafana.example/d/sluice-{places.CLUSTER}"),
        ({"grafanaUrl": "https://x.example/g"}, f"https://x.example/g/d/sluice-{places.CLUSTER}"),
    ],
)
def test_the_address_is_known_where_grafana_is(given: dict[str, str], want: str | None) -> None:
    assert run(**given).outputs.get("url") == want


def test_an_address_fits_grafana() -> None:
    assert len(dashboard_panels.uid("c" * 60)) == 40


def test_the_operator_finds_the_runtimes_metrics() -> None:
    world = run(prometheusOperator=True, operatorLabels={"release": "prom"})
    made = world.one(":ServiceMonitor").inputs
    config = accesses.config(autoscaler={"namespace": "ops"}).autoscaler
    assert made["metadata"]["namespace"] == "ops"
    assert made["spec"]["selector"]["matchLabels"].items() <= deployment.metadata(config)["labels"].items()
    (endpoint,) = made["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in deployment.service(config)["ports"]]
    assert endpoint["path"] == "/metrics"
    for kind in (":ServiceMonitor", ":PrometheusRule"):
        assert world.one(kind).inputs["metadata"]["labels"]["release"] == "prom"
