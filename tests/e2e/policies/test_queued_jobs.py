"""People's hands on queued jobs, on the real API server: labels, manifests applied again, gates and stamps."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.api import keys, manifests
from autoscaler.api.policies.jobs import job_queue, queued
from tests.e2e import waiting
from tests.e2e.policies import ground, jobs
from tests.e2e.policies.ground import RUNTIME, RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tests.e2e.policies.jobs import GATE, JOBS, RAY_CLUSTERS
from tools.local.api import Api, Response
from tools.local.plane import Plane

Object = dict[str, Any]
HOME = "queued"
APPLY = pytest.mark.parametrize(
    "how", [(), ("--server-side", "--force-conflicts")], ids=["merged by kubectl", "merged by the server"]
)
MERGE = "application/merge-patch+json"
DENIED = 422


@pytest.fixture(scope="module")
def yard(policed_plane: Plane) -> Iterator[Ground]:
    """A namespace for queued jobs."""
    made = Ground(plane=policed_plane)
    made.add_namespace(HOME)
    yield made
    made.close()


@pytest.fixture
def runtime(yard: Ground) -> Iterator[Api]:
    with yard.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as api:
        yield api


@pytest.fixture
def name(yard: Ground) -> Iterator[str]:
    """The name of the test's own job, which goes with the test, its pods too."""
    chosen = f"job-{secrets.token_hex(3)}"
    yield chosen
    for path in (JOBS, RAY_CLUSTERS):
        yard.api.request("DELETE", f"{path.format(HOME)}/{chosen}", {"propagationPolicy": "Background"})


def apply(yard: Ground, body: Object, how: tuple[str, ...]) -> Object:
    """Apply a manifest as a user does, and return what is stored then."""
    yard.plane.kubectl("apply", "-n", HOME, *how, "-f", "-", stdin=manifests.dump([body]))
    path = (JOBS if body["kind"] == "Job" else RAY_CLUSTERS).format(HOME)
    stored: Object = yard.api.get(f"{path}/{body['metadata']['name']}")
    return stored


def patch(api: Api, path: str, name: str, body: Object) -> Response:
    return api.request("PATCH", f"{path.format(HOME)}/{name}", body, content_type=MERGE)


def label(queue: str | None) -> Object:
    return {"metadata": {"labels": {keys.QUEUE_NAME: queue}}}


def pods_of(yard: Ground, job: str) -> list[Object]:
    """Return the pods of a Job once all of them are there."""

    def pods() -> list[Object]:
        selector = {"labelSelector": f"job-name={job}"}
        found: list[Object] = yard.api.get(f"/api/v1/namespaces/{HOME}/pods", selector)["items"]
        assert len(found) == 2
        return found

    return waiting.eventually(pods)


@pytest.mark.accept("E7", part="a Job's pods are gated whatever is applied")
@APPLY
def test_a_jobs_manifest_may_be_applied_again_and_every_pod_is_gated(
    yard: Ground, runtime: Api, name: str, how: tuple[str, ...]
) -> None:
    manifest = jobs.job(name)
    made = apply(yard, manifest, how)
    assert (made["spec"]["suspend"], jobs.gates_of(made)) == (True, [[GATE]])
    waiting_still = apply(yard, jobs.job(name, suspend=False), how)
    assert jobs.gates_of(waiting_still) == [[GATE]]
    assert [pod["spec"]["schedulingGates"] for pod in pods_of(yard, name)] == [[GATE], [GATE]]
    assert patch(runtime, JOBS, name, {"spec": {"suspend": False}}).ok
    for again in (jobs.job(name, suspend=False), jobs.job(name, suspend=False, parallelism=1)):
        assert jobs.gates_of(apply(yard, again, how)) == [[GATE]]


@pytest.mark.accept("E7", part="a Job's gate cannot be written away")
def test_a_gate_taken_out_of_a_jobs_template_comes_back(yard: Ground, name: str) -> None:
    yard.api.create(JOBS.format(HOME), jobs.job(name))
    ungated = {"spec": {"template": {"spec": {"schedulingGates": None}}}}
    for suspend in (True, False):
        assert patch(yard.api, JOBS, name, {"spec": {"suspend": suspend}}).ok
        assert jobs.gates_of(patch(yard.api, JOBS, name, ungated).required()) == [[GATE]]
        if not suspend:
            pods_of(yard, name)
            assert jobs.gates_of(patch(yard.api, JOBS, name, ungated).required()) == [[GATE]]


@pytest.mark.accept("E7", part="every group of a RayCluster is gated whatever is applied")
@APPLY
def test_a_ray_clusters_manifest_may_be_applied_again_and_later_groups_are_gated(
    yard: Ground, runtime: Api, name: str, how: tuple[str, ...]
) -> None:
    one, two = jobs.group("one"), jobs.group("two")
    made = apply(yard, jobs.ray_cluster(name, one), how)
    assert (made["spec"]["suspend"], jobs.gates_of(made)) == (True, [[GATE]] * 2)
    assert jobs.gates_of(apply(yard, jobs.ray_cluster(name, one), how)) == [[GATE]] * 2
    assert patch(runtime, RAY_CLUSTERS, name, {"spec": {"suspend": False}}).ok
    grown = apply(yard, jobs.ray_cluster(name, one, two), how)
    assert (grown["spec"]["suspend"], jobs.gates_of(grown)) == (False, [[GATE]] * 3)
    without_gates = {"spec": {"workerGroupSpecs": [two, one]}}
    assert jobs.gates_of(patch(yard.api, RAY_CLUSTERS, name, without_gates).required()) == [[GATE]] * 3


