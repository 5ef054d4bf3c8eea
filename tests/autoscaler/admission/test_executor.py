"""Where admission's writes go, and what is remembered of pods' gates."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from autoscaler import control
from autoscaler.admission import doubts, executor
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.writes import On, Step, Write
from autoscaler.control.writes import Verb
from autoscaler.kube import objects, store
from tests.autoscaler.admission.manual_clock import ManualClock
from tests.autoscaler.control.refusing_writer import RefusingWriter, refusal


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.writes = RefusingWriter(self.clock)
        context = cast("control.ControllerContext", _Context(self.clock, self.writes))
        targets = cast("Any", dict.fromkeys(On))
        unanswered = doubts.Doubts(self.clock, store.Table())
        self.executor = executor.Executor(context, targets, {"Job": (BatchJob(), cast("Any", None))}, unanswered)

    def carry_out(self, *writes: Write) -> executor.Outcomes:
        return asyncio.run(self.executor.carry_out(writes))


@dataclass(frozen=True, slots=True)
class _Context:
    clock: ManualClock
    writer: RefusingWriter


def write(name: str = "p0", step: Step = Step.OPEN, on: On = On.POD, kind: str = "", body: Any = None) -> Write:
    key = objects.Key("team", name)
    return Write(step=step, on=on, verb=Verb.PATCH, key=key, kind=kind, uid=f"u-{name}", body=body or {}, why="")


def test_a_job_is_suspended_and_resumed_as_its_kind_says() -> None:
    bench = Bench()
    for is_suspended in (True, False):
        bench.carry_out(write("job", Step.SUSPEND, on=On.JOB, kind="Job", body={"suspend": is_suspended}))
    assert [what[0] for _, _, what in bench.writes.told] == [{"spec": {"suspend": each}} for each in (True, False)]


# Gates that will not open


@pytest.mark.parametrize(
    ("status", "step", "want"),
    [
        (422, Step.OPEN, True),
        (400, Step.OPEN, True),
        (403, Step.OPEN, False),
        (404, Step.OPEN, False),
        (409, Step.OPEN, False),
        (429, Step.OPEN, False),
        (500, Step.OPEN, False),
        (422, Step.WITHDRAW, False),
    ],
)
def test_a_gate_is_given_up_after_refusals_that_are_about_the_pod(status: int, step: Step, want: bool) -> None:  # noqa: FBT001
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(status)
    for attempt in range(executor.FOR_GOOD):
        assert "u-p0" not in bench.executor.refused_for_good, attempt
        bench.carry_out(write(step=step))
        bench.clock.seconds += 10
    assert ("u-p0" in bench.executor.refused_for_good) is want


def test_a_pod_counts_as_touched_until_it_is_tried_to_be_opened_again() -> None:
    bench = Bench()
    bench.carry_out(write(step=Step.TOUCH))
    assert "u-p0" in bench.executor.touched
    bench.carry_out(write(step=Step.OPEN))
    assert "u-p0" not in bench.executor.touched
