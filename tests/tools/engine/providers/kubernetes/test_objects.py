"""Objects as Pulumi sees them: names, secrets, replacements."""

from typing import Any

import pytest

from tests.tools.engine import builders
from tools.engine.providers import wire
from tools.engine.providers.kubernetes import objects

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
SECRET = "kubernetes:core/v1:Secret"


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}} | fields


def test_an_object_without_a_name_gets_one_and_keeps_it() -> None:
    made = objects.check(builders.check(builders.CONFIG_MAP, config_map(metadata={"labels": {"a": "b"}}))).inputs
    name = made["metadata"]["name"]
    again = objects.check(builders.check(builders.CONFIG_MAP, config_map(metadata=None), old=made)).inputs

    assert name.startswith("thing-")
    assert len(name) == len("thing-") + 8
    assert made["metadata"]["annotations"] == {objects.AUTONAMED: "true"}
    assert made["metadata"]["labels"] == {"a": "b"}
    assert again["metadata"]["name"] == name


@pytest.mark.parametrize("metadata", [{"name": "mine"}, {"generateName": "mine-"}, {"name": wire.UNKNOWN}])
def test_a_name_that_is_given_stays(metadata: dict[str, Any]) -> None:
    checked = objects.check(builders.check(builders.CONFIG_MAP, config_map(metadata=metadata)))
    assert checked.inputs["metadata"] == metadata


def test_what_is_no_object_is_refused() -> None:
    checked = objects.check(builders.check(builders.CONFIG_MAP, {"data": {}}))
    assert [failure.path for failure in checked.failures] == ["apiVersion", "kind"]


def test_a_patch_needs_a_name() -> None:
    checked = objects.check(builders.check("kubernetes:core/v1:ConfigMapPatch", config_map(metadata={})))
    assert [failure.path for failure in checked.failures] == ["metadata.name"]


def test_a_secrets_data_is_secret_coming_and_going() -> None:
    news = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "hunter2"}}
    checked = objects.check(builders.check(SECRET, news)).inputs
    live = news | {"data": {"a": "aHVudGVyMg=="}, "metadata": {"name": "x", "managedFields": [{}]}}
    del live["stringData"]

    outputs = objects.outputs(live, checked, "manager")

    assert checked["stringData"] == wire.Secret({"a": "hunter2"})
    assert outputs["data"] == wire.Secret({"a": "aHVudGVyMg=="})
    assert outputs["metadata"] == {"name": "x"}
    assert outputs[objects.MANAGER] == "manager"


def test_a_secrets_text_is_compared_decoded() -> None:
    inputs = {"kind": "Secret", "stringData": wire.Secret({"a": "hunter2"})}
    same = {"kind": "Secret", "data": {"a": "aHVudGVyMg=="}}
    other = {"kind": "Secret", "data": {"a": "bmV3"}}
    assert objects.inputs_now(inputs, same) == inputs
    assert objects.inputs_now(inputs, other)["stringData"] == wire.Secret({"a": "new"})


@pytest.mark.parametrize(
    ("resource_type", "old", "new", "want"),
    [
        (builders.CONFIG_MAP, config_map(data={"a": "1"}), config_map(data={"a": "2"}), {("data", "a")}),
        (builders.CONFIG_MAP, config_map(), config_map(metadata={"name": "y"}), {("metadata", "name")}),
        (
            "kubernetes:core/v1:ConfigMapPatch",
            config_map(data={"a": "1"}),
            config_map(data={"a": "2"}),
            set(),
        ),
        (
            DEPLOYMENT,
            {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"selector": {"a": "1"}, "replicas": 1}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"selector": {"a": "2"}, "replicas": 2}},
            {("spec", "selector", "a")},
        ),
        (
            "kubernetes:sluice.dev/v1:Scope",
            {"apiVersion": "sluice.dev/v1", "kind": "Scope", "spec": {"a": 1}},
            {"apiVersion": "sluice.dev/v2", "kind": "Scope", "spec": {"a": 2}},
            set(),
        ),
        (
            "kubernetes:apps/v1:Deployment",
            {"apiVersion": "extensions/v1beta1", "kind": "Deployment"},
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            {("apiVersion",)},
        ),
    ],
)
def test_some_changes_need_a_replacement(
    resource_type: str, old: dict[str, Any], new: dict[str, Any], want: set[tuple[str, ...]]
) -> None:
    found = objects.difference(builders.diff(resource_type, old, new), frozenset())
    assert found.changes
    assert found.replacing == want


def test_a_provider_may_let_config_maps_change() -> None:
    asked = builders.diff(builders.CONFIG_MAP, config_map(data={"a": "1"}), config_map(data={"a": "2"}))
    assert objects.difference(asked, frozenset({"ConfigMap"})).replacing == frozenset()


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "2"}}, set()),
        ({"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}, set()),
        ({"type": "Opaque"}, {"type": "kubernetes.io/dockerconfigjson"}, {("type",)}),
        ({"data": {"a": "1"}, "immutable": True}, {"data": {"a": "2"}, "immutable": True}, {("data", "a")}),
    ],
)
def test_a_mutable_secret_keeps_its_type_and_a_frozen_one_its_data(
    old: dict[str, Any], new: dict[str, Any], want: set[tuple[str, ...]]
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    found = objects.difference(builders.diff(SECRET, secret | old, secret | new), frozenset({"Secret"}))
    assert found.changes
    assert found.replacing == want


def test_an_object_that_keeps_its_name_is_deleted_before_its_successor_comes() -> None:
    kept = objects.difference(
        builders.diff(builders.CONFIG_MAP, config_map(data={"a": "1"}), config_map(data={"a": "2"})), frozenset()
    )
    renamed = objects.difference(
        builders.diff(builders.CONFIG_MAP, config_map(), config_map(metadata={"name": "y"})), frozenset()
    )
    metadata = {"name": "x-1", "annotations": {objects.AUTONAMED: "true"}}
    old, new = (config_map(metadata=metadata, data={"a": text}) for text in ("1", "2"))
    made_up = objects.difference(builders.diff(builders.CONFIG_MAP, old, new), frozenset())
    assert (kept.delete_first, renamed.delete_first, made_up.delete_first) == (True, False, False)


def test_a_preview_knows_the_inputs_and_not_what_the_server_sets() -> None:
    made = objects.preview_outputs(config_map(data={"a": wire.UNKNOWN}))
    changed = objects.preview_outputs(config_map(), {"metadata": {"uid": "1"}, "status": {}})
    assert made["metadata"]["name"] == "x"
    assert made["metadata"]["uid"] is wire.UNKNOWN
    assert made["data"] == {"a": wire.UNKNOWN}
    assert changed["metadata"] == {"name": "x", "uid": "1"}


def test_a_manifest_has_no_nulls_no_envelopes_and_as_a_patch_no_notes() -> None:
    annotations = {objects.PATCH_FORCE: "true", "kept": None}
    inputs = config_map(data={"a": wire.Secret("1"), "b": None}, metadata={"name": "x", "annotations": annotations})
    want = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
    assert objects.manifest(inputs, patch=True) == want
    assert objects.manifest(inputs, patch=False)["metadata"]["annotations"] == {objects.PATCH_FORCE: "true"}
    assert objects.annotation(inputs, objects.PATCH_FORCE) == "true"
