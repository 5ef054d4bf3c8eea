"""A read tells inputs as they are now, and nothing that was no input."""

from typing import Any

import pytest

from tools.engine.providers import projection, wire


@pytest.mark.parametrize(
    ("inputs", "live", "want"),
    [
        ({"a": 1}, {"a": 2, "status": "x"}, {"a": 2}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "default": 2}}, {"a": {"b": 1}}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}),
        ({"labels": {}}, {}, {"labels": {}}),
        ({"l": [{"n": 1}]}, {"l": [{"n": 1, "d": 2}]}, {"l": [{"n": 1}]}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 2]}),
        ({"v": 3}, {"v": "3"}, {"v": 3}),
        ({"s": wire.Secret("a")}, {"s": "b"}, {"s": wire.Secret("b")}),
        ({"n": None}, {"n": None}, {"n": None}),
    ],
)
def test_inputs_have_the_live_values(inputs: dict[str, Any], live: dict[str, Any], want: dict[str, Any]) -> None:
    assert projection.as_now(inputs, live, lambda one, other: str(one) == str(other)) == want
