"""A mapping that was handed out says for ever what was true then."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import overlay

ENTRY = st.tuples(st.integers(0, 9), st.none() | st.integers())


@given(st.lists(ENTRY, max_size=40), st.integers(0, 5))
def test_what_was_handed_out_is_a_copy_of_what_was_there(history: list[tuple[int, int | None]], copied: int) -> None:
    current: dict[int, int] = {}
    handed = overlay.Overlaid(current, copied)
    seen = []
    for key, value in history:
        current.pop(key, None)
        if value is not None:
            current[key] = value
        handed.note(key)
        seen.append((handed.snapshot(), dict(current)))
    for got, want in seen:
        assert dict(got) == want
        assert len(got) == len(want)
        assert sorted(got.values()) == sorted(want.values())
        assert [got.get(key) for key in range(10)] == [want.get(key) for key in range(10)]


def test_while_nothing_changes_it_is_the_same_object() -> None:
    current = {1: 1}
    handed = overlay.Overlaid(current, 0)
    first = handed.snapshot()
    assert handed.snapshot() is first
    current[2] = 2
    handed.note(2)
    assert handed.snapshot() is not first
