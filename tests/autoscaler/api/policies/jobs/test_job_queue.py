"""A job enters, changes and leaves its queue only while it has no pods."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities
from autoscaler.api.policies.jobs import job_queue, queued

RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "uid": "u", "controller": True}
POLICIES = pytest.mark.parametrize("policy", [job_queue.JOB, job_queue.RAY_CLUSTER], ids=["job", "ray-cluster"])
CHANGES = pytest.mark.parametrize(
    ("before", "after", "is_late"),
    [(None, "q", True), ("", "q", True), ("q", "other", False), ("q", None, False), ("q", "", False)],
)


def job(queue: str | None, *, owner: Manifest | None = None, status: Manifest | None = None, **spec: Any) -> Manifest:
    labels = {} if queue is None else {"labels": {keys.QUEUE_NAME: queue}}
    owners = {"ownerReferences": [owner]} if owner else {}
    return {"metadata": {"name": "j", **labels, **owners}, "spec": spec, "status": status or {}}


def refusal(policy: base.ValidatingPolicy, old: Manifest, new: Manifest, username: str = "admin") -> str | None:
    request = base.Request(operation=base.Operation.UPDATE, object=new, old_object=old, username=username)
    return policy.twin(request)


@pytest.mark.accept("E20", part="the queue of a job that runs, in Python")
@CHANGES
@pytest.mark.parametrize("suspend", [{}, {"suspend": False}])
@pytest.mark.parametrize("kind", [queued.JOB, queued.RAY_CLUSTER], ids=["job", "ray-cluster"])
def test_the_queue_of_a_job_that_runs_is_not_changed(
    kind: queued.Kind, before: str | None, after: str | None, suspend: Manifest, *, is_late: bool
) -> None:
    policy = job_queue.JOB if kind is queued.JOB else job_queue.RAY_CLUSTER
    want = job_queue.late_message(kind) if is_late else job_queue.kept_message(kind)
    assert refusal(policy, job(before, **suspend), job(after, **suspend)) == want
    assert refusal(policy, job(before, **suspend), job(after, suspend=True)) == want, "its pods are there still"


@POLICIES
@CHANGES
def test_the_queue_of_a_suspended_job_is_free(
    policy: base.ValidatingPolicy, before: str | None, after: str | None, *, is_late: bool
) -> None:
    del is_late
    for suspend in (True, False):
        assert refusal(policy, job(before, suspend=True), job(after, suspend=suspend)) is None


@POLICIES
def test_all_else_of_a_job_that_runs_is_free(policy: base.ValidatingPolicy) -> None:
    for queue in (None, "", "q"):
        assert refusal(policy, job(queue), job(queue, parallelism=3)) is None


@pytest.mark.parametrize(
    ("status", "is_free"),
    [
        ({"startTime": "t", "conditions": [{"type": "Suspended", "status": "True"}]}, True),
        ({"startTime": "t"}, False),
        ({"active": 1}, False),
    ],
)
def test_a_suspended_job_that_has_pods_still_runs(status: Manifest, *, is_free: bool) -> None:
    old, new = job("q", suspend=True, status=status), job("other", suspend=True)
    assert (refusal(job_queue.JOB, old, new) is None) == is_free
    assert refusal(job_queue.RAY_CLUSTER, old, new) is None, "a RayCluster's status has other fields"


@POLICIES
def test_an_owner_that_would_take_the_job_out_of_its_queue_counts_as_leaving(policy: base.ValidatingPolicy) -> None:
    queued_job, owned = job("q"), job("q", owner=RAY_JOB)
    assert "stay as they are" in (refusal(policy, queued_job, owned) or "")
    assert "runs already" in (refusal(policy, owned, queued_job) or "")
    for collector in identities.CONTROLLERS:
        assert refusal(policy, owned, queued_job, collector) is None
