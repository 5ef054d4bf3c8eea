"""Fields have owners: ours and kubectl's may be taken over, others' are left alone."""

from typing import Any

import pytest

from tools.engine.providers import changes
from tools.engine.providers.kubernetes import ownership

MANAGER = "pulumi-kubernetes-12345678"


def entry(manager: str, operation: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"} | more


def test_what_our_post_and_kubectl_wrote_becomes_the_appliers() -> None:
    entries = [
        entry(MANAGER, "Update", {"f:data": {"f:a": {}}}),
        entry("kubectl-edit", "Update", {"f:data": {"f:b": {}}}),
        entry("controller", "Update", {"f:data": {"f:c": {}}}),
        entry(MANAGER, "Update", {"f:status": {}}, subresource="status"),
    ]

    taken = ownership.taken_over(entries, MANAGER, "v1")

    assert taken is not None
    assert [(each["manager"], each["operation"]) for each in taken] == [
        ("controller", "Update"),
        (MANAGER, "Update"),
        (MANAGER, "Apply"),
    ]
    assert taken[-1]["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}}}
    assert ownership.taken_over(taken, MANAGER, "v1") is None


@pytest.mark.parametrize(
    ("ignored", "want"),
    [
        ("spec.replicas", {"spec": {"containers": [{"name": "a", "image": "i"}]}}),
        ("spec.containers[0].image", {"spec": {"replicas": 1, "containers": [{"name": "a", "image": "i"}]}}),
        ("spec.containers[0].command", {"spec": {"replicas": 1, "containers": [{"name": "a", "image": "i"}]}}),
        ("spec.missing.deeper", {"spec": {"replicas": 1, "containers": [{"name": "a", "image": "i"}]}}),
    ],
)
def test_ignored_fields_of_others_are_left_out(ignored: str, want: dict[str, Any]) -> None:
    body = {"spec": {"replicas": 1, "containers": [{"name": "a", "image": "i"}]}}
    own: dict[str, Any] = {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}}}}
    entries = [entry(MANAGER, "Apply", own), entry("scaler", "Update", {"f:spec": {"f:replicas": {}}})]
    assert ownership.without_foreign(body, [changes.parsed(ignored)], entries, MANAGER) == want


def test_a_conflict_names_fields_and_managers() -> None:
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "other" using v1', "field": ".data.a"}
    assert ownership.conflicts({"details": {"causes": [cause, {"reason": "Other"}]}}) == [
        '.data.a (conflict with "other" using v1)'
    ]
    assert ownership.conflicts({}) == []
