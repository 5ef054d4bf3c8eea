"""RayClusters in a queue: KubeRay's own operator makes and deletes the pods."""

import pytest

from tests.e2e import rays
from tests.e2e.admission.ground import Ground, gates_of


@pytest.mark.accept("E1", part="a RayCluster grows by what quota allows, and shrinks, without being suspended")
@pytest.mark.accept("E16", part="a RayCluster that grows and shrinks, replayed at every resourceVersion")
def test_a_ray_cluster_grows_as_far_as_quota_goes_and_gives_back_what_it_no_longer_wants(site: Ground) -> None:
    queue = site.add_queue("4")
    ray = site.make_ray("ray", queue, rays.group(replicas=1, cpu="1"))
    site.wait_for_grant(ray, head=1, small=1)
    before = {pod["metadata"]["uid"] for pod in site.wait_for_running(ray, 2)}

    site.change("rayclusters", "ray", workerGroupSpecs=[rays.group(replicas=5, cpu="1")])
    site.wait_for_grant(ray, head=1, small=3)
    running = {pod["metadata"]["uid"] for pod in site.wait_for_running(ray, 4)}
    assert before < running
    assert len([pod for pod in site.pods(ray) if gates_of(pod)]) == 2
    assert not site.get("rayclusters", "ray")["spec"]["suspend"]

    site.change("rayclusters", "ray", workerGroupSpecs=[rays.group(replicas=1, cpu="1")])
    site.wait_for_grant(ray, head=1, small=1)
    later = site.make_job("later", queue, pods=2)
    site.wait_for_grant(later, main=2)
    site.wait_for_running(later, 2)
    site.wait_for_running(ray, 2)
