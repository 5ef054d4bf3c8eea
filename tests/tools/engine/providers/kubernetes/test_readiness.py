"""What is waited for, and until when."""

from typing import Any

import pytest

from tools.engine.providers.kubernetes import readiness


def deployment(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": {"replicas": 2} | spec,
        "status": {"observedGeneration": 2} | status,
    }


GOOD = {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (deployment(GOOD), None),
        (deployment(GOOD | {"observedGeneration": 1}), "has not been seen"),
        (deployment(GOOD | {"updatedReplicas": 1}), "1 of 2 pods are new"),
        (deployment(GOOD | {"replicas": 3}), "1 old pods"),
        (deployment(GOOD | {"availableReplicas": 0}), "0 of 2 pods are available"),
        (deployment({}, paused=True), None),
        (deployment({}, replicas=0), None),
    ],
)
def test_a_deployment_is_well_when_its_new_pods_are_available(found: dict[str, Any], want: str | None) -> None:
    said = readiness.problem(found)
    assert said is None if want is None else want in str(said)


def test_a_job_is_well_when_complete_and_hopeless_when_failed() -> None:
    job: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {}}
    assert readiness.problem(job) == "the Job is not complete"
    assert readiness.problem(job | {"spec": {"suspend": True}}) is None
    assert readiness.problem(job | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}) is None
    failed = job | {"status": {"conditions": [{"type": "Failed", "status": "True", "message": "backoff"}]}}
    with pytest.raises(readiness.HopelessError, match="backoff"):
        readiness.problem(failed)


def test_a_definition_is_well_when_established_and_served() -> None:
    definition: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {},
        "spec": {
            "group": "g.dev",
            "names": {"plural": "things"},
            "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
        },
    }
    assert readiness.problem(definition) == "it is not established"
    assert readiness.served_paths(definition) == ("/apis/g.dev/v1/things",)
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    assert readiness.problem(definition | {"status": established}) is None


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"selector": {"a": "b"}}, True),
        ({"selector": {"a": "b"}, "clusterIP": "None"}, False),
        ({"selector": {"a": "b"}, "type": "ExternalName"}, False),
        ({}, False),
    ],
)
def test_a_service_that_selects_pods_is_waited_for(spec: dict[str, Any], *, want: bool) -> None:
    assert readiness.is_waited_for({"apiVersion": "v1", "kind": "Service", "spec": spec}) is want


@pytest.mark.parametrize(
    ("kind", "status", "want"),
    [
        ("StatefulSet", {"readyReplicas": 1, "updatedReplicas": 1}, None),
        ("StatefulSet", {"readyReplicas": 0, "updatedReplicas": 1}, "0 of 1"),
        ("DaemonSet", {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 2}, None),
        ("DaemonSet", {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1}, "1 of 2"),
    ],
)
def test_sets_are_well_when_their_new_pods_are(kind: str, status: dict[str, Any], want: str | None) -> None:
    said = readiness.problem({"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": {}, "status": status})
    assert said is None if want is None else want in str(said)


def test_a_config_map_is_well_at_once() -> None:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    assert (readiness.is_waited_for(found), readiness.problem(found)) == (False, None)
