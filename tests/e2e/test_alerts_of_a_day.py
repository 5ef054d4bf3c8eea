"""The alert rules on the demo's day: Prometheus' own engine evaluates them on what /metrics showed each minute of it.

In that day everything works: a zone has no instances for hours, jobs are more than their quota, and a month's budget is
spent. People set these limits, so whoever is on call sleeps through it, but for what is named here with its reason.
"""

import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from autoscaler.simulate import play, stack, trace
from autoscaler.simulate.world import NAMESPACE
from components.monitoring import alert_rules, promql
from tools import debian

ROOT: Final = Path(__file__).parents[2]
_BUDGET: Final = "kind=PoolSecondsPerMonth pool=gpu"
JUSTIFIED: Final[Mapping[str, str]] = {
    f"SluiceBudgetNearlyUsed {_BUDGET}": "who pays should know in time: 96 % is used when the day begins",
    f"SluiceBudgetSpent {_BUDGET}": "it is spent in the evening, and only a person can give more",
}
"""What fires, and why somebody should be told."""
ABSENT: Final[Mapping[str, str]] = {
    "sluice_interruption_queue_failures_total": "the simulated day has no queue of notices",
    "sluice_pool_drain_overdue": "no pool is removed in it",
    "sluice_rival_operator": "nobody else runs the runtime in it",
}
"""What the rules ask for and the day does not have."""


class Day:
    """What Prometheus would have scraped: the values of each series, minute by minute."""

    def __init__(self) -> None:
        self.minutes = 0
        self.series: dict[str, list[str]] = {}

    def scrape(self, at: float, text: bytes) -> None:
        del at  # they come one each minute
        found = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
        for name in found.keys() - self.series.keys():
            self.series[name] = ["_"] * self.minutes
        for name, values in self.series.items():
            values.append(_value(found[name]) if name in found else "stale" if values[-1] not in _GONE else "_")
        self.minutes += 1

    def metrics(self) -> set[str]:
        return {name.partition("{")[0] for name in self.series}


_GONE: Final = ("stale", "_")


def _value(text: str) -> str:
    value = float(text)
    return "Inf" if value == float("inf") else f"{value:.6f}".rstrip("0").rstrip(".")


@pytest.fixture(scope="module")
def made() -> stack.Stack:
    return stack.read(ROOT / "stacks" / "Pulumi.prod.yaml")


@pytest.fixture(scope="module")
def day(made: stack.Stack) -> Day:
    """The demo's day, played once."""
    seen = Day()
    play.play(made, trace.read(ROOT / "examples" / "traces" / "day.yaml"), lambda _: None, seen.scrape)
    return seen


@pytest.fixture(scope="module")
def promtool() -> Path:
    return debian.program(debian.PROMETHEUS, os.environ, print).with_name("promtool")


class Engine:
    """Evaluates rules on a day, each minute."""

    def __init__(self, promtool: Path, directory: Path, day: Day, cluster: str) -> None:
        self._promtool, self._directory, self._day = promtool, directory, day
        self._runtime = promql.Runtime(cluster=cluster, namespace=NAMESPACE)

    def fired(self, alerts: Iterable[alert_rules.Alert]) -> set[str]:
        """Return the alerts that fired at any minute, with their labels: `SluicePodsWait scope=research`."""
        rules = [alert_rules.rule(alert, self._runtime) for alert in alerts]
        (self._directory / "rules.json").write_text(json.dumps({"groups": [{"name": "sluice", "rules": rules}]}))
        (self._directory / "test.json").write_text(json.dumps(self._plan()))
        command = [str(self._promtool), "test", "rules", "test.json"]
        ran = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        found = re.findall(r"\{([^}]*)\}", ran.stderr.partition("got:")[2])
        assert bool(found) == bool(ran.returncode), ran.stderr  # it calls each one a failure that was not expected
        return {_worded(dict(re.findall(r'(\w+)="([^"]*)"', labels))) for labels in found}

    def _plan(self) -> dict[str, Any]:
        end = f"{self._day.minutes - 1}m"
        ever = {"expr": f'max_over_time(ALERTS{{alertstate="firing"}}[{end}])', "eval_time": end, "exp_samples": []}
        series = [
            {"series": _of_target(name), "values": " ".join(values)}
            for name, values in self._day.series.items()
            if "_bucket{" not in name
        ]
        test = {"interval": "1m", "input_series": series, "promql_expr_test": [ever]}
        return {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [test]}


def _of_target(name: str) -> str:
    """Add the label that Prometheus' scrape adds."""
    metric, _, labels = name.partition("{")
    return f'{metric}{{namespace="{NAMESPACE}",{labels.rstrip("}")}}}'


def _worded(labels: Mapping[str, str]) -> str:
    own = {"alertname", "alertstate", "severity", "sluice_cluster"}
    return " ".join([labels["alertname"], *(f"{key}={value}" for key, value in labels.items() if key not in own)])


@pytest.fixture
def engine(promtool: Path, tmp_path: Path, day: Day, made: stack.Stack) -> Engine:
    return Engine(promtool, tmp_path, day, made.groups.cluster)


def test_in_the_demos_day_nobody_is_told_of_anything_but_for_a_reason(engine: Engine) -> None:
    assert engine.fired(alert_rules.ALERTS) == set(JUSTIFIED)


def test_what_the_rules_ask_for_is_measured_in_that_day(day: Day) -> None:
    """A rule about a metric that is not there would be silent whatever happens."""
    asked = {name for alert in alert_rules.ALERTS for name in re.findall(r"sluice_\w+", alert.expression)}
    assert asked - day.metrics() == set(ABSENT)


@pytest.mark.parametrize(
    ("name", "change", "after", "want"),
    [
        # Training waits for hours behind a limit of instances, and then behind the month's budget.
        ("SluicePodsWait", ("unlimited", "waiting"), "15m", "scope=research"),
        ("SluicePodsWait", ("> max", "> 0.01 * max"), "2m", "scope=builds"),
        # The course has one guest more than there are machines, for half an hour; the nightly batch fills its pool.
        ("SluiceAllMachinesUsed", None, "30m", "group=notebooks type=small"),
        ("SluicePoolFull", None, "5m", "pool=reports pool_namespace=reports"),
        # A zone has no instances.
        ("SluiceOfferingsUnavailable", (">= 0.9", ">= 0.1"), "30m", "pool=spot"),
        # Jobs wait for quota that others use.
        ("SluiceJobsWaitThoughQuotaIsFree", ("< 0.5", "< 5"), "15m", "cluster_queue=training"),
    ],
)
def test_a_rule_that_is_too_eager_is_noticed(
    engine: Engine, name: str, change: tuple[str, str] | None, after: str, want: str
) -> None:
    """So the day has what the rules are silent about."""
    (alert,) = (each for each in alert_rules.ALERTS if each.name == name)
    expression = alert.expression.replace(*change) if change is not None else alert.expression
    assert f"{name} {want}" in engine.fired([dataclasses.replace(alert, expression=expression, after=after)])
