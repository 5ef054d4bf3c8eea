"""A simulated day: a stack's file and a trace become a day on the real controllers, the same each time."""

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler import __main__ as command
from autoscaler.api import keys
from autoscaler.simulate import play, stack, trace
from autoscaler.simulate.observation.guest_record import GuestLife
from autoscaler.simulate.observation.job_record import JobLife, StepKind
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.reporting import report, targets
from autoscaler.simulate.reporting.episode import Kind
from autoscaler.simulate.reporting.episodes import episodes
from autoscaler.simulation import kubelet
from components import loading
from components.config import reading
from components.monitoring import alert_rules

HOUR = 3600.0
ROOT = Path(__file__).parents[2]
LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"
MORNING: dict[str, Any] = {
    "starts": "2026-06-30T06:00:00Z",
    "lasts": "40m",
    "seed": 3,
    "secondsUsedThisMonth": {"gpu": 359_500},
    "queues": {
        "compile": {
            "namespace": "builds",
            "poolCapacity": 30,
            "idleTimeoutMinutes": 1,
            "requests": {"cpu": "2", "memory": "2Gi"},
            "nodeSelector": {"node.type": "worker"},
            "takes": ["2m", "4m"],
            "arrive": [{"from": "06:02", "to": "06:05", "count": 24}],
        }
    },
    "pods": {
        "training": {
            "namespace": "research",
            "requests": {"cpu": "1", "nvidia.com/gpu": "4"},
            "takes": ["10m", "10m"],
            "arrive": [{"from": "06:15", "to": "06:16", "count": 3}],
        }
    },
    "shortages": [{"zone": "eu-west-1a", "from": "06:01", "to": "06:40"}],
}

CRUNCH: dict[str, Any] = {
    "namespace": "research",
    "queue": "default",
    "requests": {"cpu": "1", "memory": "1Gi"},
    "takes": ["1m", "2m"],
    "parallelism": 2,
    "completions": 20,
    "arrive": [{"from": "06:00", "to": "06:02", "count": 2}],
    "resizes": [{"at": "06:05", "parallelism": 4}],
}


VISITOR: dict[str, Any] = {
    "namespace": "research",
    "group": "desk",
    "type": "small",
    "takes": ["1m", "3m"],
    "arrive": [{"from": "06:00", "to": "06:08", "count": 5}],
}


@functools.cache
def site() -> stack.Stack:
    return stack.read(LOCAL)


@functools.cache
def morning() -> tuple[Record, tuple[play.Progress, ...]]:
    told: list[play.Progress] = []
    return play.play(site(), trace.parse(MORNING), told.append), tuple(told)


def test_all_jobs_are_done_and_all_that_was_started_goes() -> None:
    record, told = morning()
    (jobs,) = (each for each in record.waits if each.work == "compile")
    assert len(jobs.waits) == 24
    assert all(wait.began_at is not None for wait in jobs.waits)
    workers = [one for one in record.instances if one.key.pool == "workers"]
    assert workers
    assert all(one.ended_at is not None for one in workers)
    assert len(told) == play.PROGRESS_STEPS
    assert max(each.instances for each in told) > told[-1].instances == 3  # one services node in each zone


def test_the_zone_that_has_none_is_passed_by() -> None:
    record, _ = morning()
    assert "eu-west-1a" not in {one.key.zone for one in record.instances if one.key.pool == "workers"}
    (shortage,) = (one for one in episodes(record) if one.kind is Kind.SHORTAGE)
    assert "zone eu-west-1a passed by" in shortage.what


def test_the_budget_of_the_month_holds_what_came_too_late() -> None:
    record, _ = morning()
    (pods,) = (each for each in record.waits if each.work == "training")
    assert pods.scope == "research"
    assert not [one for one in record.instances if one.key.pool == "gpu"]
    assert [wait.began_at for wait in pods.waits] == [None] * 3
    limit = next(one for one in episodes(record) if one.kind is Kind.LIMIT)
    assert limit.why.startswith("gpu: the pool may use 100 h of instances a month: 99 h 51 min used, 0 s expected")


def test_the_report_tells_all_of_it() -> None:
    record, _ = morning()
    text = report.report(record, site().scaling.prices)
    assert "27 jobs and pods came." in text
    assert "POOLS (example prices)" in text
    assert len(text.splitlines()) < 60