@pytest.mark.accept("E19", part="what a RayJob runs is left alone")
def test_what_a_ray_job_runs_is_left_alone(yard: Ground) -> None:
    for path, body in (
        (JOBS, jobs.job("owned", owner=jobs.RAY_JOB)),
        (RAY_CLUSTERS, jobs.ray_cluster("owned", jobs.group("one"), owner=jobs.RAY_JOB)),
    ):
        made = yard.api.request("POST", path.format(HOME), body, query={"dryRun": "All"}).required()
        assert not made["spec"].get("suspend")
        assert not any(jobs.gates_of(made))


MADE: dict[str, Callable[..., Object]] = {JOBS: jobs.job, RAY_CLUSTERS: jobs.ray_cluster}
KINDS = {JOBS: queued.JOB, RAY_CLUSTERS: queued.RAY_CLUSTER}
BOTH = pytest.mark.parametrize("path", [JOBS, RAY_CLUSTERS], ids=["job", "ray cluster"])


@pytest.mark.accept("E20", part="the queue of a job that runs stays")
@BOTH
def test_the_label_of_a_job_that_runs_is_neither_changed_nor_taken_off(yard: Ground, name: str, path: str) -> None:
    yard.api.create(path.format(HOME), MADE[path](name))
    for queue in ("other", None, "q"):
        assert patch(yard.api, path, name, label(queue)).ok, "it waits"
    assert patch(yard.api, path, name, {"spec": {"suspend": False}}).ok
    for queue in ("other", None, ""):
        answer = patch(yard.api, path, name, label(queue))
        assert answer.status == DENIED
        assert job_queue.kept_message(KINDS[path]) in answer.body["message"]
    at_once = {**label(None), "spec": {"suspend": True}}
    assert patch(yard.api, path, name, at_once).status == DENIED
    assert patch(yard.api, path, name, {"metadata": {"labels": {"app": "x"}}}).ok


@pytest.mark.accept("E20", part="a job that runs does not enter a queue")
@BOTH
def test_the_label_is_not_put_on_a_job_that_runs(yard: Ground, name: str, path: str) -> None:
    yard.api.create(path.format(HOME), MADE[path](name, queue=None))
    answer = patch(yard.api, path, name, label("q"))
    assert (answer.status, job_queue.late_message(KINDS[path]) in answer.body["message"]) == (DENIED, True)
    at_once = {**label("q"), "spec": {"suspend": True}}
    assert patch(yard.api, path, name, at_once).status == DENIED
    assert patch(yard.api, path, name, {"spec": {"suspend": True}}).ok

    def entered() -> Object:  # a Job's pods must be gone first
        got: Object = patch(yard.api, path, name, {**label("q"), "spec": {"suspend": False}}).required()
        return got

    got = waiting.eventually(entered)
    assert got["spec"]["suspend"] is True, "it enters its queue suspended, whatever is said"
    assert all(gates == [GATE] for gates in jobs.gates_of(got))


@pytest.mark.accept("E20", part="gates are opened by the runtime alone")
def test_a_gate_is_taken_off_a_jobs_pod_by_the_runtime_alone(yard: Ground, runtime: Api, name: str) -> None:
    yard.api.create(JOBS.format(HOME), jobs.job(name))
    assert patch(runtime, JOBS, name, {"spec": {"suspend": False}}).ok
    pod = pods_of(yard, name)[0]["metadata"]["name"]
    pods = "/api/v1/namespaces/{}/pods"
    refused = patch(yard.api, pods, pod, {"spec": {"schedulingGates": None}})
    assert (refused.status, RUNTIME in refused.body["message"]) == (DENIED, True)
    opened = {"metadata": {"annotations": {keys.JOB_UID: "u"}}, "spec": {"schedulingGates": None}}
    assert "schedulingGates" not in patch(runtime, pods, pod, opened).required()["spec"]
    for value in ("forged", None):
        forged = {"metadata": {"annotations": {keys.JOB_UID: value}}}
        for place in (pod, f"{pod}/status"):
            refused = patch(yard.api, pods, place, forged)
            assert (refused.status, keys.JOB_UID in refused.body["message"]) == (DENIED, True)
    assert patch(yard.api, pods, pod, {"metadata": {"annotations": {"app": "x"}}}).ok


@pytest.mark.accept("E20", part="stamps cannot be forged")
@pytest.mark.parametrize("key", [keys.JOB_UID, keys.POD_SET, keys.CLUSTER_QUEUE, keys.FLAVORS, keys.OPENED_AT])
def test_stamps_are_not_forged_on_new_pods_nor_by_binding_them(yard: Ground, key: str) -> None:
    stamped = {"annotations": {key: "forged"}}
    pod = ground.pod("forged")
    answer = yard.try_pod(HOME, {**pod, "metadata": {**pod["metadata"], **stamped}})
    assert (answer.status, key in answer.body["message"]) == (DENIED, True)
    target = {"kind": "Node", "name": "nowhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "free", **stamped}, "target": target}
    yard.api.request("POST", f"/api/v1/namespaces/{HOME}/pods", ground.pod("free", schedulerName="nobody"))
    for path in ("pods/free/binding", "bindings"):
        answer = yard.api.request("POST", f"/api/v1/namespaces/{HOME}/{path}", binding)
        assert (answer.status, key in answer.body["message"]) == (DENIED, True)
