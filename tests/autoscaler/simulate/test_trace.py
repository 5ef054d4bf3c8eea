"""A trace is read strictly: what is wrong is named, and the same seed gives the same day."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from autoscaler.simulate import arrivals, manifests, trace

WORK: dict[str, Any] = {
    "namespace": "builds",
    "requests": {"cpu": "1"},
    "takes": ["1m", "1h30m"],
    "arrive": [{"from": "23:00", "to": "01:00", "count": 50}],
}
DAY: dict[str, Any] = {
    "starts": "2026-06-30T06:00:00Z",
    "queues": {"compile": {**WORK, "poolCapacity": 3}},
    "pods": {"training": WORK},
}


def test_times_and_durations_are_understood() -> None:
    day = trace.parse(DAY)
    assert day.queues["compile"].takes == (60.0, 5400.0)
    assert day.after_start(6 * 3600) == 0
    assert day.after_start(5 * 3600) == 23 * 3600


JOB: dict[str, Any] = {**WORK, "queue": "default", "parallelism": 4}


def jobs(**fields: Any) -> dict[str, Any]:
    """Make a day with a queued job that comes between 23:00 and 01:00."""
    return {"jobs": {"ranking": {**JOB, **fields}}}


def test_a_queued_job_says_its_size_its_priority_and_its_resizes() -> None:
    resizes = [{"at": "02:00", "parallelism": 12}]
    given = jobs(completions=40, priorityClass="urgent", resizes=resizes)
    job = trace.parse({**DAY, **given, "priorityClasses": {"urgent": 1000}}).jobs["ranking"]
    assert (job.queue, job.parallelism, job.completions, job.priority_class) == ("default", 4, 40, "urgent")
    assert [(each.at, each.parallelism) for each in job.resizes] == [(2 * 3600, 12)]


GUEST: dict[str, Any] = {
    "namespace": "notebooks",
    "group": "notebooks",
    "type": "small",
    "takes": ["1m", "1h"],
    "arrive": [{"from": "07:00", "to": "07:00", "count": 2}],
}


def guests(**fields: Any) -> dict[str, Any]:
    return {"guests": {"notebook": {**GUEST, **fields}}}


def test_guests_say_which_machine_they_ask_for_and_come_like_other_work() -> None:
    day = trace.parse({**DAY, **guests()})
    guest = day.guests["notebook"]
    assert (guest.group, guest.type, guest.takes) == ("notebooks", "small", (60.0, 3600.0))
    came = [(each.number, each.after_seconds) for each in arrivals.arrivals(day) if each.name == "notebook"]
    assert came == [(1, 3600.0), (2, 3600.0)]


def queues(**fields: Any) -> dict[str, Any]:
    return {"queues": {"compile": {**WORK, "poolCapacity": 3, **fields}}}


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        (guests(type=None), "guests.notebook.type: Input should be a valid string"),
        (guests(requests={"cpu": "1"}), "guests.notebook.requests: Extra inputs are not permitted"),
        (guests(takes=["2m", "1m"]), "guests.notebook.takes: the shortest must not be longer than the longest"),
        ({"guests": {"compile": GUEST}}, "compile stands twice under queues, pods, jobs and guests"),
        ({"seeds": 3}, "seeds: Extra inputs are not permitted"),
        ({"starts": "2026-06-30T06:00:00"}, "starts: must say its zone"),
        ({"pods": {"training": {**WORK, "takes": ["1 minute", "2m"]}}}, "'1 minute' is not a duration such as 90s"),
        ({"pods": {"training": {**WORK, "takes": ["2m", "1m"]}}}, "the shortest must not be longer than the longest"),
        ({"shortages": [{"zone": "a", "from": 7, "to": "09:00"}]}, "must be a time of day in quotes, such as '07:30'"),
        ({"shortages": [{"zone": "a", "from": "07:61", "to": "09:00"}]}, "must be a time of day in quotes"),
        (jobs(parallelism=0), "jobs.ranking.parallelism: Input should be greater than or equal to 1"),
        (jobs(size=3), "jobs.ranking.size: Extra inputs are not permitted"),
        (jobs(queue="no queue"), "jobs.ranking.queue: String should match pattern"),
        (jobs(priorityClass="high"), "jobs.ranking.priorityClass: high is not among priorityClasses (there are: none)"),
        ({**jobs(priorityClass="high"), "priorityClasses": {"low": -1}}, "(there are: low)"),
        (jobs(resizes=[{"at": "22:00", "parallelism": 2}]), "jobs.ranking.resizes.0.at: none of these jobs has come"),
        (jobs(resizes=[{"at": "2", "parallelism": 2}]), "jobs.ranking.resizes.0.at: must be a time of day in quotes"),
        ({"jobs": {"compile": JOB}}, "compile stands twice under queues, pods, jobs and guests"),
        ({"pods": {"compile": WORK}}, "compile stands twice under queues, pods, jobs and guests"),
        ({"starts": "0001-01-01T00:00:00Z"}, "starts: must be in a year from 1970 to 2999"),
        ({"starts": "9999-12-31T23:59:00Z"}, "starts: must be in a year from 1970 to 2999"),
        ({"bootSeconds": float("inf")}, "bootSeconds: Input should be less than or equal to 86400"),
        (jobs(takes=[1, float("inf")]), "jobs.ranking.takes.1: Input should be less than or equal to 31622400"),
        (queues(interval="hourly"), "queues.compile.interval: must be HH:MM:SS, from 00:00:01 to 23:59:59"),
        (queues(idleTimeoutMinutes=10**20), "queues.compile.idleTimeoutMinutes: Input should be less than or equal to"),
        (queues(tolerations=[{"kye": "x"}]), "queues.compile.tolerations.0.kye: Extra inputs are not permitted"),
        (queues(tolerations=[{"key": "x", "effect": "No"}]), "queues.compile.tolerations.0.effect: Input should be"),
        ({"jobs": {"x" * 58: JOB}}, "String should have at most 57 characters"),
        (queues(arrive=[{"from": "07:00", "to": "08:00", "count": 1_000_000}]), "the day has 1,000,050 pieces of work"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(trace.TraceError, match="the trace is wrong") as caught:
        trace.parse({**DAY, **changes})
    assert want in str(caught.value)


def test_a_pods_tolerations_are_sent_as_they_were_written() -> None:
    given = [{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, {"operator": "Exists"}]
    work = trace.parse({**DAY, "pods": {"training": {**WORK, "tolerations": given}}}).pods["training"]
    assert manifests.pod("a", "training", work, 1)["spec"]["tolerations"] == given


def test_every_key_is_described() -> None:
    page = (Path(__file__).parents[3] / "docs" / "simulating.md").read_text()
    work = (trace.Work, trace.Queue, trace.QueuedJob, trace.Guest)
    parts = (trace.Trace, *work, trace.Resize, trace.Wave, trace.Shortage)
    known = {field.alias or to_camel(name) for part in parts for name, field in part.model_fields.items()}
    assert sorted(key for key in known if not re.search(rf"`[^`]*\b{key}\b[^`]*`", page)) == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(trace.TraceError, match=r"nowhere\.yaml cannot be read"):
        trace.read(tmp_path / "nowhere.yaml")


@given(st.integers(0, 1000))
def test_the_same_seed_gives_the_same_day_with_everything_in_its_window(seed: int) -> None:
    day = trace.parse({**DAY, "seed": seed})
    found = arrivals.arrivals(day)
    assert found == arrivals.arrivals(day)
    assert len(found) == 100
    assert sum(each.in_queue for each in found) == 50
    assert all(17 * 3600 <= each.after_seconds <= 19 * 3600 for each in found)
    assert all(60 <= each.takes_seconds <= 5400 for each in found)
    assert [each.after_seconds for each in found] == sorted(each.after_seconds for each in found)


def test_new_work_does_not_move_the_old() -> None:
    before = arrivals.arrivals(trace.parse(DAY))
    more = arrivals.arrivals(trace.parse({**DAY, "pods": {**DAY["pods"], "other": WORK}}))
    assert [each for each in more if each.name != "other"] == before


def test_what_is_wrong_is_told_with_its_line_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "day.yaml"
    file.write_text(
        """\
