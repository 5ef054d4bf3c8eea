"""The alert rules as Prometheus itself understands them: `promtool` plays series through them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from components import dashboard_panels
from tools import debian

NAMESPACE = "ops"


@pytest.fixture(scope="module")
def promtool() -> Path:
    return debian.program(debian.PROMETHEUS, os.environ, print).with_name("promtool")


def firing(promtool: Path, directory: Path, series: dict[str, str]) -> set[str]:
    """Return the alerts that fire after two hours of these series, one sample a minute."""
    (directory / "rules.json").write_text(json.dumps({"groups": dashboard_panels.rule_groups(NAMESPACE)}))
    given = [{"series": _of_runtime(name), "values": values} for name, values in series.items()]
    quiet = [{"eval_time": "2h", "alertname": alert.name, "exp_alerts": []} for alert in dashboard_panels.ALERTS]
    test = {"interval": "1m", "input_series": given, "alert_rule_test": quiet}
    plan = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [test]}
    (directory / "test.json").write_text(json.dumps(plan))
    ran = subprocess.run(
        [promtool, "test", "rules", "test.json"], cwd=directory, capture_output=True, text=True, check=False
    )
    fired = set(re.findall(r"alertname: (\w+)", ran.stderr))  # it calls each one a failure that was not expected
    assert bool(fired) == bool(ran.returncode), ran.stderr
    return fired


def _of_runtime(name: str) -> str:
    metric, _, labels = name.partition("{")
    return f'{metric}{{namespace="{NAMESPACE}",{labels.rstrip("}")}}}'


WELL = {
    "sluice_build_info": "1x120",
    'sluice_leader{lease="sluice"}': "1x120",
    "sluice_paused": "0x120",
    'sluice_oldest_change_seconds{controller="capacity"}': "0x120",
}
BEHIND = {'sluice_oldest_change_seconds{controller="capacity"}': "100x120"}
PAUSED = {"sluice_paused": "1x120"}
WAITING = {'sluice_waiting_pods{scope="research"}': "3x120"}


@pytest.mark.parametrize(
    ("series", "want"),
    [
        ({}, set()),
        (BEHIND, {"SluiceFallsBehind"}),
        ({**BEHIND, **PAUSED}, {"SluicePaused"}),
        ({**BEHIND, **PAUSED, **WAITING}, {"SluicePaused", "SluicePodsWait"}),
    ],
)
def test_a_paused_runtime_raises_its_own_alarm_and_is_not_called_slow(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want
