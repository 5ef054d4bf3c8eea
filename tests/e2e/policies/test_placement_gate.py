"""The placement gate on the real API server: who gets it, who may take it off, and what a job's manifest sees of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys, manifests
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import placement_gate
from tests.e2e import waiting
from tests.e2e.policies import ground
from tests.e2e.policies.ground import RUNTIME, RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tools.local.api import Api, Response
from tools.local.plane import Plane

REAL = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
GATE = {"name": keys.PLACEMENT_GATE}
OPENED = {"schedulingGates": None, "nodeSelector": {keys.ZONE: "eu-west-1a"}}


@pytest.fixture(scope="module")
def yard(policed_plane: Plane) -> Iterator[Ground]:
    """A namespace where the gate is in force."""
    made = Ground(plane=policed_plane)
    made.add_namespace("gated")
    waiting.eventually(lambda: _are_in_force(made))
    yield made
    made.close()


def _are_in_force(made: Ground) -> bool:
    gated = made.try_pod("gated", asking("probe")).required()["spec"].get("schedulingGates") == [GATE]
    _subject(made)
    return gated and _patch(made.api, "subject", {"schedulingGates": None}, dry=True).status == 422


@pytest.fixture
def runtime(yard: Ground) -> Iterator[Api]:
    with yard.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as api:
        yield api


def asking(name: str, *, asks: str | None = "true", metadata: Manifest | None = None, **spec: Any) -> Manifest:
    body = ground.pod(name, **spec)
    annotations = {} if asks is None else {"annotations": {keys.SAME_ZONE: asks}}
    return {**body, "metadata": {**body["metadata"], **annotations, **(metadata or {})}}


OWNERS = st.builds(
    lambda kind, controller: {"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u", **controller},
    st.sampled_from(["Job", "DaemonSet"]),
    st.sampled_from([{}, {"controller": True}, {"controller": False}]),
)
GATES = st.lists(
    st.sampled_from([keys.PLACEMENT_GATE, keys.ADMISSION_GATE, "example.com/other"]), unique=True, max_size=3
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": st.sampled_from(["", "default-scheduler", "volcano"]),
        "schedulingGates": GATES.map(lambda names: [{"name": name} for name in names]),
        "nodeSelector": st.just({keys.ZONE: "a"}),
    },
)


@REAL
@given(
    asks=st.sampled_from([None, "true", "false", "", "True"]),
    owners=st.none() | st.lists(OWNERS, max_size=1),
    spec=SPECS,
    on_node=st.booleans(),
)
def test_pods_are_gated_alike(
    yard: Ground,
    asks: str | None,
    owners: list[Manifest] | None,
    spec: Manifest,
    on_node: bool,  # noqa: FBT001
) -> None:
    if on_node:  # a gated pod must not name its node
        spec = {**{name: value for name, value in spec.items() if name != "schedulingGates"}, "nodeName": "nowhere"}
    body = asking("new", asks=asks, metadata={} if owners is None else {"ownerReferences": owners}, **spec)
    want = placement_gate.POLICY.twin(base.Request(operation=base.Operation.CREATE, object=body))
    got = yard.try_pod("gated", body).required()
    assert got["spec"].get("schedulingGates", []) == want["spec"].get("schedulingGates", [])


@REAL
@given(kept=GATES, as_runtime=st.booleans())
def test_gates_are_kept_alike(yard: Ground, runtime: Api, kept: list[str], as_runtime: bool) -> None:  # noqa: FBT001
    old = _subject(yard)
    kept = [gate["name"] for gate in old["spec"]["schedulingGates"] if gate["name"] in kept]
    gates = [{"name": name} for name in kept]
    new = {**old, "spec": {**old["spec"], "schedulingGates": gates}}
    username = RUNTIME if as_runtime else "admin"
    request = base.Request(operation=base.Operation.UPDATE, object=new, old_object=old, username=username)
    want = placement_gate.kept_by(RUNTIME).twin(request)
    answer = _patch(runtime if as_runtime else yard.api, "subject", {"schedulingGates": gates or None}, dry=True)
    assert answer.ok == (want is None), (answer.body, want)
    assert answer.ok or (want or "") in answer.body["message"]


def _subject(yard: Ground) -> Manifest:
    path = "/api/v1/namespaces/gated/pods"
    found = yard.api.request("GET", f"{path}/subject")
    if found.ok:
        there: Manifest = found.required()
        return there
    gates = [{"name": keys.ADMISSION_GATE}, {"name": "example.com/other"}]
    return yard.make(path, asking("subject", schedulingGates=gates))


def _patch(api: Api, name: str, spec: Manifest, *, dry: bool = False) -> Response:
    query = {"dryRun": "All"} if dry else {}
    path = f"/api/v1/namespaces/gated/pods/{name}"
    return api.request("PATCH", path, {"spec": spec}, query=query, content_type="application/merge-patch+json")


@pytest.mark.accept("G10")
def test_the_runtime_opens_a_pod_with_its_zone_and_nobody_else_does(yard: Ground, runtime: Api) -> None:
    name = f"one-{yard.id}"
    made = yard.make("/api/v1/namespaces/gated/pods", asking(name))
    assert made["spec"]["schedulingGates"] == [GATE]
    refused = _patch(yard.api, name, OPENED)
    assert (refused.status, RUNTIME in refused.body["message"]) == (422, True)
    assert _patch(yard.api, name, {"nodeSelector": {"disk": "fast"}}).ok, "all else is free"
    got = _patch(runtime, name, OPENED).required()["spec"]
    assert "schedulingGates" not in got
    assert got["nodeSelector"] == {"disk": "fast", keys.ZONE: "eu-west-1a"}


@pytest.mark.accept("G10")
def test_a_jobs_manifest_stays_as_it_was_and_may_be_applied_again(yard: Ground) -> None:
    template = {
        "metadata": {"annotations": {keys.SAME_ZONE: "true"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{yard.id}", "namespace": "gated"},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    path = "/apis/batch/v1/namespaces/gated/jobs"
    made = yard.make(path, job)
    assert "schedulingGates" not in made["spec"]["template"]["spec"]

    def gates() -> list[Any]:
        listed = yard.api.get("/api/v1/namespaces/gated/pods", {"labelSelector": f"job-name=job-{yard.id}"})["items"]
        assert len(listed) == 2
        return [pod["spec"]["schedulingGates"] for pod in listed]

    assert waiting.eventually(gates) == [[GATE], [GATE]]
    yard.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests.dump([job]))
    yard.api.request("DELETE", f"{path}/job-{yard.id}", {"propagationPolicy": "Background"})
