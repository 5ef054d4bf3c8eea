"""How writes are carried out: at once, one by one, and refused ones less and less often."""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from autoscaler.control import executor, writes
from autoscaler.control.writes import Verb
from autoscaler.kube import objects, port
from autoscaler.kube.writing import writer
from tests.autoscaler.admission.manual_clock import ManualClock
from tests.autoscaler.control.refusing_writer import RefusingWriter, refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    key: objects.Key
    uid: str
    body: Mapping[str, Any]
    verb: Verb = Verb.PATCH
    step: str = "open"
    on: str = "pod"
    resource_version: int | None = None

    @property
    def sort(self) -> Hashable:
        return self.step, self.verb, self.on


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.writes = RefusingWriter(self.clock)
        self.executor = executor.Executor(self.clock, self._send)

    def carry_out(self, *chosen: Write) -> executor.Outcomes[Write]:
        return asyncio.run(self.executor.carry_out(chosen))

    def names(self) -> list[str]:
        found = [name for _, name, _ in self.writes.told]
        self.writes.told.clear()
        return found

    async def _send(self, write: Write) -> None:
        await writes.send(cast("writer.Writer", self.writes), cast("Any", None), write)


def write(name: str = "p0", **more: Any) -> Write:
    return Write(key=objects.Key("team", name), uid=f"u-{name}", body={"metadata": {"name": name}}, **more)


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
    bench.writes.refusals["p0"] = refusal(500)
    bench.carry_out(write())
    assert bench.executor.due_at(write()) == pytest.approx(bench.clock.seconds + 0.2)


def test_each_object_and_step_has_a_time_of_its_own() -> None:
    bench = Bench()
    bench.writes.refusals["p0"] = refusal(500)
    bench.carry_out(write())
    assert bench.executor.due_at(write()) is not None
    assert bench.executor.due_at(write("p1")) is None
    assert bench.executor.due_at(replace(write(), uid="another-of-that-name")) is None
    assert bench.executor.due_at(write(step="touch")) is None


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


def test_what_is_refused_with_its_sort_waits_for_the_later_of_both_times() -> None:
    bench = Bench()
    names = [f"p{number}" for number in range(executor.REFUSED_MAX)]
    bench.writes.refusals = dict.fromkeys(names, refusal(403))
    bench.carry_out(*map(write, names[:-1]))
    assert bench.executor.due_at(write("new")) is None
    bench.clock.seconds += 1
    bench.carry_out(*map(write, names))
    pauses = [(bench.executor.due_at(write(name)) or 0.0) - bench.clock.seconds for name in ("new", "p0")]
    assert pauses == [pytest.approx(0.2), pytest.approx(0.6)]


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


def test_nothing_more_is_sent_once_we_may_not_act() -> None:
    bench = Bench()
    names = [f"p{number}" for number in range(100)]
    bench.writes.refusals = dict.fromkeys(names, writer.FencedError())
    with pytest.raises(writer.FencedError):
        bench.carry_out(*map(write, names))
    assert len(bench.names()) <= executor.AT_ONCE
    bench.writes.refusals.clear()
    assert bench.carry_out(write()).done  # once we may again
