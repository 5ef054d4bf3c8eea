"""Two scalers on one group undo each other's work: while another one lives, ours leaves everything alone."""

from datetime import UTC, datetime

import pytest

from autoscaler.api import keys
from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.accept("G23")
def test_while_a_cluster_autoscaler_holds_its_lease_nothing_is_done_and_the_reason_is_told(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("shared", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(0, 1, 5))
    [node] = site.wait_nodes(1)
    spec = {"holderIdentity": "upstream-0", "leaseDurationSeconds": 15, "renewTime": _now()}
    site.plane.api.create(LEASES, {"metadata": {"name": "cluster-autoscaler"}, "spec": spec})
    try:
        runtime = start()
        site.wait_known(group)
        site.add_pod("waits", cpu="1900m")
        site.add_pod("waits-too", cpu="1900m")
        told = site.wait_told("waits-too", "NotTriggerScaleUp")
        assert "cluster-autoscaler (upstream-0) scales this cluster's nodes" in told
        site.delete_pods()
        assert "upstream-0" in site.group_status(pool, group)["reason"]
        site.plane.api.merge(f"{LEASES}/cluster-autoscaler", {"spec": {"renewTime": _now()}})
        site.add_pod("waits", cpu="4")
        site.wait_told("waits", "NotTriggerScaleUp")
        assert site.desired() == {group: 1}
        assert not site.marked()
        assert not runtime.entries("desired_set")
        assert not runtime.entries("node_marked")
    finally:
        site.plane.api.delete(f"{LEASES}/cluster-autoscaler")
    waiting.eventually(lambda: node in site.marked(), within_seconds=30)  # nobody else is there: ours goes on
    site.wait_nodes(0)


@pytest.mark.accept("G23")
def test_a_second_runtime_for_the_same_cluster_stands_by(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("twice")
    group = site.add_group(pool)
    other = f"other-{site.id}"
    site.add_namespace(other)
    first = start(pod="first")
    site.wait_known(group)
    second = start(pod="second", namespace=other)
    site.add_pod("pod")
    site.wait_bound("pod")
    assert [entry["after"] for entry in first.entries("desired_set")] == [1]
    assert not acting(second), "it must wait, whatever namespace it runs in"
    assert site.instances().total() == 1


@pytest.mark.accept("G31")
def test_a_cluster_autoscaler_is_known_by_its_image_and_by_who_holds_its_lease(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("named")
    group = site.add_group(pool)
    deployments = f"/apis/apps/v1/namespaces/{site.namespace}/deployments"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases"
    container = {"name": "main", "image": "mirror.example/autoscaling/cluster-autoscaler:v1.36.1"}
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "paused": True, "selector": {"matchLabels": {"x": "y"}}, "template": template}
    site.plane.api.create(deployments, {"metadata": {"name": "scaler"}, "spec": spec})
    start()
    site.wait_known(group)
    site.add_pod("waits")
    site.wait_told("waits", "NotTriggerScaleUp", f"cluster-autoscaler (Deployment {site.namespace}/scaler) scales")
    site.delete_pods()
    held = {"holderIdentity": "prod-cluster-autoscaler-0", "leaseDurationSeconds": 15, "renewTime": _now()}
    site.plane.api.create(leases, {"metadata": {"name": "anything"}, "spec": held})
    site.plane.api.delete(f"{deployments}/scaler")
    waiting.eventually(
        lambda: "(prod-cluster-autoscaler-0)" in site.group_status(pool, group).get("reason", ""), within_seconds=90
    )
    assert site.desired() == {}
    site.plane.api.delete(f"{leases}/anything")
    site.add_pod("goes")
    waiting.eventually(lambda: site.desired() == {group: 1}, within_seconds=90)


@pytest.mark.accept("G31")
def test_nodes_that_are_annotated_stay_and_go_once_they_are_not(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("kept", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(0, 4, 5))
    nodes = sorted(site.wait_nodes(4))
    path = "/api/v1/nodes"
    names = (keys.DO_NOT_DISRUPT, keys.KARPENTER_DO_NOT_DISRUPT, keys.SCALE_DOWN_DISABLED)
    for node, key in zip(nodes, names, strict=False):
        site.plane.api.merge(f"{path}/{node}", {"metadata": {"annotations": {key: "true"}}})
    start()
    site.wait_known(group)
    assert sorted(site.wait_nodes(3)) == nodes[:3]
    assert not site.marked()
    assert site.desired() == {group: 3}
    for node, key in zip(nodes, names, strict=False):
        site.plane.api.merge(f"{path}/{node}", {"metadata": {"annotations": {key: None}}})
    site.wait_nodes(0)


def acting(runtime: replicas.Replica) -> bool:
    """Tell whether a replica ever felt free to scale."""
    return any(entry["controller"] == "capacity" for entry in runtime.entries("acting"))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
