"""Logs tell what failed and where, and never what was in the variables."""

import json

import pytest
import structlog

from autoscaler.control import metrics
from autoscaler.runtime.observability import telemetry


def test_a_traceback_holds_no_variables(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    telemetry.configure_logging("info")
    try:
        _fail_with("bearer very-secret")
    except RuntimeError:
        structlog.get_logger().exception("cycle_failed", controller="workers")
    finally:
        structlog.configure(**before)
    line = capsys.readouterr().out
    assert json.loads(line)["controller"] == "workers"
    assert "_fail_with" in line
    assert "very-secret" not in line


def _fail_with(token: str) -> None:
    headers = {"Authorization": token}
    raise RuntimeError(f"{len(headers)} headers")


def test_every_number_carries_the_cluster_where_it_has_a_name() -> None:
    made = telemetry.Metrics("prod")
    made.cycle("capacity", "done", 0.1)
    made.measure(lambda: [metrics.gauge("sluice_paused", "Whether.", [({}, 1.0)])])
    lines = [line for line in made.render().decode().splitlines() if not line.startswith("#")]
    assert lines
    assert all('sluice_cluster="prod"' in line for line in lines)
    assert "sluice_cluster" not in telemetry.Metrics().render().decode()
