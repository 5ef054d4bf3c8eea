"""Static nodes before pools, and higher pools before lower ones, with the real scheduler and its default weights."""

import pytest

from autoscaler.api import keys
from tests.e2e.policies import ground
from tests.e2e.policies.ground import MEBI, Ground, Object

IMAGE = "registry.example/work:1"
BIG = {IMAGE: 1000 * MEBI}
"""As much as the scheduler counts for an image that a node has already."""


def deployment(name: str, replicas: int, spec: Object) -> Object:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def container(cpu: str) -> Object:
    return {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}


@pytest.mark.accept("P1")
@pytest.mark.parametrize("pool_images", [{}, BIG], ids=["image-nowhere", "image-on-pool-nodes"])
@pytest.mark.parametrize("is_exclusive", [False, True], ids=["instance-wide", "exclusive"])
def test_pods_fill_static_nodes_before_those_of_pools(
    here: Ground, *, pool_images: dict[str, int], is_exclusive: bool
) -> None:
    """Six pods of a Deployment, which the scheduler would rather spread, fill two static nodes; the rest goes on."""
    scope, pool = f"team-{here.id}", f"pool-{here.id}"
    here.add_pool(pool, owner=scope if is_exclusive else None)
    here.add_scope(scope, **{pool: 10})
    static = here.add_nodes("static", 2)
    taints = [ground.taint(keys.INSTANCE_POOL, pool)] if is_exclusive else []
    of_pool = here.add_nodes("pooled", 4, pool=pool, images=pool_images, taints=taints)
    namespace = here.add_namespace(f"work-{here.id}", scope)
    here.await_terms(namespace, 2)
    if is_exclusive:
        here.await_toleration(namespace, pool)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    here.make(path, deployment("web", 6, {"containers": [container("1200m")]}))
    assert set(here.nodes_of(namespace, 6)) == static
    here.api.merge(f"{path}/web", {"spec": {"replicas": 8}})
    nodes = here.nodes_of(namespace, 8)
    assert len([node for node in nodes if node in of_pool]) == 2, nodes


@pytest.mark.accept("P1")
def test_a_busy_static_node_is_still_preferred_to_empty_ones_of_a_pool(here: Ground) -> None:
    """Single pods, the image on pool nodes only, and the static node three quarters full."""
    scope, pool = f"team-{here.id}", f"pool-{here.id}"
    here.add_scope(scope, **{pool: 10})
    (static,) = here.add_nodes("static", 1)
    here.add_nodes("pooled", 3, pool=pool, images=BIG)
    namespace = here.add_namespace(f"work-{here.id}", scope)
    here.await_terms(namespace, 2)
    here.add_pod(namespace, "a-filler", cpu="3", nodeName=static)
    for number in range(4):
        here.add_pod(namespace, f"b-{number}", cpu="200m", image=IMAGE)
        assert here.nodes_of(namespace, number + 2) == [static] * (number + 2)


def test_unscoped_pods_go_by_the_taint_alone(here: Ground) -> None:
    (static,) = here.add_nodes("static", 1)
    here.add_nodes("pooled", 3, pool=f"pool-{here.id}")
    namespace = here.add_namespace(f"work-{here.id}")
    here.add_pod(namespace, "a")
    assert here.nodes_of(namespace, 1) == [static]
    assert "affinity" not in here.would_be(namespace)


@pytest.mark.accept("P10")
def test_pools_are_filled_by_priority_and_unlisted_ones_last(here: Ground) -> None:
    """One pod fills a node. Lower pools have the image and more nodes, an exclusive one among them."""
    scope = f"team-{here.id}"
    high, middle, low, other = (f"{name}-{here.id}" for name in ("high", "middle", "low", "other"))
    here.add_pool(low, owner=scope)
    here.add_scope(scope, **{low: -5, high: 10, middle: 0})
    order = [
        here.add_nodes("z-high", 1, pool=high),
        here.add_nodes("y-middle", 1, pool=middle, images=BIG),
        here.add_exclusive_nodes("x-low", 1, low),
        here.add_nodes("w-other", 2, pool=other, images=BIG),
    ]
    namespace = here.add_namespace(f"work-{here.id}", scope)
    here.await_terms(namespace, 4)
    here.await_toleration(namespace, low)
    one_per_node = [nodes for nodes in order for _ in nodes]
    for number, want in enumerate(one_per_node):
        here.add_pod(namespace, f"p-{number}", cpu="3", image=IMAGE)
        assert here.nodes_of(namespace, number + 1)[-1] in want, number


def test_what_a_pod_asks_for_itself_is_kept(here: Ground) -> None:
    scope, pool = f"team-{here.id}", f"pool-{here.id}"
    here.add_scope(scope, **{pool: 10})
    here.add_nodes("static", 1)
    (pooled,) = here.add_nodes("pooled", 1, pool=pool)
    namespace = here.add_namespace(f"work-{here.id}", scope)
    here.await_terms(namespace, 2)
    required = [{"matchExpressions": [{"key": keys.INSTANCE_POOL, "operator": "In", "values": [pool]}]}]
    preferred = [{"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }
    made = here.add_pod(namespace, "a", affinity=affinity)["spec"]["affinity"]["nodeAffinity"]
    assert made["requiredDuringSchedulingIgnoredDuringExecution"] == {"nodeSelectorTerms": required}
    terms = made["preferredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0] == preferred[0]
    assert [term["weight"] for term in terms[1:]] == [100, 12]
    here.add_pod(namespace, "b", nodeSelector={keys.INSTANCE_POOL: pool})
    assert here.nodes_of(namespace, 2) == [pooled] * 2