@pytest.mark.accept("P11", part="in a simulated day 95 % of a scope's pods start within the target")
def test_a_scopes_pods_start_within_its_target_and_the_report_says_so() -> None:
    compiling = {**MORNING["queues"]["compile"], "namespace": "research", "takes": ["3m", "9m"]}
    compiling["arrive"] = [{"from": "06:02", "to": "06:32", "count": 40}]
    day = {"starts": MORNING["starts"], "lasts": "50m", "seed": 3, "queues": {"compile": compiling}}
    record = play.play(site(), trace.parse(day), lambda _: None)
    (outcome,) = targets.outcomes(record)
    assert (outcome.target.scope, outcome.target.pool, outcome.target.seconds) == ("research", "workers", 60)
    assert len(outcome.seconds) >= 10
    assert outcome.is_met
    (jobs,) = record.waits
    in_time = [wait.seconds(record.ends_at) <= 60 for wait in jobs.waits]
    assert sum(in_time) >= 0.95 * len(in_time)
    assert len(record.instances) <= 3 + len(outcome.seconds)  # three of services; jobs share workers


def test_the_same_trace_gives_the_same_day() -> None:
    begins = trace.parse({**MORNING, "lasts": "10m", "jobs": {"crunch": CRUNCH}, "guests": {"visitor": VISITOR}})
    first, second = (play.play(site(), begins, lambda _: None) for _ in range(2))
    assert first.instances
    assert [each.added for each in first.queued.lives] == [2, 2]
    assert len([each for each in first.guests.lives if each.began_at is not None]) == 5
    assert first == second


def test_the_demo_fits_its_stack() -> None:
    """`make demo` takes too long for a test; what it reads must go together all the same."""
    day = trace.read(ROOT / "examples" / "traces" / "day.yaml")
    loaded = loading.load(reading.of_file(ROOT / "stacks" / "Pulumi.prod.yaml"))
    (grid,), (listed,) = loaded.grids.values(), loaded.prices.values()
    assert set(day.seconds_used_this_month) <= {group.key.pool for group in grid.groups}
    assert {one.zone for one in day.shortages} <= {group.key.zone for group in grid.groups}
    priced = {(kind, capacity) for kind, by_capacity in listed.hourly.items() for capacity in by_capacity}
    assert {(group.key.instance_type, group.capacity_type) for group in grid.groups} == priced


# Queued jobs: those of the example, on the production stack, without the other work of the day


@functools.cache
def queued_jobs() -> tuple[Record, tuple[play.Progress, ...]]:
    """Play the queued jobs of the example day from nine to four."""
    day = trace.read(ROOT / "examples" / "traces" / "day.yaml")
    starts = day.starts.replace(hour=8, minute=59)
    alone = {"queues": {}, "pods": {}, "guests": {}, "shortages": (), "starts": starts, "lasts": 7 * HOUR}
    told: list[play.Progress] = []
    return play.play(production(), day.model_copy(update=alone), told.append), tuple(told)


@functools.cache
def production() -> stack.Stack:
    return stack.read(ROOT / "stacks" / "Pulumi.prod.yaml")


def job(work: str) -> JobLife:
    (found,) = (each for each in queued_jobs()[0].queued.lives if each.work == work)
    return found


def at(record: Record, hour: int, minute: int) -> float:
    midnight = record.starts_at - record.starts_at % (24 * HOUR)
    return midnight + hour * HOUR + minute * 60


@pytest.mark.accept("E17", part="partial scale-up")
def test_the_training_job_grows_at_noon_in_part_and_then_whole() -> None:
    record, _ = queued_jobs()
    moments = {"before": (11, 59), "at noon": (12, 1), "still": (12, 29), "features ended": (12, 35), "until": (13, 59)}
    granted = {name: job("ranking").granted(at(record, *moment)) for name, moment in moments.items()}
    assert granted == {"before": 4, "at noon": 8, "still": 8, "features ended": 12, "until": 12}
    first = [step.kind for step in job("ranking").steps[:3]]
    assert first == [StepKind.ADMITTED, StepKind.GREW, StepKind.GREW]


@pytest.mark.accept("E10", part="comes back with what it was first admitted with")
def test_it_gives_way_at_two_and_comes_back_with_what_it_was_first_admitted_with() -> None:
    record, _ = queued_jobs()
    ranking, month_end = job("ranking"), job("month-end")
    (evicted,) = (step for step in ranking.steps if step.kind is StepKind.EVICTED)
    assert at(record, 14, 0) <= evicted.at < at(record, 14, 1)
    assert "is taken back for reports/job-month-end-0001" in evicted.why
    released, back = ranking.steps[4], ranking.steps[5]
    assert (released.kind, back.kind, back.after, back.wanted) == (StepKind.RELEASED, StepKind.ADMITTED, 4, 12)
    assert month_end.wait.began_at is not None
    assert released.at <= month_end.wait.began_at <= back.at
    assert ranking.granted(at(record, 15, 29)) == 4
    assert ranking.granted(at(record, 15, 35)) == 12  # month-end has ended


