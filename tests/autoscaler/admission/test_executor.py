"""How writes are carried out: at once, one by one, and refused ones less and less often."""

import asyncio
from typing import Any, cast

import pytest

from autoscaler import control
from autoscaler.admission import doubts, executor
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.writes import On, Step, Verb, Write
from autoscaler.kube import objects, port, store, writer
from tests.autoscaler.admission.manual_clock import ManualClock


class Writes:
    """A writer that remembers what it is told, and refuses what a test says."""

    def __init__(self, clock: ManualClock) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self.refusals: dict[str, Exception] = {}
        """By the object's name."""
        self.seconds = 0.0
        """How long a refusal takes."""
        self.at_once = 0
        self._under_way = 0
        self._clock = clock

    async def create(self, _: Any, body: Any, **more: Any) -> None:
        assert more == {"attempts": 1}
        await self._do("create", body["metadata"]["name"], body)

    async def patch(self, _: Any, key: objects.Key, body: Any, **more: Any) -> None:
        await self._do(f"patch {more.get('subresource', '')}".strip(), key.name, (body, more["only_if"]))

    async def delete(self, _: Any, key: objects.Key, **more: Any) -> None:
        await self._do("delete", key.name, more["only_if"])

    async def _do(self, verb: str, name: str, what: Any) -> None:
        self.told.append((verb, name, what))
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        if name in self.refusals:
            self._clock.seconds += self.seconds
            raise self.refusals[name]


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.writes = Writes(self.clock)
        context = cast("control.ControllerContext", _Context(self.clock, self.writes))
        kind = BatchJob()
        targets = cast("Any", dict.fromkeys(On))
        self.doubts = doubts.Doubts(self.clock, store.Table())
        self.executor = executor.Executor(context, targets, {"Job": (kind, cast("Any", None))}, self.doubts)

    def carry_out(self, *writes: Write) -> executor.Outcomes:
        return asyncio.run(self.executor.carry_out(writes))

    def names(self) -> list[str]:
        found = [name for _, name, _ in self.writes.told]
        self.writes.told.clear()
        return found


class _Context:
    def __init__(self, clock: ManualClock, writes: Writes) -> None:
        self.clock = clock
        self.writer = writes


def write(name: str = "p0", step: Step = Step.OPEN, verb: Verb = Verb.PATCH, on: On = On.POD, **more: Any) -> Write:
    body: dict[str, Any] = {"metadata": {"name": name}, **more.pop("body", {})}
    return Write(step=step, on=on, verb=verb, key=objects.Key("team", name), uid=f"u-{name}", body=body, why="", **more)


def refusal(status: int) -> port.ApiError:
    return port.ApiError(status, "Refused", "no")


# What is sent


@pytest.mark.parametrize(
    ("verb", "want"),
    [
        (Verb.CREATE, "create"),
        (Verb.PATCH, "patch"),
        (Verb.PATCH_STATUS, "patch status"),
        (Verb.DELETE, "delete"),
    ],
)
def test_each_verb_is_sent_as_such(verb: Verb, want: str) -> None:
    bench = Bench()
    outcomes = bench.carry_out(write(verb=verb, resource_version=7))
    ((said, name, what),) = bench.writes.told
    assert (said, name) == (want, "p0")
    assert len(outcomes.done) == 1
    if verb is not Verb.CREATE:
        only_if = what if verb is Verb.DELETE else what[1]
        assert only_if == writer.Precondition(uid="u-p0", resource_version=7)
    if verb is Verb.PATCH_STATUS:
        assert what[0] == {"status": {"metadata": {"name": "p0"}}}


def test_a_job_is_suspended_as_its_kind_says() -> None:
    bench = Bench()
    bench.carry_out(write("job", Step.SUSPEND, on=On.JOB, kind="Job", body={"suspend": True}))
    assert bench.writes.told[0][2][0] == {"spec": {"suspend": True}}


def test_so_many_of_one_sort_are_under_way_at_once() -> None:
    bench = Bench()
    bench.carry_out(*(write(f"p{number}") for number in range(100)))
    assert bench.writes.at_once == executor.AT_ONCE
    assert len(bench.names()) == 100


# What is refused


def test_what_is_refused_is_tried_again_less_and_less_often() -> None:
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(500)
    tried = 0
    for _ in range(3000):
        outcomes = bench.carry_out(write())
        tried += len(outcomes.refused)
        assert len(outcomes.refused) + len(outcomes.put_off) == 1
        bench.clock.seconds += 0.1
    assert 10 <= tried <= 14
    due = bench.executor.due_at(write())
    assert due is not None
    assert bench.clock.seconds < due <= bench.clock.seconds + 60


def test_a_refusal_that_took_long_counts_twice() -> None:
    def pause(seconds: float) -> float:
        bench = Bench()
        bench.writes.refusals["p0"] = port.UnreachableError("silence")
        bench.writes.seconds = seconds
        bench.carry_out(write())
        return (bench.executor.due_at(write()) or 0.0) - bench.clock.seconds

    assert pause(0.0) == pytest.approx(0.2)
    assert pause(10.0) == pytest.approx(0.6)


def test_a_success_begins_anew() -> None:
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(500)
    bench.carry_out(write())
    bench.clock.seconds += 1
    bench.writes.refusals.clear()
    assert bench.carry_out(write()).done
    assert bench.executor.due_at(write()) is None


def test_each_object_and_step_has_a_time_of_its_own() -> None:
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(500)
    bench.carry_out(write())
    assert bench.executor.due_at(write()) is not None
    assert bench.executor.due_at(write("p1")) is None
    assert bench.executor.due_at(write(step=Step.TOUCH)) is None


def test_a_few_refusals_in_a_row_put_off_the_rest_of_their_sort_for_seconds() -> None:
    bench = Bench()
    names = [f"p{number}" for number in range(100)]
    bench.writes.refusals = dict.fromkeys(names, refusal(403))
    outcomes = bench.carry_out(*map(write, names))
    assert executor.REFUSED_MAX <= len(outcomes.refused) <= executor.AT_ONCE + executor.REFUSED_MAX
    assert len(outcomes.refused) + len(outcomes.put_off) == 100
    assert bench.executor.due_at(write("new")) == pytest.approx(bench.clock.seconds + 0.2)
    for _ in range(20):
        bench.clock.seconds += 61
        bench.carry_out(*map(write, names))
    due = bench.executor.due_at(write("new"))
    assert due is not None
    assert due - bench.clock.seconds <= 5.0


def test_those_that_were_refused_before_come_last() -> None:
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(500)
    bench.carry_out(write("p0"))
    bench.clock.seconds += 1
    bench.names()
    bench.carry_out(write("p0"), write("p1"), write("p2"))
    assert bench.names() == ["p1", "p2", "p0"]


def test_single_refusals_among_successes_stop_nothing() -> None:
    bench = Bench()
    names = [f"p{number}" for number in range(100)]
    bench.writes.refusals = {name: refusal(409) for name in names[::7]}
    outcomes = bench.carry_out(*map(write, names))
    assert outcomes.put_off == []


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


def test_nothing_more_is_sent_once_we_may_not_act() -> None:
    bench = Bench()
    names = [f"p{number}" for number in range(100)]
    bench.writes.refusals = dict.fromkeys(names, writer.FencedError())
    with pytest.raises(writer.FencedError):
        bench.carry_out(*map(write, names))
    assert len(bench.names()) <= executor.AT_ONCE
    bench.writes.refusals.clear()
    assert bench.carry_out(write()).done  # once we may again
