"""A trace is read strictly: what is wrong is named, and the same seed gives the same day."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.rehearsal import arrivals, trace

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


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"seeds": 3}, "seeds: Extra inputs are not permitted"),
        ({"starts": "2026-06-30T06:00:00"}, "starts: must say its zone"),
        ({"pods": {"training": {**WORK, "takes": ["1 minute", "2m"]}}}, "'1 minute' is not a duration such as 90s"),
        ({"pods": {"training": {**WORK, "takes": ["2m", "1m"]}}}, "the shortest must not be longer than the longest"),
        ({"shortages": [{"zone": "a", "from": 7, "to": "09:00"}]}, "must be a time of day in quotes, such as '07:30'"),
        ({"shortages": [{"zone": "a", "from": "07:61", "to": "09:00"}]}, "must be a time of day in quotes"),
        ({"pods": {"compile": WORK}}, "compile is both a queue and a kind of pods"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(trace.TraceError, match="the trace is wrong") as caught:
        trace.parse({**DAY, **changes})
    assert want in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(trace.TraceError, match=r"nowhere\.yaml cannot be read"):
        trace.read(tmp_path / "nowhere.yaml")


@given(st.integers(0, 1000))
def test_the_same_seed_gives_the_same_day_with_everything_in_its_window(seed: int) -> None:
    day = trace.parse({**DAY, "seed": seed})
    found = arrivals.arrivals(day)
    assert found == arrivals.arrivals(day)
    assert len(found) == 100
    assert sum(each.is_job for each in found) == 50
    assert all(17 * 3600 <= each.after_seconds <= 19 * 3600 for each in found)
    assert all(60 <= each.takes_seconds <= 5400 for each in found)
    assert [each.after_seconds for each in found] == sorted(each.after_seconds for each in found)


def test_new_work_does_not_move_the_old() -> None:
    before = arrivals.arrivals(trace.parse(DAY))
    more = arrivals.arrivals(trace.parse({**DAY, "pods": {**DAY["pods"], "other": WORK}}))
    assert [each for each in more if each.name != "other"] == before
