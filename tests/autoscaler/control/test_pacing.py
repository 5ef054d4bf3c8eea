"""What changed is handed out once, not too soon after the last time, and not before it is due."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.control.pacing import Pacer
from tests.autoscaler.admission.manual_clock import ManualClock


def test_what_is_noted_twice_is_handed_out_once() -> None:
    pacer: Pacer[str] = Pacer(ManualClock(), 10)
    pacer.note("a")
    pacer.note("a")
    pacer.note("b")
    assert list(pacer.take()) == ["a", "b"]
    assert list(pacer.take()) == []
    assert pacer.next_at is None


def test_what_was_handed_out_a_moment_ago_waits() -> None:
    time = ManualClock()
    pacer: Pacer[str] = Pacer(time, 10)
    pacer.note("a")
    list(pacer.take())
    time.seconds = 3
    pacer.note("a")
    assert (list(pacer.take()), pacer.next_at) == ([], 10)
    time.seconds = 10
    assert list(pacer.take()) == ["a"]


def test_the_earlier_of_two_times_counts() -> None:
    time = ManualClock()
    pacer: Pacer[str] = Pacer(time, 1)
    pacer.note("a", at=60)
    pacer.note("a", at=5)
    pacer.note("a", at=30)
    assert pacer.next_at == 5
    time.seconds = 5
    assert list(pacer.take()) == ["a"]
    time.seconds = 100
    assert list(pacer.take()) == []


def test_what_is_left_over_stays_due() -> None:
    pacer: Pacer[str] = Pacer(ManualClock(), 10)
    for name in "abc":
        pacer.note(name)
    assert next(pacer.take()) == "a"
    assert list(pacer.take()) == ["b", "c"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 20), st.floats(0, 5)), max_size=40))
def test_nothing_is_handed_out_twice_within_the_pause_and_nothing_is_lost(
    notes: list[tuple[str, float, float]],
) -> None:
    time, last, noted = ManualClock(), dict[str, float](), set[str]()
    pacer: Pacer[str] = Pacer(time, 10)
    for name, at, pause in notes:
        pacer.note(name, at=at)
        noted.add(name)
        for taken in pacer.take():
            assert time.seconds - last.get(taken, float("-inf")) >= 10 - 0.001
            last[taken] = time.seconds
            noted.discard(taken)
        time.seconds += pause
    time.seconds += 1000
    assert set(pacer.take()) == noted
    time.seconds += 10
    list(pacer.take())
    assert not pacer._last
