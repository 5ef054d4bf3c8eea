"""Differences are found by path, and paths are written as the engine writes them."""

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from tools.engine.providers import changes, wire
from tools.engine.providers.changes import Kind

_JSON = strategies.recursive(
    strategies.booleans() | strategies.integers() | strategies.text(max_size=5),
    lambda below: (
        strategies.lists(below, max_size=3) | strategies.dictionaries(strategies.text(max_size=5), below, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = strategies.dictionaries(strategies.text(max_size=5), _JSON, max_size=3)
PATHS = strategies.lists(strategies.text(min_size=1) | strategies.integers(min_value=0), min_size=1).map(tuple)


@hypothesis.given(OBJECTS)
def test_nothing_differs_from_itself(value: dict[str, Any]) -> None:
    assert changes.between(value, value) == ()


@hypothesis.given(OBJECTS, OBJECTS)
def test_what_is_not_the_same_has_a_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    hypothesis.assume(json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True))
    assert changes.between(old, new)


@hypothesis.given(PATHS)
def test_a_written_path_is_read_back(path: changes.Path) -> None:
    hypothesis.assume("*" not in path)
    assert changes.parsed(changes.written(path)) == path


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({"a": 1}, {"a": 2}, [("a", Kind.UPDATE)]),
        ({}, {"tags": {"k8s.io/x": "1"}}, [("tags", Kind.ADD)]),
        ({"tags": {"k8s.io/x": "1"}}, {"tags": {}}, [('tags["k8s.io/x"]', Kind.DELETE)]),
        ({"l": [{"a": 1}]}, {"l": [{"a": 1}, {"a": 2}]}, [("l[1]", Kind.ADD)]),
        ({"l": [{"a": 1}]}, {"l": [{"a": 2}]}, [("l[0].a", Kind.UPDATE)]),
        ({"a": None}, {}, []),
        ({"a": wire.Secret("x")}, {"a": "x"}, []),
        ({"a": 1}, {"a": True}, [("a", Kind.UPDATE)]),
        ({"a": "1"}, {"a": wire.UNKNOWN}, [("a", Kind.UPDATE)]),
    ],
)
def test_differences_are_told_by_path(old: dict[str, Any], new: dict[str, Any], want: list[tuple[str, Kind]]) -> None:
    assert [(change.text, change.kind) for change in changes.between(old, new)] == want


def test_a_star_in_a_prefix_stands_for_any_step() -> None:
    path = ("spec", "containers", 0, "image")
    assert changes.starts_with(path, changes.parsed("spec.containers[*].image"))
    assert not changes.starts_with(path, changes.parsed("spec.containers[*].name"))
    assert not changes.starts_with(("spec",), path)
