"""What keeps a write from being sent, and in which order it is asked."""

import pytest
import structlog

from autoscaler.kube import port
from autoscaler.kube.writing import writer
from autoscaler.runtime import fence

REQUEST = port.Request(method="POST", path="/api/v1/pods", timeout_seconds=10)


def made(*remaining: float, paused: bool = False, observe: bool = False) -> fence.Fence:
    left = list(remaining)
    return fence.Fence(remaining=lambda: left.pop(0), is_paused=lambda: paused, observe=observe)


def test_a_call_may_not_take_longer_than_we_lead() -> None:
    assert made(3.0).check(REQUEST) == 3.0
    assert made(30.0).check(REQUEST) == 10.0


def test_the_time_left_is_asked_once() -> None:
    assert made(1.0, 0.0).check(REQUEST) == 1.0


@pytest.mark.parametrize(
    ("fenced", "want"),
    [
        (made(0.0, observe=True, paused=True), fence.Closed.NOT_LEADING),
        (made(1.0, observe=True, paused=True), fence.Closed.PAUSED),
        (made(1.0, observe=True), fence.Closed.OBSERVING),
        (made(1.0), None),
    ],
)
def test_an_observer_too_must_lead_and_can_be_paused(fenced: fence.Fence, want: fence.Closed | None) -> None:
    assert fenced.closed() == want


def test_refused_and_observed_are_told_apart() -> None:
    with pytest.raises(writer.FencedError):
        made(0.0).check(REQUEST)
    with pytest.raises(writer.ObservedError):
        made(1.0, observe=True).check(REQUEST)


def test_an_observer_says_what_it_would_write_but_not_a_thousand_times() -> None:
    now = [0.0]
    fenced = fence.Fence(remaining=lambda: 1.0, is_paused=lambda: False, observe=True, monotonic=lambda: now[0])
    with structlog.testing.capture_logs() as logged:
        for second in range(25):
            now[0] = float(second)
            for number in range(100):
                with pytest.raises(writer.ObservedError):
                    fenced.check(port.Request(method="PATCH", path=f"/api/v1/namespaces/n/pods/p-{number}"))
    assert [entry["alike_since"] for entry in logged] == [0, 999, 999]


def test_acts_outside_of_the_api_server_stand_behind_the_same_fence() -> None:
    assert made(1.0).permits("grow")
    assert not made(1.0, observe=True).permits("grow")
    with pytest.raises(writer.FencedError, match="grow: not done: NotLeading"):
        made(0.0).permits("grow")
