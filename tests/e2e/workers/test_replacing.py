"""Workers that never start: those that would be made otherwise now, or take too long, are replaced; others wait on."""

import datetime as dt
import secrets
from collections.abc import Iterator

import pytest

from tests.e2e import waiting
from tests.e2e.workers import ground, queue_servers
from tests.e2e.workers.test_lifecycle import wait_for_polls
from tools.local.plane import Plane

AT_ONCE = {"gracePeriodSeconds": "0"}
BEFORE = (dt.datetime.now(tz=dt.UTC) - dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def silent(served: Plane) -> Iterator[str]:
    """A node without a kubelet: what is bound to it never starts, and says what the test says."""
    name = f"silent-{secrets.token_hex(4)}"
    served.api.create("/api/v1/nodes", {"metadata": {"name": name}})
    yield name
    for pod in served.api.get("/api/v1/pods", {"fieldSelector": f"spec.nodeName={name}"})["items"]:
        meta = pod["metadata"]
        served.api.request("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", query=AT_ONCE)
    served.api.delete(f"/api/v1/nodes/{name}")


def bind(site: ground.Ground, pod: ground.Object, node: str) -> None:
    """Bind a pod to a node, as the scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    name = ground.name_of(pod)
    site.plane.api.create(f"{site.pod_path(name)}/binding", {"metadata": {"name": name}, "target": target})


def report(site: ground.Ground, pod: ground.Object, **status: object) -> None:
    """Change a pod's status, as its kubelet or the scheduler does."""
    site.plane.api.merge(f"{site.pod_path(ground.name_of(pod))}/status", {"status": status})


def finish(site: ground.Ground, pod: ground.Object) -> None:
    """Wait until a pod is told to go and nothing holds it but its kubelet, and let it go, as its kubelet does."""
    path = site.pod_path(ground.name_of(pod))

    def is_free() -> bool:
        meta = site.plane.api.get(path)["metadata"]
        return "deletionTimestamp" in meta and not meta.get("finalizers")

    waiting.eventually(is_free)
    site.plane.api.request("DELETE", path, query=AT_ONCE).required()


def scheduled(status: str, reason: str = "") -> list[ground.Object]:
    """Return the condition of a pod that the scheduler saw an hour ago."""
    return [{"type": "PodScheduled", "status": status, "reason": reason, "lastTransitionTime": BEFORE}]


def not_pulled(container: str) -> list[ground.Object]:
    waits = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    return [{"name": container, "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": waits}]


@pytest.mark.accept("W24")
@pytest.mark.usefixtures("node")
def test_a_worker_that_never_started_is_replaced_after_a_while_or_when_its_template_was_corrected(
    site: ground.Ground, queues: queue_servers.Queues, silent: str
) -> None:
    template = ground.waiting_pods("bad")
    template["spec"]["initContainers"] = [{"name": "before", "image": "example.com/nowhere:1"}]
    site.make_source("bad", template)
    site.make_pool("bad", queues.fill("bad", 3), poolCapacity=4, workerSpec__podTemplate__source__name="bad")
    late, sick, waits = site.wait_for_workers("bad", 3)

    # Trouble of an init container is told.
    bind(site, sick, silent)
    report(site, sick, initContainerStatuses=not_pulled("before"))
    site.wait_for_event("bad", "FailedWorker", "1 worker cannot start: ErrImagePull")
    site.wait_for_condition("bad", "Ready", status="False", reason="WorkersCannotStart")

    # Who has a node and does not start in time is replaced; who waits for a node, however long, is not.
    report(site, waits, conditions=scheduled("False", "Unschedulable"))
    bind(site, late, silent)
    wait_for_polls(queues, "bad")
    assert ground.name_of(late) in site.names("bad")
    report(site, late, conditions=scheduled("True"))
    site.wait_for_event("bad", "CleanUp", "it has a node and has not started within startTimeoutMinutes")
    finish(site, late)
    there = {pod["metadata"]["uid"] for pod in site.wait_for_workers("bad", 3)}
    assert there > {pod["metadata"]["uid"] for pod in (sick, waits)}
    assert late["metadata"]["uid"] not in there

    # A corrected template replaces all that never started, with a node or without.
    spec = {**ground.running_pods("bad")["spec"], "initContainers": None}
    site.plane.api.merge(site.source_path("bad"), {"spec": {"template": {"spec": spec}}})
    queues.fill("bad", 4)  # the template is read again for the next worker, else within half a minute
    site.wait_for_event("bad", "CleanUp", "what workers are made from has changed since")
    finish(site, sick)
    site.wait_for_status("bad", runningWorkers=4, workers=4)
    assert not there & {pod["metadata"]["uid"] for pod in site.workers("bad")}
    site.wait_for_condition("bad", "Ready", status="True")
