"""The policies of a kind that was added by the guide say the same in CEL as in Python."""

from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.policies.base import Operation, Request
from tests import toy_jobs
from tests.e2e import waiting
from tests.e2e.policies.ground import Ground
from tools.local.plane import Plane

Object = dict[str, Any]
NAMESPACE = "toys"
TOYS = toy_jobs.TOY_JOBS.collection(NAMESPACE)
PATHS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


@pytest.fixture(scope="module")
def toys(policed_plane: Plane) -> Iterator[Ground]:
    made = Ground(plane=policed_plane)
    made.add_namespace(NAMESPACE)
    made.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toy_jobs.DEFINITION)
    for manifest in (each for policy in toy_jobs.POLICIES for each in policy.manifests()):
        made.make(f"/apis/admissionregistration.k8s.io/v1/{PATHS[manifest['kind']]}", manifest)
    waiting.eventually(lambda: stored(made, toy_jobs.toy("first", namespace=NAMESPACE))["spec"].get("suspend"))
    yield made
    made.close()


def stored(ground: Ground, body: Object) -> Object:
    """Ask how a toy would be stored."""
    answer = ground.api.request("POST", TOYS, body, query={"dryRun": "All"})
    found: Object = answer.body if answer.ok else {"spec": {}}
    return found


@pytest.mark.parametrize(
    ("queue", "spec", "gates"),
    [
        pytest.param("door", {}, [], id="new"),
        pytest.param("door", {"suspend": True}, [keys.ADMISSION_GATE], id="as it should be"),
        pytest.param("door", {"suspend": False}, ["example.com/mine"], id="with a gate of another"),
        pytest.param("", {}, [], id="in no queue"),
    ],
)
def test_a_new_toy_is_stored_as_the_twin_says(toys: Ground, queue: str, spec: Object, gates: list[str]) -> None:
    body = toy_jobs.toy("new", namespace=NAMESPACE, queue=queue)
    body["spec"] |= spec
    if gates:
        body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": name} for name in gates]
    want = toy_jobs.GATES.twin(Request(operation=Operation.CREATE, object=body))
    assert stored(toys, body)["spec"] == want["spec"]


def test_a_toy_that_runs_stays_in_its_queue(toys: Ground) -> None:
    body = toy_jobs.toy("runs", namespace=NAMESPACE)
    toys.make(TOYS, body)
    patch = {"spec": {"suspend": False, "template": {"spec": {"schedulingGates": None}}}}
    resumed = toys.api.merge(f"{TOYS}/runs", patch)
    assert (resumed["spec"]["suspend"], resumed["spec"]["template"]["spec"]["schedulingGates"]) == (
        False,
        [{"name": keys.ADMISSION_GATE}],
    )
    moved = {**resumed, "metadata": {**resumed["metadata"], "labels": {keys.QUEUE_NAME: "other"}}}
    want = toy_jobs.QUEUE.twin(Request(operation=Operation.UPDATE, object=moved, old_object=resumed))
    assert want is not None

    def refusal() -> str:
        answer = toys.api.request("PUT", f"{TOYS}/runs", moved, query={"dryRun": "All"})
        return "" if answer.ok else str(answer.body["message"])

    assert waiting.eventually(refusal).endswith(f"denied request: {want}")
