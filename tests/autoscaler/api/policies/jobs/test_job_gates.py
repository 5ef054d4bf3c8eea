"""Queued jobs enter their queue suspended, and their pod templates carry the gate whatever is written later."""

from typing import Any

import pytest

from autoscaler.api import keys, policies
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.jobs import job_gates

GATE = {"name": keys.ADMISSION_GATE}
OTHER = {"name": "example.com/other"}
RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "uid": "u", "controller": True}
STARTED = {"startTime": "2026-11-16T06:00:00Z"}
STOPPED = {"conditions": [{"type": "Suspended", "status": "True"}]}


def metadata(queue: str | None = "q", owner: Manifest | None = None) -> Manifest:
    labels = {} if queue is None else {"labels": {keys.QUEUE_NAME: queue}}
    return {"name": "j", **labels, **({"ownerReferences": [owner]} if owner else {})}


def template(*gates: Manifest) -> Manifest:
    return {"spec": {"containers": [], **({"schedulingGates": list(gates)} if gates else {})}}


def job(
    *gates: Manifest,
    queue: str | None = "q",
    owner: Manifest | None = None,
    status: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    made = {"metadata": metadata(queue, owner), "spec": {"template": template(*gates), **spec}}
    return made if status is None else {**made, "status": status}


def ray_cluster(*groups: Manifest, queue: str | None = "q", owner: Manifest | None = None, **spec: Any) -> Manifest:
    head = {"headGroupSpec": {"template": template()}}
    return {"metadata": metadata(queue, owner), "spec": {**head, "workerGroupSpecs": list(groups), **spec}}


def group(name: str, *gates: Manifest) -> Manifest:
    return {"groupName": name, "template": template(*gates)}


def written(policy: base.MutatingPolicy, body: Manifest, old: Manifest | None = None) -> Manifest:
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    got = policy.twin(base.Request(operation=operation, object=body, old_object=old))
    again = policy.twin(base.Request(operation=operation, object=got, old_object=old))
    assert again == got, "a change that is asked for again has nothing left to do"
    return got


def job_gates_of(body: Manifest, old: Manifest | None = None) -> Any:
    return written(job_gates.JOB, body, old)["spec"]["template"]["spec"].get("schedulingGates")


@pytest.mark.accept("E7", part="new jobs are suspended and gated, in Python")
@pytest.mark.parametrize(("given", "want"), [((), [GATE]), ((OTHER,), [OTHER, GATE]), ((GATE, OTHER), [GATE, OTHER])])
@pytest.mark.parametrize("suspend", [{}, {"suspend": False}, {"suspend": True}])
def test_a_new_queued_job_is_suspended_and_gated(
    given: tuple[Manifest, ...], want: list[Manifest], suspend: Manifest
) -> None:
    got = written(job_gates.JOB, job(*given, **suspend))
    assert got["spec"]["suspend"] is True
    assert got["spec"]["template"]["spec"]["schedulingGates"] == want


@pytest.mark.accept("E19", part="what a RayJob, RayService or JobSet runs is left alone")
@pytest.mark.parametrize(
    "changes",
    [
        {"queue": None},
        {"queue": ""},
        {"owner": RAY_JOB},
        {"owner": {**RAY_JOB, "kind": "RayService"}},
        {"owner": {**RAY_JOB, "kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2"}},
        {"owner": {**RAY_JOB, "apiVersion": "ray.io/v1alpha1"}},
        {"managedBy": "kueue.x-k8s.io/multikueue"},
    ],
)
def test_what_is_not_queued_is_left_as_it_is(changes: Manifest) -> None:
    for policy, body in ((job_gates.JOB, job(**changes)), (job_gates.RAY_CLUSTER, ray_cluster(**changes))):
        assert written(policy, body) == body


@pytest.mark.parametrize(
    "owner",
    [
        {**RAY_JOB, "controller": False},
        {**RAY_JOB, "kind": "Workflow"},
        {**RAY_JOB, "apiVersion": "example.com/v1"},
        {name: value for name, value in RAY_JOB.items() if name != "controller"},
    ],
)
def test_jobs_of_other_owners_are_queued(owner: Manifest) -> None:
    assert written(job_gates.JOB, job(owner=owner))["spec"]["suspend"] is True


def test_jobs_that_name_their_usual_controller_are_queued() -> None:
    assert written(job_gates.JOB, job(managedBy="kubernetes.io/job-controller"))["spec"]["suspend"] is True
    by_kuberay = ray_cluster(managedBy="ray.io/kuberay-operator")
    assert written(job_gates.RAY_CLUSTER, by_kuberay)["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("stored", "sent", "want"),
    [
        ((GATE,), (), [GATE]),
        ((OTHER, GATE), (OTHER,), [OTHER, GATE]),
        ((GATE, OTHER), (OTHER,), [GATE, OTHER]),
        ((GATE,), (OTHER,), [OTHER, GATE]),
        ((GATE, OTHER), (GATE,), [GATE]),
    ],
)
def test_a_running_jobs_gates_come_out_as_they_are_stored(
    stored: tuple[Manifest, ...], sent: tuple[Manifest, ...], want: list[Manifest]
) -> None:
    old = job(*stored, suspend=False, status={**STARTED, "active": 2})
    assert job_gates_of(job(*sent), old) == want
    assert "suspend" not in written(job_gates.JOB, job(*sent), old)["spec"]


@pytest.mark.parametrize(
    ("old", "want"),
    [
        (job(suspend=True), [GATE]),
        (job(suspend=True, status=STARTED | STOPPED), [GATE]),
        (job(suspend=True, status=STARTED), None),
        (job(suspend=True, status=STARTED | STOPPED | {"active": 1}), None),
        (job(suspend=True, status=STARTED | {"conditions": [{"type": "Suspended", "status": "False"}]}), None),
        (job(suspend=True, status=STARTED | {"conditions": [{"type": "Failed", "status": "True"}]}), None),
        (job(suspend=False), None),
        (job(), None),
    ],
)
def test_a_job_that_never_had_the_gate_gets_it_while_its_template_may_change(
    old: Manifest, want: list[Manifest] | None
) -> None:
    assert job_gates_of(job(suspend=True), old) == want


@pytest.mark.parametrize(
    ("old_queue", "want"),
    [(None, True), ("", True), ("other", True), ("q", False)],
    ids=["none", "empty", "new", "old"],
)
def test_a_job_that_enters_a_queue_later_is_suspended_too(old_queue: str | None, *, want: bool) -> None:
    for policy, made in ((job_gates.JOB, job), (job_gates.RAY_CLUSTER, ray_cluster)):
        old = made(queue=old_queue, suspend=True)
        assert written(policy, made(suspend=False), old)["spec"]["suspend"] is want


@pytest.mark.accept("E7", part="every group of a RayCluster is gated, in Python")
def test_every_group_of_a_ray_cluster_is_gated_at_creation_and_later() -> None:
    one, two = group("one"), group("two", OTHER)
    new = written(job_gates.RAY_CLUSTER, ray_cluster(one))
    assert new["spec"]["suspend"] is True
    assert new["spec"]["headGroupSpec"]["template"] == template(GATE)
    assert new["spec"]["workerGroupSpecs"] == [group("one", GATE)]
    running = {**new, "spec": {**new["spec"], "suspend": False}}
    got = written(job_gates.RAY_CLUSTER, ray_cluster(one, two, suspend=False), running)
    assert got["spec"]["suspend"] is False
    assert got["spec"]["headGroupSpec"]["template"] == template(GATE)
    assert got["spec"]["workerGroupSpecs"] == [group("one", GATE), group("two", OTHER, GATE)]


def test_groups_without_a_template_and_clusters_without_groups_are_left_to_their_schema() -> None:
    bare = {"metadata": metadata(), "spec": {}}
    assert written(job_gates.RAY_CLUSTER, bare)["spec"] == {"suspend": True}
    odd = ray_cluster({"groupName": "odd"}, {"groupName": "odder", "template": {}})
    assert written(job_gates.RAY_CLUSTER, odd)["spec"]["workerGroupSpecs"] == odd["spec"]["workerGroupSpecs"]


def test_both_are_in_force_whoever_the_runtime_is() -> None:
    for policy in (job_gates.JOB, job_gates.RAY_CLUSTER):
        assert policy in policies.POLICIES
