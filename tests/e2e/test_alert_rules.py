"""The alert rules as Prometheus itself understands them: `promtool` plays series through them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from components.monitoring import alert_rules, promql
from tools import debian

RUNTIME = promql.Runtime(cluster="c", namespace="ops")


@pytest.fixture(scope="module")
def promtool() -> Path:
    return debian.program(debian.PROMETHEUS, os.environ, print).with_name("promtool")


def firing(promtool: Path, directory: Path, series: dict[str, str]) -> set[str]:
    """Return the alerts that fire after two hours of these series, one sample a minute."""
    (directory / "rules.json").write_text(json.dumps({"groups": alert_rules.rule_groups(RUNTIME)}))
    given = [{"series": _of_runtime(name), "values": values} for name, values in series.items()]
    quiet = [{"eval_time": "2h", "alertname": alert.name, "exp_alerts": []} for alert in alert_rules.ALERTS]
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
    of = "" if "sluice_cluster=" in labels else 'sluice_cluster="c",'
    return f'{metric}{{namespace="ops",{of}{labels.rstrip("}")}}}'


WELL = {
    "sluice_build_info": "1x120",
    'sluice_leader{lease="sluice"}': "1x120",
    "sluice_paused": "0x120",
    'sluice_oldest_change_seconds{controller="capacity"}': "0x120",
}
BEHIND = {'sluice_oldest_change_seconds{controller="capacity"}': "100x120"}
PAUSED = {"sluice_paused": "1x120"}
WAITING = {
    'sluice_oldest_unlimited_pod_seconds{scope="research"}': "601x120",
    'sluice_scope_target_seconds{scope="research"}': "600x120",
}


def waiting(*, seconds: int, used: int, quota: int = 10) -> dict[str, str]:
    """A queue whose oldest job has waited so long, with two resources: this one, and one that is hardly used."""
    return {
        'sluice_admission_oldest_pending_seconds{cluster_queue="lab"}': f"{seconds}x120",
        **use("lab", "cpu", used=used, quota=quota),
        **use("lab", "memory", used=1, quota=100),
    }


def use(queue: str, resource: str, *, used: int, quota: int, flavor: str = "spot") -> dict[str, str]:
    labels = f'{{cluster_queue="{queue}",flavor="{flavor}",resource="{resource}"}}'
    return {f"sluice_admission_usage{labels}": f"{used}x120", f"sluice_admission_quota{labels}": f"{quota}x120"}


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (waiting(seconds=1801, used=4), {"SluiceJobsWaitThoughQuotaIsFree"}),
        (waiting(seconds=1801, used=0), {"SluiceJobsWaitThoughQuotaIsFree"}),
        (waiting(seconds=1800, used=4), set()),
        (waiting(seconds=1801, used=5), set()),  # another resource is free, this one is not
        (waiting(seconds=1801, used=0, quota=0), {"SluiceJobsWaitThoughQuotaIsFree"}),  # memory is free all the same
        # All that it uses is borrowed; so nothing is free.
        ({**waiting(seconds=1801, used=4, quota=0), **use("art", "cpu", used=0, quota=9)}, set()),
        ({**waiting(seconds=1801, used=4), **PAUSED}, {"SluicePaused"}),
    ],
)
def test_jobs_that_wait_long_though_quota_is_free_raise_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (use("lab", "cpu", used=11, quota=10), {"SluiceUsageAboveQuota"}),
        (use("lab", "cpu", used=10, quota=10), set()),
        # It borrows what the other leaves, and no more.
        ({**use("lab", "cpu", used=13, quota=10), **use("art", "cpu", used=1, quota=4)}, set()),
        ({**use("lab", "cpu", used=13, quota=10), **use("art", "cpu", used=2, quota=4)}, {"SluiceUsageAboveQuota"}),
        # Another flavor's quota is no help.
        (
            {**use("lab", "cpu", used=11, quota=10), **use("art", "cpu", used=0, quota=9, flavor="owned")},
            {"SluiceUsageAboveQuota"},
        ),
        ({**use("lab", "cpu", used=11, quota=10), **use("art", "memory", used=0, quota=9)}, {"SluiceUsageAboveQuota"}),
    ],
)
def test_more_usage_than_all_queues_have_quota_for_raises_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


def turns(*, evicted: str, admitted: str) -> dict[str, str]:
    """Jobs of one queue, evicted for two reasons, and admitted."""
    return {
        'sluice_admission_evictions_total{cluster_queue="lab",reason="Preempted"}': evicted,
        'sluice_admission_evictions_total{cluster_queue="lab",reason="PodsReadyTimeout"}': evicted,
        'sluice_admission_admissions_total{cluster_queue="lab"}': admitted,
    }


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (turns(evicted="0+1x120", admitted="0+3x120"), {"SluiceJobsEvictedAgainAndAgain"}),  # 120 of 180 an hour
        (turns(evicted="0+1x120", admitted="0+5x120"), set()),  # 120 of 300: a busy queue
        (turns(evicted="0x60 1x30 4x29", admitted="0x60 1x30 4x29"), set()),  # few
        (turns(evicted="0+1x30 30x89", admitted="0+3x30 90x89"), set()),  # it was, and is over
    ],
)
def test_jobs_that_are_evicted_again_and_again_raise_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


def machines(*, maximum: int = 4, reserved: int = 0, used: int = 0, waiting: str = "0x120") -> dict[str, str]:
    """Machines of one type that stand like this, and of another that are all held."""
    small, large = ('{group="desk",type="small"}', '{group="desk",type="large"}')
    return {
        f"sluice_machines_maximum{small}": f"{maximum}x120",
        f"sluice_machines_reserved{small}": f"{reserved}x120",
        f"sluice_machines_used{small}": f"{used}x120",
        f"sluice_machines_waiting{small}": waiting,
        f"sluice_machines_maximum{large}": "9x120",
        f"sluice_machines_reserved{large}": "9x120",
        f"sluice_machines_used{large}": "0x120",
        f"sluice_machines_waiting{large}": "0x120",
    }


FREE, USED, MISSING = "SluiceGuestsWaitThoughMachinesAreFree", "SluiceAllMachinesUsed", "SluiceMachineRoomMissing"


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (machines(reserved=3, used=1), set()),
        (machines(used=4), set()),
        (machines(reserved=2, used=1, waiting="1x120"), {FREE}),
        (machines(used=3, waiting="1x120"), {FREE}),  # no room for it, though a machine is free
        (machines(reserved=2, used=1, waiting="0x105 1x14"), set()),  # not for long
        (machines(reserved=2, used=1, waiting="0x104 1x15"), {FREE}),
        (machines(used=4, waiting="2x120"), {USED}),
        (machines(maximum=3, used=4, waiting="2x120"), {USED}),  # somebody lowered it
        (machines(used=4, waiting="0x60 2x59"), set()),
        (machines(used=4, waiting="0x59 2x60"), {USED}),
        (machines(reserved=2, used=1), {MISSING}),
        (machines(reserved=1, used=1, waiting="1x120"), {FREE, MISSING}),
        ({**machines(reserved=2, used=1, waiting="1x120"), **PAUSED}, {"SluicePaused"}),
        ({**machines(reserved=2, used=1), **PAUSED}, {"SluicePaused"}),
        # Another group's machines are no help.
        (
            {**machines(used=4, waiting="2x120"), 'sluice_machines_maximum{group="other",type="small"}': "9x120"},
            {USED},
        ),
    ],
)
def test_guests_that_wait_long_and_room_that_is_missing_raise_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


def test_room_that_is_missing_for_a_while_is_no_alarm(promtool: Path, tmp_path: Path) -> None:
    series = {**WELL, **machines(reserved=4)}
    reserved = 'sluice_machines_reserved{group="desk",type="small"}'
    assert firing(promtool, tmp_path, {**series, reserved: "4x90 0x29"}) == set()
    assert firing(promtool, tmp_path, {**series, reserved: "4x89 0x30"}) == {MISSING}


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


def oldest(seconds: str, *, target: int = 600) -> dict[str, str]:
    """A scope whose oldest waiting pod has waited so long; pods of no scope wait just as long as they may."""
    return {
        'sluice_oldest_unlimited_pod_seconds{scope="research"}': seconds,
        'sluice_scope_target_seconds{scope="research"}': f"{target}x120",
        "sluice_oldest_unlimited_pod_seconds": "3600x120",
        "sluice_scope_target_seconds": "3600x120",
    }


NEVER = 'sluice_terminations_total{pool="gpu",reason="NeverJoined",outcome="Done"}'
IDLE = 'sluice_terminations_total{pool="gpu",reason="Idle",outcome="Done"}'
AGE = 'sluice_cloud_reading_age_seconds{account="aws"}'


@pytest.mark.parametrize(
    ("series", "want"),
    [
        # A busy scope: somebody always waits, and nobody for long.
        (oldest("300x120"), set()),
        (oldest("600x120"), set()),
        (oldest("601x120"), {"SluicePodsWait"}),
        (oldest("601x120", target=3600), set()),
        (oldest("0x110 601x9"), set()),
        # Pods that a limit holds back wait for as long as it does.
        ({'sluice_oldest_waiting_pod_seconds{scope="research"}': "9999x120", **oldest("0x120")}, set()),
        ({AGE: "60x120"}, set()),
        ({AGE: "601x120"}, {"SluiceAccountSilent"}),
        ({AGE: " ".join(["Inf"] * 121)}, {"SluiceAccountSilent"}),  # it was never read
        ({AGE: "0x116 601x3"}, set()),
        ({AGE: "601x120", **PAUSED}, {"SluicePaused"}),
        ({NEVER: "0x90 5x29"}, {"SluiceNodesNeverReady"}),
        ({NEVER: "0x90 2x29"}, set()),
        ({NEVER: "0x30 5x89"}, set()),  # it is over
        ({IDLE: "0x90 50x29"}, set()),
        ({'sluice_pool_drain_overdue{pool="gpu"}': "0x120"}, set()),
        ({'sluice_pool_drain_overdue{pool="gpu"}': "1x120"}, {"SluiceDrainOverdue"}),
        ({"sluice_interruption_queue_failures_total": "3x120"}, set()),
        ({"sluice_interruption_queue_failures_total": "0+2x120"}, {"SluiceInterruptionQueueUnread"}),
        # Another cluster in the same Prometheus, with a leader of its own.
        ({'sluice_leader{lease="sluice",sluice_cluster="other"}': "1x120"}, set()),
        ({'sluice_leader{lease="sluice",pod="second"}': "1x120"}, {"SluiceTwoLead"}),
    ],
)
def test_what_whoever_is_on_call_should_know_raises_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


def offered(unavailable: str, *, offerings: int = 10) -> dict[str, str]:
    """A pool with so many offerings, of which these are not to be had; and one that has none at all."""
    return {
        'sluice_offerings{pool="spot"}': f"{offerings}x120",
        'sluice_offerings_unavailable{pool="spot"}': unavailable,
        'sluice_offerings{pool="empty"}': "0x120",
        'sluice_offerings_unavailable{pool="empty"}': "0x120",
    }


SHORT = "SluiceOfferingsUnavailable"


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (offered("0x120"), set()),
        (offered("4x120"), set()),  # a zone
        (offered("10x120"), {SHORT}),
        (offered("10x120", offerings=15), set()),
        (offered(" ".join(["10x4", "8x0"] * 24)), {SHORT}),  # every five minutes two are tried again
        (offered("0x89 10x30"), set()),  # not for long
        (offered("10x60 0x59"), set()),  # it is over
    ],
)
def test_a_pool_of_which_nothing_is_to_be_had_raises_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want


def polls(*, read: str, failed: str) -> dict[str, str]:
    labels = 'pool="compile",pool_namespace="builds"'
    return {
        f'sluice_worker_pool_polls_total{{{labels},outcome="Read"}}': read,
        f'sluice_worker_pool_polls_total{{{labels},outcome="Refused"}}': failed,
    }


def full(*, queue: str, capacity: int = 0) -> dict[str, str]:
    labels = 'pool="compile",pool_namespace="builds"'
    return {
        f"sluice_worker_pool_queue_size{{{labels}}}": queue,
        f"sluice_worker_pool_capacity{{{labels}}}": f"{capacity}x120",
    }


FAILED = 'sluice_reconcile_duration_seconds_count{controller="capacity",outcome="failed"}'
WRITES = 'sluice_writes_total{{kind="Node",lease="sluice",outcome="{outcome}",verb="{verb}"}}'
RESTARTS = 'sluice_watch_restarts_total{kind="Pod"}'
RIVAL = 'sluice_rival_operator{lease="sluice",holder="other"}'
LEADER = 'sluice_leader{lease="sluice"}'
BUDGET = 'sluice_budget_used_ratio{pool="gpu",scope="",kind="PoolSecondsPerMonth"}'


@pytest.mark.parametrize(
    ("series", "want"),
    [
        ({LEADER: "0x120"}, {"SluiceNobodyLeads"}),
        ({LEADER: "1x116 0x3"}, set()),
        ({LEADER: "0x120", RIVAL: "1x120"}, {"SluiceRivalOperator"}),
        ({FAILED: "0+1x120"}, {"SluiceCyclesFail"}),
        ({FAILED: "0x90 1x29"}, set()),  # one that failed
        ({RESTARTS: "0+1x120"}, {"SluiceWatchesBreak"}),
        ({RESTARTS: "0x90 3x29"}, set()),
        ({WRITES.format(outcome="failed", verb="patch"): "0+1x120"}, {"SluiceWritesRefused"}),
        ({WRITES.format(outcome="failed", verb="patch"): "0x90 9x29"}, set()),  # it is over
        ({WRITES.format(outcome="done", verb="patch"): "0+1x120"}, set()),
        ({WRITES.format(outcome="failed", verb="evict"): "0+1x120"}, set()),
        ({"sluice_autoscalers_unseen_seconds": "300x120"}, set()),
        ({"sluice_autoscalers_unseen_seconds": "301x120"}, {"SluiceAutoscalersUnseen"}),
        ({"sluice_removals_held_seconds": "60x120"}, set()),
        ({"sluice_removals_held_seconds": "601x120"}, {"SluiceRemovalsHeld"}),
        ({"sluice_removals_held_seconds": "0x116 601x3"}, set()),
        (polls(read="0+1x120", failed="0x120"), set()),
        (polls(read="0+1x120", failed="0+1x120"), set()),  # some of them
        (polls(read="5x120", failed="0+1x120"), {"SluiceQueueUnreadable"}),
        (full(queue="3x120"), {"SluicePoolFull"}),
        (full(queue="3x120", capacity=1), set()),
        (full(queue="0x90 3x29"), set()),
        ({BUDGET: "0.79x120"}, set()),
        ({BUDGET: "0.8x120"}, {"SluiceBudgetNearlyUsed"}),
        ({BUDGET: "1x120"}, {"SluiceBudgetSpent"}),
    ],
)
def test_what_stands_still_raises_an_alarm(
    promtool: Path, tmp_path: Path, series: dict[str, str], want: set[str]
) -> None:
    assert firing(promtool, tmp_path, {**WELL, **series}) == want