def test_no_job_runs_without_quota_and_none_is_used_beyond_what_the_queues_share() -> None:
    record, _ = queued_jobs()
    assert record.queued.beyond_quota == 0
    of_cpu = {each.cluster_queue: each for each in record.queued.quotas if each.resource == "cpu"}
    assert (of_cpu["training"].most, of_cpu["training"].most_borrowed) == (84_000, 54_000)
    assert (of_cpu["reports"].most, of_cpu["reports"].most_borrowed) == (56_000, 0)
    shared = of_cpu["training"].nominal + of_cpu["reports"].nominal
    moments = {step.at for each in record.queued.lives for step in each.steps}
    held = [sum(each.granted(moment) for each in record.queued.lives) for moment in sorted(moments)]
    assert max(held) * 7_000 <= shared


def test_pods_of_queued_jobs_run_on_the_nodes_of_their_flavor() -> None:
    record, told = queued_jobs()
    assert set(record.pods_by_pool) == {"spot"}
    assert max(each.running for each in told) == 12


def test_the_report_tells_of_queued_jobs() -> None:
    record, _ = queued_jobs()
    text = report.report(record, production().scaling.prices)
    assert "job ranking-0001 of research grew from 4 to 12 pods (8 at 12:00, 12 at 12:30)" in text
    assert "job ranking-0001 of research gave way with all its 12 pods" in text
    assert "job ranking-0001 of research came back with 4 of 12 pods" in text
    assert "At no moment did a job run more pods than it had quota for." in text
    assert len(text.splitlines()) < 70


# Guests of machines: those of the example, on the production stack, without the other work of the day


@functools.cache
def with_guests() -> Record:
    """Play the guests of the example day until three in the afternoon."""
    day = trace.read(ROOT / "examples" / "traces" / "day.yaml")
    alone = {"queues": {}, "pods": {}, "jobs": {}, "shortages": (), "lasts": 9 * HOUR}
    return play.play(production(), day.model_copy(update=alone), lambda _: None)


def guests(work: str) -> list[GuestLife]:
    return [each for each in with_guests().guests.lives if each.name.startswith(f"{work}-")]


def told(guest: GuestLife) -> list[str]:
    return [each.reason for each in with_guests().told if each.name == guest.name]


def waited(guest: GuestLife) -> float:
    return guest.wait.seconds(with_guests().ends_at)


@pytest.mark.accept("M15", part="in a day: a guest starts at once where another waits for an instance")
def test_a_guest_starts_at_once_where_room_is_held_and_waits_for_an_instance_where_it_is_not() -> None:
    (early,) = guests("early-bird")
    assert not early.is_room_held
    assert 45 < waited(early) < 120
    assert told(early)[0] == "NoMachineNode"
    later = [*guests("notebook"), *guests("analyst")]
    assert {each.machine.type for each in later} == {"small", "large"}
    assert all(each.is_room_held for each in later)
    assert max(map(waited, later)) < 3
    assert all("MachinePromised" in told(each) for each in later)


@pytest.mark.accept("M14", part="in a day: one guest beyond the maximum waits and is told")
def test_one_guest_more_than_there_are_machines_waits_until_another_has_ended_and_is_told() -> None:
    course = guests("course")
    assert len(course) == 5
    (last,) = (each for each in course if not each.is_room_held)
    assert "AllMachinesUsed" in told(last)
    first_end = min(each.began_at + 40 * 60 for each in course if each.began_at is not None and each is not last)
    assert last.began_at is not None
    assert last.began_at >= first_end
    assert [each for each in course if each is not last and waited(each) > 3] == []


def test_all_machines_are_used_and_never_more() -> None:
    seen = with_guests().guests
    assert {each.machine.type: (each.most_used, each.maximum) for each in seen.uses}["small"] == (4, 4)
    assert seen.beyond_maximum == 0


def test_two_instances_hold_the_room_all_day() -> None:
    holding = [one for one in with_guests().instances if one.key.pool == "notebooks"]
    assert len(holding) == 2
    assert [one.ended_at for one in holding] == [None, None]
    assert set(with_guests().pods_by_pool) == {"notebooks"}


