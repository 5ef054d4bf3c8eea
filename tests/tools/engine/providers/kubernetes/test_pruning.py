"""What is compared with new inputs: the live object, as far as the inputs speak of it."""

from typing import Any

import pytest

from tests.tools.engine import builders
from tools.engine.providers import wire
from tools.engine.providers.kubernetes import objects, pruning

DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
CUSTOM = {"apiVersion": "sluice.dev/v1alpha1", "kind": "InstancePool"}
BUILT_IN = {"apiVersion": "apps/v1", "kind": "Deployment"}


@pytest.mark.parametrize(
    ("kind", "inputs", "live", "want"),
    [
        # What the server added is not asked for; what it changed is seen.
        (CUSTOM, {"spec": {"a": 1}}, {"spec": {"a": 2, "b": 3}, "status": {}}, {"spec": {"a": 2}}),
        (CUSTOM, {"spec": {"a": [{"b": 1}]}}, {"spec": {"a": [{"b": 1, "c": 2}]}}, {"spec": {"a": [{"b": 1}]}}),
        (CUSTOM, {"spec": {"a": ["x"]}}, {"spec": {"a": ["x", "y"]}}, {"spec": {"a": ["x"]}}),
        (CUSTOM, {"spec": {"a": ["x", "y"]}}, {"spec": {"a": ["x"]}}, {"spec": {"a": ["x"]}}),
        # What is empty and was dropped is a difference, unless the kind's fields are known.
        (DEFINITION, {"spec": {"names": []}}, {"spec": {}}, {"spec": {}}),
        (CUSTOM, {"metadata": {"labels": {}}}, {"metadata": {}}, {"metadata": {}}),
        (CUSTOM, {"spec": {"tags": []}}, {"spec": {"tags": []}}, {"spec": {"tags": []}}),
        (BUILT_IN, {"spec": {"a": [], "b": False, "c": ""}}, {"spec": {}}, {"spec": {"a": [], "b": False, "c": ""}}),
        # So is another spelling of the same amount.
        (BUILT_IN, {"spec": {"cpu": "0.1"}}, {"spec": {"cpu": "100m"}}, {"spec": {"cpu": "0.1"}}),
        (CUSTOM, {"spec": {"cpu": "0.1"}}, {"spec": {"cpu": "100m"}}, {"spec": {"cpu": "100m"}}),
        (BUILT_IN, {"spec": {"a": None}}, {"spec": {}}, {"spec": {"a": None}}),
        (CUSTOM, {"spec": wire.Secret({"a": "x"})}, {"spec": {"a": "y"}}, {"spec": wire.Secret({"a": "y"})}),
    ],
)
def test_a_live_object_takes_the_shape_of_its_inputs(
    kind: dict[str, Any], inputs: dict[str, Any], live: dict[str, Any], want: dict[str, Any]
) -> None:
    assert pruning.pruned(kind | inputs, kind | live) == kind | want


def test_new_inputs_are_compared_with_what_is_there() -> None:
    inputs = DEFINITION | {"metadata": {"name": "x"}, "spec": {"names": {"shortNames": []}}}
    live = DEFINITION | {"metadata": {"name": "x", "uid": "1"}, "spec": {"names": {}}}
    found = objects.difference(builders.diff("kubernetes:x:X", inputs, inputs, outputs=live), frozenset())
    assert [change.text for change in found.changes] == ["spec.names.shortNames"]
    same = objects.difference(builders.diff("kubernetes:x:X", inputs, inputs, outputs=inputs), frozenset())
    assert same.changes == ()


def test_what_is_ignored_is_no_difference_and_notes_to_the_provider_are_none() -> None:
    notes = {objects.PATCH_FORCE: "true"}
    inputs = CUSTOM | {"metadata": {"name": "x", "annotations": notes}, "spec": {"replicas": 1, "other": 1}}
    live = CUSTOM | {"metadata": {"name": "x"}, "spec": {"replicas": 5, "other": 1}}
    asked = builders.diff("kubernetes:x:X", inputs, inputs, outputs=live, ignored=(("spec", "replicas"),))
    assert objects.difference(asked, frozenset()).changes == ()
    seen = objects.difference(builders.diff("kubernetes:x:X", inputs, inputs, outputs=live), frozenset())
    assert [change.text for change in seen.changes] == ["spec.replicas"]
