"""Since when the cluster was followed without a gap, look by look."""

from types import SimpleNamespace
from typing import Any, cast

from autoscaler import control
from autoscaler.capacity import continuity
from autoscaler.kube import store


class Follower:
    """A runtime whose clock and state a test sets."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.held: str | None = None
        self.is_paused = False
        self.pods: store.Table[Any] = store.Table()
        clock = SimpleNamespace(now=lambda: self.time, monotonic=lambda: self.time)
        self.measure: Any = None
        context = SimpleNamespace(
            clock=clock,
            held_back=lambda: self.held,
            is_paused=lambda: self.is_paused,
            feed=lambda _: None,
            measure=lambda measure: setattr(self, "measure", measure),
        )
        self.continuity = continuity.Continuity(cast("control.ControllerContext", context), (self.pods,))

    def waits(self, *, after: float = 1.0) -> bool:
        """Let time pass, and tell whether nothing may be ended then."""
        self.time += after
        return self.continuity.settled_at() > self.time

    def breaks(self) -> None:
        """Let the watch break and be accepted again at once."""
        self.pods.cut_off()
        self.pods.found()

    def held_seconds(self) -> list[float]:
        (metric,) = self.measure()
        return [sample.value for sample in metric.samples]


def test_a_watch_that_broke_and_came_back_between_two_looks_was_not_away() -> None:
    follower = Follower()
    assert not follower.waits()
    follower.breaks()
    assert not follower.waits()
    follower.breaks()
    assert not follower.waits(after=10)


def test_a_watch_that_is_back_within_two_seconds_was_not_away() -> None:
    follower = Follower()
    follower.waits()
    follower.pods.cut_off()
    assert not follower.waits()
    assert not follower.waits(after=1.9)
    assert follower.waits(after=0.1)
    follower.pods.found()
    assert follower.waits()
    assert follower.waits(after=58)
    assert not follower.waits(after=2)


def test_a_watch_that_breaks_again_within_ten_seconds_was_not_back() -> None:
    follower = Follower()
    follower.waits()
    follower.breaks()
    assert not follower.waits()
    follower.breaks()
    assert follower.waits(after=9.9)
    assert follower.waits(after=59)
    assert not follower.waits(after=1)


def test_one_that_breaks_twice_between_two_looks_was_not_back_either() -> None:
    follower = Follower()
    follower.waits()
    follower.breaks()
    follower.breaks()
    assert follower.waits(after=0.5)


def test_a_list_that_had_to_be_made_anew_is_a_gap() -> None:
    follower = Follower()
    follower.pods.replace((), 1)
    assert not follower.waits()
    follower.pods.replace((), 2)
    assert follower.waits()
    assert not follower.waits(after=60)


def test_for_how_long_nothing_may_be_ended_is_measured_by_who_acts() -> None:
    follower = Follower()
    follower.waits()
    assert follower.held_seconds() == [0]
    follower.pods.replace((), 1)
    follower.waits()
    follower.waits(after=50)
    assert follower.held_seconds() == [50]
    follower.pods.replace((), 2)
    follower.waits(after=50)
    assert follower.held_seconds() == [100]
    follower.waits(after=60)
    assert follower.held_seconds() == [0]
    follower.held = "NotLeading"
    assert follower.held_seconds() == []


def test_a_watch_that_fails_again_and_again_is_one_cut_until_it_says_something() -> None:
    follower = Follower()
    follower.waits()
    follower.pods.cut_off()
    follower.waits()
    for _ in range(3):
        follower.pods.cut_off()
        assert follower.waits(after=61)
    assert follower.pods.cuts == 1
    follower.pods.found()
    assert follower.waits()
    assert not follower.waits(after=60)


def test_who_may_not_act_is_away_unless_paused() -> None:
    follower = Follower()
    follower.waits()
    follower.held, follower.is_paused = "Paused", True
    assert not follower.waits()
    follower.held, follower.is_paused = "NotLeading", False
    assert follower.waits()
    follower.held = None
    assert follower.waits()


def test_what_was_before_we_ever_acted_is_no_gap() -> None:
    follower = Follower()
    follower.held = "starting"
    follower.waits()
    follower.pods.cut_off()
    follower.pods.found()
    follower.held = None
    assert not follower.waits()
