"""RayClusters in a queue that grow and shrink: KubeRay's own operator makes and deletes the pods."""

from typing import Any

import pytest

from autoscaler.api import keys
from tests.e2e import rays, waiting
from tests.e2e.admission import ground
from tests.e2e.admission.ground import Ground, Object, gates_of, name_of, uid_of

ONCE_ADMITTED = [True, False]
"""Made suspended, admitted, and never suspended again."""


def scale(site: Ground, replicas: int, *named: Object, **fields: Any) -> None:
    """Do as Ray's autoscaler does: say how many workers are wanted, and name those that are to go."""
    if named:
        fields["scaleStrategy"] = {"workersToDelete": [name_of(each) for each in named]}
    site.change("rayclusters", "ray", workerGroupSpecs=[rays.group(replicas=replicas, cpu="1", **fields)])


def workers(site: Ground, ray: Object) -> list[Object]:
    """Return the workers that may run."""
    return [pod for pod in site.open_pods(ray) if pod["metadata"]["labels"][rays.NODE_TYPE] == "worker"]


def make_scaling(site: Ground, queue: str, *, replicas: int) -> Object:
    """Make a RayCluster that scales itself; its head has a core, half of it the autoscaler's."""
    groups = (rays.group(replicas=replicas, cpu="1"),)
    ray = site.make_ray("ray", queue, *groups, cpu="500m", enableInTreeAutoscaling=True)
    site.wait_for_grant(ray, head=1, small=replicas)
    site.wait_for_running(ray, 1 + replicas)
    return ray


@pytest.mark.accept("E1", part="a RayCluster that grows and shrinks is not suspended, and usage follows it")
@pytest.mark.accept("E2", part="RayClusters with in-tree autoscaling")
@pytest.mark.accept("E4", part="RayClusters that grow")
@pytest.mark.accept("E16", part="a RayCluster that grows and shrinks, replayed at every resourceVersion")
def test_a_ray_cluster_grows_as_far_as_quota_goes_and_gives_back_what_it_no_longer_wants(site: Ground) -> None:
    queue = site.add_queue("4")
    ray = make_scaling(site, queue, replicas=1)
    before = {uid_of(pod) for pod in site.open_pods(ray)}
    site.wait_for_usage(queue, usual="2")

    scale(site, 5)
    site.wait_for_grant(ray, head=1, small=3)
    running = site.wait_for_running(ray, 4)
    assert before < {uid_of(pod) for pod in running}
    assert len([pod for pod in site.pods(ray) if gates_of(pod)]) == 2
    said = "small: 3 of 5 pods are granted, 2 wait for quota"
    site.wait_for_condition(ray, "ResizeRequested", status="True", reason="ScalingUp", message=said)
    site.wait_for_usage(queue, usual="4")

    waiting_pods = [pod for pod in site.pods(ray) if gates_of(pod)]
    scale(site, 1, *waiting_pods, *[pod for pod in workers(site, ray) if uid_of(pod) not in before])
    site.wait_for_grant(ray, head=1, small=1)
    site.wait_for_condition(ray, "ResizeRequested", status="False")
    later = site.make_job("later", queue, pods=2)
    site.wait_for_grant(later, main=2)
    site.wait_for_running(later, 2)
    assert {uid_of(pod) for pod in site.wait_for_running(ray, 2)} == before
    site.wait_for_usage(queue, usual="4")
    assert site.suspensions(ray) == ONCE_ADMITTED


@pytest.mark.accept("E3", part="RayClusters")
@pytest.mark.accept("E9", part="RayClusters: the slices wait, though another flavor has room")
def test_each_new_replica_is_a_slice_of_the_parents_flavor_and_says_what_it_waits_for(site: Ground) -> None:
    spare = site.add_flavor(f"{site.namespace}-spare")
    queue = site.add_queue("", flavors={ground.FLAVOR: "2", spare: "9"})
    ray = make_scaling(site, queue, replicas=1)
    scale(site, 3)
    slices = waiting.eventually(lambda: there if len(there := site.slices(ray)) == 2 else None)
    assert slices is not None
    parent = site.workload(ray)
    [pods] = [each for each in parent["spec"]["podSets"] if each["name"] == "small"]
    for number, each in enumerate(sorted(slices, key=name_of)):
        assert name_of(each) == f"{name_of(parent)}-small-{number}"
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Workload", uid_of(parent), True)
        assert each["spec"]["queueName"] == queue
        assert each["spec"]["podSets"] == [{**pods, "count": 1}]

    def said() -> bool:
        told = [each for part in site.slices(ray) for each in part.get("status", {}).get("conditions", ())]
        want = "needs 1 cpu of flavor usual, 0 are free: 1 missing"
        assert [each["message"] for each in told if each["type"] == "QuotaReserved"] == [want] * 2
        return True

    waiting.eventually(said)
    assert site.granted(ray) == {"head": 1, "small": 1}

    site.set_quota(queue, "", flavors={ground.FLAVOR: "3", spare: "9"})
    site.wait_for_grant(ray, head=1, small=2)
    for pod in site.wait_for_running(ray, 3):
        assert pod["spec"]["nodeSelector"] == {ground.NODE_LABEL: ground.FLAVOR}
        assert pod["metadata"]["annotations"][keys.FLAVORS] == "cpu=usual,memory=usual"
    assert len(site.slices(ray)) == 1


