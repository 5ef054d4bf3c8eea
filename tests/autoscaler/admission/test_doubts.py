"""What was sent and not answered is in doubt until its Workload is seen to be another."""

import contextlib

import pytest

from autoscaler.admission import doubts, writes
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import On, Step, Write
from autoscaler.kube import port, store
from autoscaler.kube.writing import writer
from tests.autoscaler.admission.builders import NOW, workload
from tests.autoscaler.admission.manual_clock import ManualClock

UNANSWERED = port.UnreachableError("the connection broke")


def answer(status: int) -> port.ApiError:
    return port.ApiError(status, "", "no")


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table: store.Table[Workload] = store.Table()
        self.doubts = doubts.Doubts(self.clock, self.table)
        self.table.seen(workload("a", rv=3))

    def send(self, error: BaseException | None, *, step: Step = Step.ADMIT) -> None:
        """Send a write to the Workload, to which this is the answer."""
        stored = next(iter(self.table))
        with contextlib.suppress(BaseException), self.doubts.unless_answered(status(stored, step)):
            if error is not None:
                raise error

    @property
    def in_doubt(self) -> bool:
        return bool(self.doubts.fences())


def status(stored: Workload, step: Step) -> Write:
    return writes.patch_status(On.WORKLOAD, step, stored, {}, "")


@pytest.mark.parametrize("error", [UNANSWERED, answer(500), answer(504), KeyboardInterrupt()], ids=str)
def test_what_is_not_answered_is_in_doubt(error: BaseException) -> None:
    bench = Bench()
    bench.send(error)
    assert bench.in_doubt


@pytest.mark.parametrize("error", [None, answer(409), answer(499), writer.FencedError("not sent")], ids=str)
def test_what_is_answered_or_was_never_sent_is_not_in_doubt(error: BaseException | None) -> None:
    bench = Bench()
    bench.send(error)
    assert not bench.in_doubt
    assert bench.doubts.until is None


@pytest.mark.parametrize("step", Step)
def test_only_what_was_decided_on_a_sum_is_doubted(step: Step) -> None:
    bench = Bench()
    bench.send(UNANSWERED, step=step)
    assert bench.in_doubt == (step in {Step.ADMIT, Step.CLAIM, Step.EVICT})


def test_a_fence_demands_the_version_of_the_write_and_names_it_so_that_it_is_a_change_each_time() -> None:
    bench = Bench()
    bench.send(UNANSWERED)
    (fence,) = bench.doubts.fences()
    assert (fence.step, fence.on, fence.uid, fence.resource_version) == (Step.FENCE, On.WORKLOAD, "u-a", 3)
    assert "version 3" in str(fence.body["metadata"]["annotations"])


def test_a_workload_that_is_seen_to_be_another_settles_it() -> None:
    bench = Bench()
    bench.send(UNANSWERED)
    bench.table.seen(workload("a", rv=4))
    assert not bench.in_doubt
    assert bench.doubts.until is None


def test_a_workload_that_is_seen_to_be_gone_settles_it() -> None:
    bench = Bench()
    bench.send(UNANSWERED)
    bench.table.gone(workload("a", rv=4).meta)
    assert not bench.in_doubt


def test_another_workload_of_the_same_name_settles_it() -> None:
    bench = Bench()
    bench.send(UNANSWERED)
    bench.table.gone(workload("a", rv=3).meta)
    bench.table.seen(workload("a", uid="another", rv=3))
    assert not bench.in_doubt


@pytest.mark.parametrize(("error", "want"), [(UNANSWERED, 20.0), (answer(504), 20.0), (answer(500), 0.0)], ids=str)
def test_what_cannot_be_settled_is_overdue_when_it_must_have_ended(error: BaseException, want: float) -> None:
    bench = Bench()
    bench.clock.seconds = 5.0
    bench.send(error)
    assert bench.doubts.until == NOW + 5.0 + want
    bench.clock.seconds += want - 0.001
    assert not want or not bench.doubts.overdue()
    bench.clock.seconds += 0.001
    (overdue,) = bench.doubts.overdue()
    assert bench.in_doubt
    bench.doubts.forget([overdue])
    assert not bench.in_doubt
