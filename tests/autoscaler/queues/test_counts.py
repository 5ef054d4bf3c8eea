"""A number of jobs is whole and within range; everything else is an error, never a guess."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.queues import counts, port

WHERE = "the answer"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def read(body: bytes, field: str | None = None) -> int | port.Reason:
    try:
        return counts.from_body(body, field=field, where=WHERE)
    except port.QueueError as error:
        return error.reason


@pytest.mark.accept("W19")
@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"5", 5),
        (b"5\n", 5),
        (b" \r\n5 ", 5),
        (b"\xef\xbb\xbf5", 5),
        (b"5.0", 5),
        (b"1e2", 100),
        (b"-0", 0),
        (b"2147483647", counts.MAX),
        (b"2147483648", port.Reason.TOO_LARGE),
        (b"1e300", port.Reason.TOO_LARGE),
        (b"9" * 300, port.Reason.TOO_LARGE),
        (b"-1", port.Reason.NEGATIVE),
        (b"-1e300", port.Reason.NEGATIVE),
        (b"5.5", port.Reason.NOT_A_NUMBER),
        (b"NaN", port.Reason.NOT_A_NUMBER),
        (b"Infinity", port.Reason.NOT_A_NUMBER),
        (b"1e400", port.Reason.NOT_A_NUMBER),
        (b"true", port.Reason.NOT_A_NUMBER),
        (b"false", port.Reason.NOT_A_NUMBER),
        (b"null", port.Reason.NOT_A_NUMBER),
        (b'"5"', port.Reason.NOT_A_NUMBER),
        (b"[5]", port.Reason.NOT_A_NUMBER),
        (b'{"length":5}', port.Reason.NOT_A_NUMBER),
        (b"", port.Reason.NOT_A_NUMBER),
        (b"5 6", port.Reason.NOT_A_NUMBER),
        (b"05", port.Reason.NOT_A_NUMBER),
        (b"\xff\xfe5", port.Reason.NOT_A_NUMBER),
        (b"[" * 60_000, port.Reason.NOT_A_NUMBER),
        (b"9" * 60_000, port.Reason.NOT_A_NUMBER),
    ],
)
def test_a_bare_number(body: bytes, want: int | port.Reason) -> None:
    assert read(body) == want


@pytest.mark.parametrize(
    ("body", "field", "want"),
    [
        (b'{"a":{"b":5}}', "a.b", 5),
        (b'{"queues":[{"n":1},{"n":2}]}', "queues.1.n", 2),
        (b'{"0":{"n":3}}', "0.n", 3),
        (b'{"a":{"b":5}}', "a", port.Reason.NOT_A_NUMBER),
        (b'{"a":{"b":5}}', "a.c", port.Reason.NOT_A_NUMBER),
        (b'{"a":{"b":5}}', "a.b.c", port.Reason.NOT_A_NUMBER),
        (b'{"a":[5]}', "a.1", port.Reason.NOT_A_NUMBER),
        (b'{"a":[5]}', "a.-1", port.Reason.NOT_A_NUMBER),
        (b'{"a":-5}', "a", port.Reason.NEGATIVE),
        (b"5", "a", port.Reason.NOT_A_NUMBER),
    ],
)
def test_a_field(body: bytes, field: str, want: int | port.Reason) -> None:
    assert read(body, field) == want


def test_a_document_where_a_number_was_hoped_for_says_to_name_the_field() -> None:
    with pytest.raises(port.QueueError, match="name the field"):
        counts.from_body(b'{"length":5}', field=None, where=WHERE)


@pytest.mark.accept("W19")
@given(st.binary(max_size=200), st.none() | st.text(max_size=8))
def test_any_bytes_give_a_count_or_an_error(body: bytes, field: str | None) -> None:
    got = read(body, field)
    assert isinstance(got, port.Reason) or 0 <= got <= counts.MAX


@given(JSON)
def test_only_whole_numbers_in_range_are_counts(value: object) -> None:
    body = json.dumps(value).encode()
    whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value % 1 == 0
    want = int(value) if whole and 0 <= value <= counts.MAX else None  # type: ignore[call-overload,operator]
    got = read(body)
    assert (None if isinstance(got, port.Reason) else got) == want


@given(
    st.integers(min_value=0, max_value=counts.MAX), st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), min_size=1)
)
def test_a_number_is_found_at_any_depth(value: int, steps: list[str]) -> None:
    document: object = value
    for step in reversed(steps):
        document = {step: document, "other": None} if step != "other" else {step: document}
    assert read(json.dumps(document).encode(), ".".join(steps)) == value


@pytest.mark.accept("W19")
@pytest.mark.parametrize("text", ["", "NaN", "+Inf", "-Inf", "five", "1_0", "\u0665", "0.5", "5;"])
def test_text_that_is_no_count(text: str) -> None:
    with pytest.raises(port.QueueError, match=WHERE):
        counts.from_text(text, where=WHERE)


def test_text_as_prometheus_writes_it() -> None:
    assert [counts.from_text(text, where=WHERE) for text in ("5", "1e+06", "0")] == [5, 1_000_000, 0]
