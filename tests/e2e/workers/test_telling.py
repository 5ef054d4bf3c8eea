"""What people are told: events, columns, `kubectl describe`, and what is wrong with a pool."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e import waiting
from tests.e2e.queues import servers
from tests.e2e.workers import conftest, ground, queue_servers
from tools.local import api

COLUMNS = [
    "NAME",
    "RUNNINGWORKERS",
    "PENDINGWORKERS",
    "QUEUESIZE",
    "CURRENTCAPACITY",
    "WORKERPOOLCLASSNAME",
    "STATUS",
    "POOLCAPACITY",
    "INTERVAL",
    "APIROOT",
]
MORE_COLUMNS = ["READY", "AGE"]
"""What we add after the seed's."""


@pytest.mark.accept("W16")
@pytest.mark.usefixtures("node")
def test_kubectl_shows_a_pool_in_the_seeds_columns(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("runs", ground.running_pods("runs"))
    endpoint = queues.fill("columns", 6)
    site.make_pool("columns", endpoint, poolCapacity=2, workerSpec__podTemplate__source__name="runs")
    site.wait_for_status("columns", runningWorkers=2, queueSize=6)
    heading, row = site.plane.kubectl("-n", site.namespace, "get", "wp").splitlines()
    assert heading.split() == [*COLUMNS, *MORE_COLUMNS]
    want = ["columns", "2", "0", "6", "0", conftest.SHARED_CLASS, "Active", "2", "00:00:01", endpoint, "True"]
    assert row.split()[:-1] == want  # its age changes
    wide = site.plane.kubectl("-n", site.namespace, "get", "wp", "-o", "wide").splitlines()
    assert (wide[0].split(), wide[1].split()[:-1]) == (heading.split(), want)


@pytest.mark.accept("W16")
@pytest.mark.accept("W17", part="kubectl describe shows events and their source")
def test_kubectl_describe_tells_the_story_of_a_pool(site: ground.Ground, queues: queue_servers.Queues) -> None:
    endpoint = queues.fill("story", 3)
    site.make_pool("story", endpoint, poolCapacity=2)
    site.wait_for_event("story", "CapacityReached")
    site.wait_for_status("story", pendingWorkers=2)
    text = site.plane.kubectl("-n", site.namespace, "describe", "wp", "story")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for want in ("Pool Capacity: 2", "Managed By: shared-operator", "Queue Size: 3", f"Queue Endpoint: {endpoint}"):
        assert want in lines, text
    told = {line.split()[1] for line in lines if line.startswith(("Normal ", "Warning "))}
    assert told == {"Adopted", "CreatedWorkers", "CapacityReached"}
    assert all(conftest.SHARED_IDENTITY in line for line in lines if line.startswith(("Normal ", "Warning ")))


@contextlib.contextmanager
def pods_cannot_be_deleted(site: ground.Ground) -> Iterator[None]:
    """Have the API server refuse the deletion of pods of one namespace."""
    name = f"keep-{site.namespace}"
    group = "/apis/admissionregistration.k8s.io/v1"
    policy = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
                ]
            },
            "matchConditions": [{"name": "here", "expression": f"request.namespace == '{site.namespace}'"}],
            "validations": [{"expression": "false", "message": "pods stay"}],
        },
    }
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    probe = {"metadata": {"name": "probe"}, "spec": ground.waiting_pods()["spec"]}
    site.plane.api.create(site.pod_path(), probe)
    site.plane.api.create(f"{group}/validatingadmissionpolicies", policy)
    site.plane.api.create(f"{group}/validatingadmissionpolicybindings", binding)
    try:
        dry = {"dryRun": "All"}
        path = site.pod_path("probe")
        waiting.eventually(lambda: not site.plane.api.request("DELETE", path, query=dry).ok)
        yield
    finally:
        site.plane.api.delete(f"{group}/validatingadmissionpolicybindings/{name}")
        site.plane.api.delete(f"{group}/validatingadmissionpolicies/{name}")