starts: 2026-06-30T06:00:00Z
pods:
  a:
    namespace: builds
    takes: [1m, 2m]
    requests: { cpu: "1" }
    arrive:
      - { from: "06:00", to: "07:00", count: 1 }
      - { from: "06:00", to: "25:00", count: -1 }
    nodeSelecto: {}
lasts: 3d
"""
    )
    with pytest.raises(trace.TraceError) as caught:
        trace.read(file)
    title, *lines = str(caught.value).splitlines()
    assert title == "the trace is wrong:"
    assert [line.partition(": ")[0] for line in lines] == ["  line 9", "  line 9", "  line 10", "  line 11"]
    assert "pods.a.arrive.1.to: must be a time of day in quotes" in lines[0]


def test_something_that_is_missing_is_told_with_the_line_around_it(tmp_path: Path) -> None:
    file = tmp_path / "day.yaml"
    file.write_text('starts: 2026-06-30T06:00:00Z\npods:\n  a:\n    namespace: builds\n    requests: { cpu: "1" }\n')
    with pytest.raises(trace.TraceError, match=r"  line 3: pods\.a\.takes: Field required"):
        trace.read(file)


@pytest.mark.parametrize("text", ["", "[]", "a: &a\n  b: *a\n", "\tx", "starts: [", "? [a]\n: b\n", "\xff\xfe"])
def test_a_file_that_is_no_trace_is_refused_and_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "day.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(trace.TraceError):
        trace.read(file)


TEN_EACH = [
    f"{after}: &{after} [{', '.join([f'*{name}'] * 10)}]" for name, after in zip("abcdef", "bcdefg", strict=True)
]
REPEATED = "\n".join(["a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", *TEN_EACH])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("starts: 2026-13-45T06:00:00Z\n", "has a number or a date that nobody can read; put it in quotes"),
        ("lasts: 5m\nlasts: 6m\n", "line 2, column 1"),
        ("pods:\n  a: {}\n  b: {}\n  a: {}\n", "the key a is there twice"),
        (REPEATED, "more than 1,000,000 values; do its anchors repeat each other?"),
        ("a: &a {b: *a}\n", "an anchor that holds itself"),
    ],
)
def test_yaml_that_loses_or_repeats_what_it_says_is_refused(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "day.yaml"
    file.write_text(text)
    with pytest.raises(trace.TraceError, match=re.escape(want)) as caught:
        trace.read(file)
    assert str(file) in str(caught.value)


def test_a_merged_map_may_be_changed_and_its_own_keys_are_found(tmp_path: Path) -> None:
    file = tmp_path / "day.yaml"
    base = "    namespace: builds\n    takes: [1m, 2m]\n    requests: { cpu: '4' }\n"
    file.write_text(f"starts: 2026-06-30T06:00:00Z\npods:\n  a: &a\n{base}  b:\n    <<: *a\n    takes: [3m, 1m]\n")
    with pytest.raises(trace.TraceError, match=r"line 9: pods\.b\.takes"):
        trace.read(file)
    file.write_text(file.read_text().replace("3m", "1m"))
    assert trace.read(file).pods["b"].takes == (60, 60)
