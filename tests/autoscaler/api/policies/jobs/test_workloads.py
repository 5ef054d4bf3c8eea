"""Of a Workload others than the runtime change spec.active alone."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities
from autoscaler.api.policies.jobs import workloads
from autoscaler.api.resources import Workload
from tests import builders

RUNTIME = identities.account_user("sluice-system", "sluice")
COLLECTOR = identities.account_user("kube-system", "generic-garbage-collector")
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}


def workload(*, status: Manifest | None = None, metadata: Manifest | None = None, **spec: Any) -> Manifest:
    made = builders.resource("Workload", **spec)
    return {**made, "metadata": {**made["metadata"], **(metadata or {})}, **({"status": status} if status else {})}


def refusal(new: Manifest, username: str = "admin", old: Manifest | None = None) -> str | None:
    request = base.Request(operation=base.Operation.UPDATE, object=new, old_object=old or workload(), username=username)
    return workloads.kept_by(RUNTIME).twin(request)


@pytest.mark.accept("E20", part="spec.active is free, in Python")
def test_active_is_free() -> None:
    for before in (True, False):
        assert refusal(workload(active=not before), old=workload(active=before)) is None
    assert refusal(workload()) is None


FORGED = {
    "queueName": workload(queueName="other"),
    "priority": workload(priority=1000),
    "podSets": workload(podSets=[{"name": "main", "count": 100}]),
    "status": workload(status={"position": 1}),
    "labels": workload(metadata={"labels": {keys.JOB_UID: "u"}}),
    "annotations": workload(metadata={"annotations": {"a": "b"}}),
}
TIES = {
    "finalizers": workload(metadata={"finalizers": [keys.FINALIZER]}),
    "ownerReferences": workload(metadata={"ownerReferences": [OWNER]}),
}


@pytest.mark.accept("E20", part="Workloads are written by the runtime, in Python")
@pytest.mark.parametrize("what", sorted(FORGED | TIES))
def test_nobody_but_the_runtime_changes_anything_else(what: str) -> None:
    forged = (FORGED | TIES)[what]
    for old, new in ((workload(), forged), (forged, workload())):
        assert "spec.active" in (refusal(new, old=old) or "")
        assert refusal(new, RUNTIME, old=old) is None
        assert (refusal(new, COLLECTOR, old=old) is None) == (what in TIES)
    with_active = {**forged, "spec": {**forged["spec"], "active": False}}
    assert refusal(with_active) is not None


def test_every_field_of_the_spec_is_held_but_one() -> None:
    (kept, _) = workloads.kept_by(RUNTIME).validations
    fields = Workload.model_json_schema(by_alias=True)["$defs"]["WorkloadSpec"]["properties"]
    assert {name for name in fields if f"oldObject.spec.?{name}" not in kept.expression} == {"active"}
