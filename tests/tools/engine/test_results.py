"""A run is read from its events: one step for each resource, the stack left out."""

import json
from typing import Any

import pytest

from tools.engine import results

URN = "urn:pulumi:test::program::my:Component$aws:sqs/queue:Queue::q"


def event(kind: str, operation: str, urn: str = URN, **more: Any) -> str:
    return json.dumps({kind: {"metadata": {"op": operation, "urn": urn, "type": "aws:sqs/queue:Queue"} | more}})


def test_a_step_has_its_operation_and_the_changed_paths() -> None:
    found = results.read([event("resourcePreEvent", "update", detailedDiff={"b": {}, "a.c": {}})], "text")
    step = found.step("q")
    assert (step.operation, step.changed, step.type) == ("update", ("a.c", "b"), "aws:sqs/queue:Queue")
    assert found.changes == (step,)
    assert found.output == "text"


def test_the_steps_of_a_replacement_are_one() -> None:
    lines = [
        event("resourcePreEvent", "create-replacement", keys=["name"], detailedDiff={"name": {}}),
        event("resourcePreEvent", "replace"),
        event("resourcePreEvent", "delete-replaced"),
    ]
    step = results.read(lines, "").step("q")
    assert (step.operation, step.replacing, step.changed) == ("replace", ("name",), ("name",))


def test_a_refresh_says_what_came_out() -> None:
    lines = [event("resourcePreEvent", "refresh"), event("resOutputsEvent", "update", detailedDiff={"a": {}})]
    assert results.read(lines, "").step("q").operation == "update"


@pytest.mark.parametrize("own", ["pulumi:pulumi:Stack", "pulumi:providers:pulumi"])
def test_what_is_the_same_is_no_change_and_the_engines_own_is_no_step(own: str) -> None:
    made = json.dumps({"resourcePreEvent": {"metadata": {"op": "create", "urn": "u", "type": own}}})
    found = results.read([made, event("resourcePreEvent", "same")], "")
    assert found.changes == ()
    assert len(found.steps) == 1


def test_failures_and_diagnostics_are_kept() -> None:
    diagnostic = json.dumps({"diagnosticEvent": {"severity": "error", "message": "no\n"}})
    noise = json.dumps({"diagnosticEvent": {"severity": "debug", "message": "noise\n"}})
    found = results.read([diagnostic, noise, event("resOpFailedEvent", "create")], "")
    assert (found.failed, found.diagnostics) == (frozenset({URN}), "no\n")


def test_a_step_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError, match="0 steps are named 'x'"):
        results.read([], "").step("x")


def test_steps_are_found_by_operation_and_type() -> None:
    found = results.read([event("resourcePreEvent", "create")], "")
    assert len(found.of("create", type="aws:sqs/queue:Queue")) == 1
    assert found.of("create", type="aws:iam/role:Role") == ()
    assert found.of("delete") == ()
