"""Properties go over the wire and come back as they were, secrets and unknowns included."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from tools.engine.providers import wire

_LEAVES = (
    strategies.none()
    | strategies.booleans()
    | strategies.integers(min_value=-(2**53), max_value=2**53)
    | strategies.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer())
    | strategies.text()
    | strategies.just(wire.UNKNOWN)
)
_NAMES = strategies.text(min_size=1)
VALUES = strategies.recursive(
    _LEAVES,
    lambda below: (
        strategies.lists(below, max_size=4)
        | strategies.dictionaries(_NAMES, below, max_size=4)
        | below.map(wire.Secret)
    ),
    max_leaves=12,
)
PROPERTIES = strategies.dictionaries(_NAMES, VALUES, max_size=4)


@hypothesis.given(PROPERTIES)
def test_what_is_sent_comes_back(properties: dict[str, Any]) -> None:
    assert wire.decode(wire.encode(properties)) == properties


@hypothesis.given(PROPERTIES)
def test_a_whole_number_comes_back_as_an_int(properties: dict[str, Any]) -> None:
    hypothesis.assume("count" not in properties)
    back = wire.decode(wire.encode(properties | {"count": 3.0}))["count"]
    assert (type(back), back) == (int, 3)


@hypothesis.given(PROPERTIES)
def test_redacted_properties_hold_no_secret_and_plain_ones_no_envelope(properties: dict[str, Any]) -> None:
    shown = wire.redacted(properties | {"password": wire.Secret({"deep": ["hunter2-xyzzy"]})})
    assert "hunter2-xyzzy" not in repr(shown)
    assert "Secret(" not in repr(wire.plain(properties))


def test_a_secret_does_not_show_itself() -> None:
    assert "hunter2" not in repr(wire.Secret("hunter2"))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"a": 1}, True),
        ({"a": [wire.UNKNOWN]}, False),
        (wire.Secret({"a": wire.UNKNOWN}), False),
        ([], True),
    ],
)
def test_a_value_is_known_if_all_of_it_is(value: object, *, want: bool) -> None:
    assert wire.is_known(value) is want


def test_what_was_secret_in_the_inputs_is_secret_in_the_outputs() -> None:
    inputs = {"data": {"key": wire.Secret("k")}, "list": [1, wire.Secret(2)], "all": wire.Secret("x")}
    outputs = {"data": {"key": "k", "other": "o"}, "list": [1, 2, 3], "all": "x", "made": "m"}

    want = {
        "data": {"key": wire.Secret("k"), "other": "o"},
        "list": [1, wire.Secret(2), 3],
        "all": wire.Secret("x"),
        "made": "m",
    }
    assert wire.covered(outputs, inputs) == want


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot send set"):
        wire.encode({"a": {1}})