@pytest.mark.accept("W17")
def test_all_nine_events_are_told_with_the_operators_identity_and_counted(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_pool("again", queues.answer("again", servers.page(b"", 500)))
    site.make_pool("events", queues.fill("events", 3), poolCapacity=2)
    seen = [site.wait_for_event("events", reason) for reason in ("Adopted", "CreatedWorkers", "CapacityReached")]
    done, broken = site.wait_for_workers("events", 2)
    queues.fill("events", 0)
    site.wait_for_status("events", queueSize=0)
    site.end(done, "Succeeded")
    site.end(broken, "Failed")
    seen.append(site.wait_for_event("events", "FailedWorker", "1 worker failed"))
    seen.append(site.wait_for_event("events", "CleanUp"))
    queues.answer("events", servers.page(b"", 500))
    seen.append(site.wait_for_event("events", "FailedToReconcile"))
    queues.fill("events", 1)
    site.wait_for_workers("events", 1)
    site.change("events", status="Paused")
    seen.append(site.wait_for_event("events", "Paused"))
    with pods_cannot_be_deleted(site):
        site.plane.kubectl("-n", site.namespace, "delete", "--wait=false", "wp", "events")
        seen.append(site.wait_for_event("events", "FailedCleanup", "pods stay"))
        assert not site.is_gone("events")
        assert len(site.workers("events")) == 1
    waiting.eventually(lambda: site.is_gone("events"), within_seconds=60)
    assert not site.workers("events")
    site.make_pool("closes", queues.fill("closes", 0))
    site.change("closes", status="Shutdown")
    seen.append(site.wait_for_event("closes", "Shutdown"))
    want = {
        "Adopted": "Normal",
        "CreatedWorkers": "Normal",
        "CapacityReached": "Warning",
        "FailedWorker": "Warning",
        "CleanUp": "Normal",
        "FailedToReconcile": "Warning",
        "Paused": "Normal",
        "Shutdown": "Normal",
        "FailedCleanup": "Warning",
    }
    assert {event["reason"]: event["type"] for event in seen} == want
    assert {event["source"]["component"] for event in seen} == {conftest.SHARED_IDENTITY}
    wait_until_counted(site, "again", "FailedToReconcile", 3)


def wait_until_counted(site: ground.Ground, pool: str, reason: str, count: int) -> None:
    """Wait until something was told so often, in one event."""

    def counted() -> bool:
        (event,) = [event for event in site.events(pool) if event["reason"] == reason]
        assert event["count"] >= count, event
        return bool(event["lastTimestamp"] > event["firstTimestamp"])

    waiting.eventually(counted, within_seconds=30)


@pytest.mark.accept("W9")
def test_a_container_that_is_not_there_is_told_and_works_once_corrected(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_pool("wrong", queues.fill("wrong", 1), workerSpec__podTemplate__containerName="main")
    event = site.wait_for_event("wrong", "FailedToReconcile", "no container main")
    assert "it has worker" in event["message"]
    waiting.eventually(lambda: site.condition("wrong", "Ready").get("reason") == "BadTemplate")
    assert not site.workers("wrong")
    site.change("wrong", workerSpec={"podTemplate": {"containerName": "worker"}})
    site.wait_for_workers("wrong", 1)
    waiting.eventually(lambda: site.condition("wrong", "Ready")["status"] == "True")


@pytest.mark.accept("W9")
def test_a_source_that_is_not_there_is_told_even_while_no_worker_is_needed(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    elsewhere = {"workerSpec__podTemplate__source__name": "absent"}
    site.make_pool("orphan", queues.fill("orphan", 0), **elsewhere)
    site.wait_for_event("orphan", "FailedToReconcile", "Deployment absent")
    waiting.eventually(lambda: site.condition("orphan", "Ready").get("reason") == "BadTemplate")
    site.make_source("absent")
    waiting.eventually(lambda: site.condition("orphan", "Ready")["status"] == "True")
    queues.fill("orphan", 1)
    site.wait_for_workers("orphan", 1)


@pytest.mark.accept("W9")
@pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        ("workerSpec__idleTimeoutMinutes", 0, "idleTimeoutMinutes"),
        ("workerSpec__podTemplate__source__kind", "StatefulSet", "kind"),
    ],
)
def test_what_can_never_work_is_refused_by_the_api_server(
    site: ground.Ground, field: str, value: object, want: str
) -> None:
    with pytest.raises(api.RefusedError, match=want):
        site.make_pool("never", "http://queue/length", **{field: value})