def test_no_alert_about_machines_is_due() -> None:
    """What the alert rules ask for never holds for as long as they ask."""
    after = {alert.name: kubelet.duration(alert.after) for alert in alert_rules.ALERTS}
    for guest in with_guests().guests.lives:
        is_full = "AllMachinesUsed" in told(guest)
        name = "SluiceAllMachinesUsed" if is_full else "SluiceGuestsWaitThoughMachinesAreFree"
        assert waited(guest) < after[name]
    said = [each for each in with_guests().told if each.reason in {"RoomMissing", "RoomHeld"}]
    assert said[-1].reason == "RoomHeld"
    missing = [then.at - one.at for one, then in itertools.pairwise(said) if one.reason == "RoomMissing"]
    assert 0 < max(missing) < after["SluiceMachineRoomMissing"]


def test_the_report_tells_of_guests() -> None:
    text = report.report(with_guests(), production().scaling.prices)
    assert "MACHINES: how long guests waited until they ran" in text
    assert "Why: all 4 machines of type small are taken by guests" in " ".join(text.split())
    assert "At no moment were more machines given or held than there are." in text


@pytest.mark.parametrize(
    ("stack_file", "trace_file", "want"),
    [
        ("nowhere.yaml", "examples/traces/day.yaml", "nowhere.yaml"),
        ("stacks/Pulumi.local.yaml", "stacks/Pulumi.local.yaml", "the trace is wrong:\n  starts: Field required"),
        ("stacks/Pulumi.local.yaml", "examples/traces/day.yaml", "jobs.ranking.queue: the stack has no LocalQueue"),
        (
            "stacks/Pulumi.local.yaml",
            "examples/traces/day.yaml",
            "guests.notebook.type: the stack has no machine type small of group notebooks (it has: small of desk)",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(
    stack_file: str, trace_file: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["simulate", "--stack", str(ROOT / stack_file), "--trace", str(ROOT / trace_file)]) == 1
    assert want in capsys.readouterr().err


def test_a_program_reads_what_came_of_a_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "day.json"  # which is YAML
    file.write_text(json.dumps({"starts": MORNING["starts"], "lasts": "2m", "queues": {}}))
    assert command.main(["simulate", "--stack", str(LOCAL), "--trace", str(file), "--output", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [each["pool"] for each in said["pools"]] == ["services"]
    (target,) = said["targets"]
    assert (target["scope"], target["pool"], target["targetSeconds"], target["pods"]) == ("research", "workers", 60, 0)


@pytest.mark.accept("U2")
def test_a_change_of_a_stack_is_compared_with_what_was_before_and_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the limit: less is spent at once, and the second half of the work waits for the first."""
    changed, file = tmp_path / "Pulumi.local.yaml", tmp_path / "day.yaml"
    text, limit = LOCAL.read_text(), "maxActiveInstances: 10, maxIdleSeconds: 60"
    assert text.count(limit) == 1
    changed.write_text(text.replace(limit, "maxActiveInstances: 1, maxIdleSeconds: 60"))
    work = {"namespace": "research", "requests": {"cpu": "3"}, "takes": ["5m", "5m"]}
    crowd = {
        **work,
        "nodeSelector": {keys.INSTANCE_POOL: "workers"},
        "arrive": [{"from": "06:01", "to": "06:01", "count": 8}],
    }
    file.write_text(json.dumps({"starts": MORNING["starts"], "lasts": "20m", "pods": {"crowd": crowd}}))
    asked = ["simulate", "--stack", str(changed), "--against", str(LOCAL), "--trace", str(file)]

    def said(*flags: str) -> str:
        assert command.main([*asked, *flags]) == 0
        return capsys.readouterr().out

    table = said("--format", "markdown")
    assert table == said("--format", "markdown")
    both = json.loads(said("--format", "json"))
    (before,), (after,) = both["before"]["work"], both["after"]["work"]
    assert before["stillWaiting"] == 0 < before["worstSeconds"] < 120 < after["worstSeconds"]
    pools = [{pool["pool"]: pool for pool in each["pools"]}["workers"] for each in (both["before"], both["after"])]
    assert pools[0]["instances"] > pools[1]["instances"] == 1
    assert f"| workers | {pools[0]['instances']} → 1 |" in table
    assert "| research | workers | 1 min |" in table
    assert " → missed |" in table
    assert "HOW LONG WORK WAITED UNTIL IT RAN" in said()