@pytest.mark.accept("E4", part="RayClusters that shrink")
@pytest.mark.accept("E5", part="RayClusters")
def test_quota_is_free_when_the_worker_that_had_it_is_being_deleted_and_not_before(site: Ground) -> None:
    queue = site.add_queue("4")
    ray = make_scaling(site, queue, replicas=3)
    other = site.make_job("other", queue)

    scale(site, 2)  # and nobody is named: the operator lets all of them run
    said = "small: 1 more than the job wants keeps quota until as many pods are deleted (3 run now)"
    site.wait_for_condition(ray, "ResizeRequested", status="True", reason="ScalingDown", message=said)
    site.await_handled()
    assert site.granted(ray) == {"head": 1, "small": 3}
    assert site.granted(other) == {}

    named = workers(site, ray)[1]
    site.hold(named)
    scale(site, 2, named)
    site.wait_for_grant(ray, head=1, small=2)
    site.wait_for_grant(other, main=1)
    site.wait_for_condition(ray, "ResizeRequested", status="False")
    leaving = next(pod for pod in site.pods(ray) if uid_of(pod) == uid_of(named))
    assert "deletionTimestamp" in leaving["metadata"]
    site.hold(leaving, is_held=False)
    site.wait_for_running(ray, 3)
    assert site.suspensions(ray) == ONCE_ADMITTED


@pytest.mark.accept("E2", part="worker groups that are added to a RayCluster")
@pytest.mark.accept("E7", part="pods of a worker group that is added later are gated, and opened by count")
def test_a_worker_group_that_is_added_later_gets_quota_of_its_own(site: Ground) -> None:
    queue = site.add_queue("4")
    small, later = rays.group(cpu="1"), rays.group("later", 3, cpu="1")
    ray = site.make_ray("ray", queue, small)
    site.wait_for_grant(ray, head=1, small=1)
    site.change("rayclusters", "ray", workerGroupSpecs=[small, later])
    site.wait_for_grant(ray, head=1, small=1, later=2)
    running = site.wait_for_running(ray, 4)
    groups = [pod["metadata"]["labels"][rays.GROUP] for pod in running]
    assert sorted(groups) == ["headgroup", "later", "later", "small"]
    assert {each["name"]: each["count"] for each in site.workload(ray)["spec"]["podSets"]} == {
        "head": 1,
        "small": 1,
        "later": 3,
    }
    assert len([pod for pod in site.pods(ray) if keys.ADMISSION_GATE in gates_of(pod)]) == 1
    assert site.suspensions(ray) == ONCE_ADMITTED


@pytest.mark.accept("E7", part="the head and a worker of a RayCluster that come again pass again")
def test_pods_that_are_deleted_come_again_and_pass_again(site: Ground) -> None:
    queue = site.add_queue("2")
    ray = site.make_ray("ray", queue, rays.group(cpu="1"))
    site.wait_for_grant(ray, head=1, small=1)
    before = {uid_of(pod) for pod in site.wait_for_running(ray, 2)}
    [worker] = workers(site, ray)
    site.hold(worker)
    for pod in site.open_pods(ray):
        site.delete_pod(pod)

    def heads() -> list[Object]:
        return [pod for pod in site.wait_for_running(ray, 1) if uid_of(pod) not in before]

    assert len(waiting.eventually(heads)) == 1
    site.hold(worker, is_held=False)
    after = {uid_of(pod) for pod in site.wait_for_running(ray, 2)}
    assert not after & before
    assert site.granted(ray) == {"head": 1, "small": 1}
    assert site.suspensions(ray) == ONCE_ADMITTED


@pytest.mark.accept("E2", part="minReplicas and maxReplicas of a RayCluster")
def test_no_more_and_no_fewer_pods_count_than_the_operator_keeps(site: Ground) -> None:
    queue = site.add_queue("9")
    bounds: Object = {"minReplicas": 1, "maxReplicas": 2}
    ray = site.make_ray("ray", queue, rays.group(replicas=7, cpu="1", **bounds))
    site.wait_for_grant(ray, head=1, small=2)
    site.wait_for_running(ray, 3)
    scale(site, 0, **bounds)
    site.wait_for_grant(ray, head=1, small=1)
    site.wait_for_running(ray, 2)
    least = site.make_ray("least", queue, rays.group(replicas=0, cpu="1", **bounds))
    site.wait_for_grant(least, head=1, small=1)
    site.wait_for_running(least, 2)
    site.wait_for_usage(queue, usual="4")


@pytest.mark.accept("E3", part="a slice has the pods of one whole replica")
def test_replicas_of_several_hosts_are_granted_whole(site: Ground) -> None:
    queue = site.add_queue("6")
    ray = site.make_ray("ray", queue, rays.group(replicas=1, cpu="1", numOfHosts=2))
    site.wait_for_grant(ray, head=1, small=2)
    scale(site, 3, numOfHosts=2)
    site.wait_for_grant(ray, head=1, small=4)
    running = site.wait_for_running(ray, 5)
    replicas = [pod["metadata"]["labels"].get(rays.REPLICA_INDEX) for pod in running]
    assert sorted(filter(None, replicas)) == ["0", "0", "1", "1"]
    [waits] = site.slices(ray)
    assert [each["count"] for each in waits["spec"]["podSets"]] == [2]
    assert len([pod for pod in site.pods(ray) if gates_of(pod)]) == 2
    site.wait_for_usage(queue, usual="5")
