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
        context = SimpleNamespace(
            clock=clock, held_back=lambda: self.held, is_paused=lambda: self.is_paused, feed=lambda _: None
        )
        self.continuity = continuity.Continuity(cast("control.ControllerContext", context), (self.pods,))

    def waits(self, *, after: float = 1.0) -> bool:
        """Let time pass, and tell whether nothing may be ended then."""
        self.time += after
        return self.continuity.settled_at() > self.time


def test_a_watch_that_broke_and_came_back_between_two_looks_is_a_gap() -> None:
    follower = Follower()
    assert not follower.waits()
    follower.pods.cut_off()
    follower.pods.found()
    assert follower.waits()
    assert follower.waits(after=58)
    assert not follower.waits(after=2)


def test_a_watch_that_fails_again_and_again_is_one_cut_until_it_says_something() -> None:
    follower = Follower()
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
