"""Two days side by side: what changed is told as before and after, what did not is told once."""

from typing import Any

import pytest

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PriceList
from autoscaler.simulate.observation.job_record import QueuedJobs, StepKind
from autoscaler.simulate.observation.record import Record, Target
from autoscaler.simulate.observation.waits import PodWait, Wait
from autoscaler.simulate.reporting import comparison, document
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import HOUR, START, instance

PRICES = PriceList(hourly={"m7i.4xlarge": {CapacityType.SPOT: "0.5"}})


def day(record: Record, prices: PriceList = PRICES) -> dict[str, Any]:
    return document.document(record, prices)


def rows(text: str, title: str) -> list[list[str]]:
    """Return the rows of a table in markdown."""
    _, found, rest = text.partition(f"#### {title}\n\n")
    assert found, text
    lines = rest.partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


BEFORE = records.record(
    instances=(instance("1", 0, 4 * HOUR), instance("2", 0, 2 * HOUR, group="gpu.a")),
    waits=(records.waits(10, 20), records.waits(0, work="docs")),
    pods_by_pool={"spot": 2},
)
AFTER = records.record(
    instances=(instance("1", 0, 2 * HOUR), instance("2", 0, 1 * HOUR)),
    waits=(records.waits(10, 90), records.waits(0, work="docs")),
    pods_by_pool={"spot": 2},
)


@pytest.mark.accept("U2", part="the table: cost, nodes and waits, before and after")
def test_what_changed_is_told_as_before_and_after_and_what_did_not_once() -> None:
    said = comparison.markdown(day(BEFORE), day(AFTER))
    assert said.splitlines()[0] == "**USD 3.00 → 1.50 (-50.0 %)**"
    assert "- 2 instances started, at most 2 at once" in said
    assert rows(said, "Pools") == [
        ["spot", "1 → 2", "4.0 → 3.0", "2.00 → 1.50", "2"],
        ["gpu", "1 → -", "2.0 → -", "1.00 → -", "0 → -"],
    ]
    assert rows(said, "How long work waited until it ran") == [
        ["compile", "builds", "2", "10 s", "20 s → 1 min 30 s", "20 s → 1 min 30 s", "0"],
        ["docs", "builds", "1", "0 s", "0 s", "0 s", "0"],
    ]


def test_work_that_never_ran_is_the_first_thing_told() -> None:
    stranded = records.record(waits=(records.waits(10, None, None),))
    first, second, *_ = comparison.text(day(BEFORE), day(stranded)).splitlines()
    assert first == "0 → 2 jobs and pods never ran"
    assert second == "compile: 0 → 2 never ran"


def test_two_days_alike_have_no_arrow() -> None:
    for write in (comparison.text, comparison.markdown):
        assert "→" not in write(day(AFTER), day(AFTER))


def test_targets_queued_jobs_and_guests_are_compared_too() -> None:
    def with_waits(seconds: float) -> Record:
        pod = PodWait(scope="builds", pool="spot", wait=Wait(came_at=START, began_at=START + seconds))
        admitted = records.step(StepKind.ADMITTED, seconds, 0, 1)
        return records.record(
            targets=(Target(scope="builds", pool="spot", seconds=60),),
            pods=(pod,),
            queued=QueuedJobs(lives=(records.job(admitted),)),
            guests=records.guests(records.guest(waited=seconds)),
        )

    said = comparison.markdown(day(with_waits(30)), day(with_waits(300)))
    assert "- 0 → 1 of 1 target latencies missed" in said
    assert rows(said, "Target latencies") == [
        ["builds", "spot", "1 min", "30 s → 5 min", "30 s → 5 min", "0 → 1", "met → missed"]
    ]
    assert rows(said, "How long queued jobs waited for quota")[0][:4] == [
        "ranking",
        "research/training",
        "1",
        "30 s → 5 min",
    ]
    assert rows(said, "How long guests waited for a machine")[0][:4] == ["notebooks", "small", "1", "30 s → 5 min"]


def test_example_prices_and_another_currency_are_told() -> None:
    other = PriceList(currency="EUR", example=True, hourly=PRICES.hourly)
    assert "USD → EUR 1.50 (example prices)" in comparison.text(day(AFTER), day(AFTER, other))
