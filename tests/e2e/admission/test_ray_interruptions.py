"""RayClusters in a queue that are suspended, displaced, changed, or another's: KubeRay's operator does its part."""

import pytest

from autoscaler.api import keys
from tests.e2e import rays, waiting
from tests.e2e.admission.ground import Ground, Object, gates_of, name_of, uid_of

ADMITTED_TWICE = [True, False, True, False]
"""Made suspended and admitted, suspended and admitted again."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.mark.accept("E20", part="a RayCluster that is suspended by hand while it is admitted")
def test_a_ray_cluster_that_is_suspended_by_hand_is_resumed_and_told(site: Ground) -> None:
    queue = site.add_queue("2")
    ray = site.make_ray("ray", queue, rays.group(cpu="1"))
    site.wait_for_grant(ray, head=1, small=1)
    before = {uid_of(pod) for pod in site.wait_for_running(ray, 2)}
    site.change("rayclusters", "ray", suspend=True)
    site.wait_for_event("RayCluster", ray, "Resumed", f"spec.active of Workload {name_of(site.workload(ray))}")
    waiting.eventually(lambda: not before & {uid_of(pod) for pod in site.pods(ray)})
    site.wait_for_running(ray, 2)
    assert site.granted(ray) == {"head": 1, "small": 1}
    assert site.suspensions(ray) == ADMITTED_TWICE


@pytest.mark.accept("E10", part="a RayCluster displaces another, which goes whole and comes back as it first was")
def test_a_ray_cluster_gives_way_whole_and_comes_back_as_it_was_first_admitted(site: Ground) -> None:
    queue = site.add_queue("4", preemption={"withinClusterQueue": "LowerPriority"})
    low = site.make_ray("low", queue, rays.group(cpu="1"))
    site.wait_for_grant(low, head=1, small=1)
    site.change("rayclusters", "low", workerGroupSpecs=[rays.group(replicas=3, cpu="1")])
    site.wait_for_grant(low, head=1, small=3)
    running = site.wait_for_running(low, 4)
    held = next(pod for pod in running if pod["metadata"]["labels"][rays.NODE_TYPE] == "worker")
    site.hold(held)

    head = rays.head(cpu="1", priorityClassName=site.add_priority(1000))
    high = site.make_ray("high", queue, rays.group(cpu="1"), headGroupSpec=head)
    site.wait_for_condition(low, "Evicted", status="True", reason="Preempted")
    waiting.eventually(lambda: [uid_of(pod) for pod in site.pods(low)] == [uid_of(held)])
    site.await_handled()
    assert site.granted(low) == {"head": 1, "small": 3}, "it keeps its quota while a pod of it is there"
    assert site.granted(high) == {}
    assert site.slices(low) == []

    site.hold(held, is_held=False)
    site.wait_for_grant(high, head=1, small=1)
    site.wait_for_grant(low, head=1, small=1)
    site.wait_for_running(high, 2)
    site.wait_for_running(low, 2)
    assert len(waiting.eventually(lambda: site.slices(low))) == 2
    assert site.suspensions(low) == ADMITTED_TWICE

    site.api.delete(site.path("rayclusters", "high"))
    site.wait_for_grant(low, head=1, small=3)
    site.wait_for_running(low, 4)
    assert site.suspensions(low) == ADMITTED_TWICE


@pytest.mark.accept("E19", part="a RayCluster that a RayJob owns is left alone, and told so")
def test_a_ray_cluster_of_a_ray_job_runs_without_us(site: Ground) -> None:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob"}
    path = f"{rays.API}/namespaces/{site.namespace}/rayjobs"
    body = {**owner, "metadata": {"name": "train"}, "spec": {"managedBy": MULTIKUEUE}}
    uid = uid_of(site.api.create(path, body))
    ray = _owned(site, {**owner, "name": "train", "uid": uid, "controller": True})
    assert not ray["spec"].get("suspend")
    running = site.wait_for_running(ray, 2)
    assert not any(gates_of(pod) for pod in running)
    site.wait_for_event("RayCluster", ray, "LeftAlone", "owned by RayJob train")
    site.await_handled()
    assert uid_of(ray) not in {each["metadata"]["ownerReferences"][0]["uid"] for each in site.workloads()}
    site.api.delete(f"{path}/train")


def _owned(site: Ground, owner: Object) -> Object:
    """Make a queued RayCluster that somebody controls."""
    queue = site.add_queue("0")
    manifest = rays.cluster("ray", rays.group(cpu="1"), labels={keys.QUEUE_NAME: queue})
    manifest["metadata"]["ownerReferences"] = [owner]
    made: Object = site.api.create(site.path("rayclusters"), manifest)
    return made


@pytest.mark.accept("E19", part="a RayCluster whose workers ask for more is suspended and waits again")
def test_other_requests_of_a_ray_cluster_are_admitted_anew(site: Ground) -> None:
    queue = site.add_queue("4")
    ray = site.make_ray("ray", queue, rays.group(cpu="1"))
    site.wait_for_grant(ray, head=1, small=1)
    site.wait_for_running(ray, 2)
    site.change("rayclusters", "ray", workerGroupSpecs=[rays.group(cpu="2500m")])
    site.wait_for_event("RayCluster", ray, "Evicted", "the pod template of small asks for other resources")

    def requests() -> list[str]:
        pods = site.wait_for_running(ray, 2)
        return sorted(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods)

    waiting.eventually(lambda: requests() == ["1", "2500m"])
    assert site.granted(ray) == {"head": 1, "small": 1}
    site.wait_for_usage(queue, usual="3500m")
    assert site.suspensions(ray) == ADMITTED_TWICE

    site.change("rayclusters", "ray", workerGroupSpecs=[rays.group(cpu="4")])  # more than there is
    site.wait_for_condition(ray, "QuotaReserved", status="False")
    waiting.eventually(lambda: not site.pods(ray))
    assert site.granted(ray) == {}
    site.wait_for_usage(queue, usual="0")
