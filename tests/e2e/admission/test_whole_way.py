"""From a queue to a node and back: admission says which pods may run and where, capacity starts nodes for these.

One RayCluster, two flavors, each with a pool and an Auto Scaling group of its own; nodes of the second one are tainted.
A pod fills a node, so that nodes can be counted by pods.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import rays, replicas, waiting
from tests.e2e.admission import ground
from tests.e2e.admission.ground import Ground, Object, gates_of, name_of
from tests.e2e.capacity.site import WHOLE_NODE, Site
from tools.local.api import Api
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_rules import AsgRules
from tools.local.groups import GROUP_LABEL
from tools.local.plane import Plane

CONTROLLERS = ("--controllers", "admission,capacity")
PLAIN, TAINTED = "plain", "tainted"
TAINT = {"key": ground.NODE_LABEL, "value": TAINTED, "effect": "NoSchedule"}
TOLERATION = {"key": ground.NODE_LABEL, "operator": "Equal", "value": TAINTED, "effect": "NoSchedule"}
IDLE_SECONDS = 2
QUOTA = {1: "1500m", 3: "4500m", 5: "7500m"}
"""The cpu of so many pods."""


@pytest.fixture
def nodes(admission_plane: Plane, runtime_api: Api) -> Iterator[Site]:
    """Pools and Auto Scaling groups, cleared away in the end."""
    with AsgRules.start(admission_plane.aws_endpoint, Pace(pending_seconds=0.2)) as asg_rules:
        made = Site(plane=admission_plane, asg_rules=asg_rules, remover=runtime_api)
        try:
            made.open()
            yield made
        finally:
            made.close()


@pytest.fixture
def _nodes_of_others(admission_plane: Plane) -> Iterator[None]:
    """Close the node that is always there: room on it would hide that a node is started for nobody."""
    path = "/api/v1/nodes/usual"
    admission_plane.api.merge(path, {"spec": {"unschedulable": True}})
    yield
    admission_plane.api.merge(path, {"spec": {"unschedulable": None}})


@contextlib.contextmanager
def running(nodes: Site, kubeconfig: Path) -> Iterator[replicas.Replica]:
    """Run admission and capacity in one process."""
    with replicas.Replica(
        kubeconfig,
        ground.RUNTIME_NAMESPACE,
        rays.unique("both"),
        *(*CONTROLLERS, "--cluster", nodes.cluster, "--pod-name", "one"),
        program=replicas.RUNTIME,
        environment={**nodes.plane.environment, "AWS_ENDPOINT_URL": nodes.asg_rules.url},
    ) as replica:
        yield replicas.ready(replica)
        assert not replica.entries("cycle_failed"), replica.entries("cycle_failed")


def add_group(nodes: Site, kind: str, taints: dict[str, str] | None = None) -> str:
    """Make a pool with one Auto Scaling group."""
    pool = nodes.add_pool(kind, limits__maxIdleSeconds=IDLE_SECONDS)
    return nodes.add_group(pool, labels={ground.NODE_LABEL: kind}, taints=taints)


def scale(site: Ground, replicas: int, *named: Object) -> None:
    """Do as Ray's autoscaler does."""
    group = rays.group(replicas=replicas, cpu=WHOLE_NODE)
    if named:
        group["scaleStrategy"] = {"workersToDelete": [name_of(each) for each in named]}
    site.change("rayclusters", "ray", workerGroupSpecs=[group])


def is_worker(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"][rays.NODE_TYPE] == "worker")


def groups_of(nodes: Site, pods: list[Object]) -> Counter[str]:
    """Count pods by the Auto Scaling group of their node; no two of them share a node."""
    there = nodes.nodes()
    names = [pod["spec"]["nodeName"] for pod in pods]
    assert len(set(names)) == len(names)
    return Counter(there[name]["metadata"]["labels"][GROUP_LABEL] for name in names)


@pytest.mark.accept("E1", part="from the queue to the node and back")
@pytest.mark.accept("E5", part="what a shrunk RayCluster gave up, its nodes included, is gone")
@pytest.mark.accept("E7", part="opened pods carry their flavor, and nodes are started for exactly these")
@pytest.mark.accept("E17", part="partial scale-up of a RayCluster, with its nodes")
@pytest.mark.usefixtures("_nodes_of_others")
def test_a_ray_cluster_grows_and_shrinks_with_its_quota_and_its_nodes(
    alone: Ground, nodes: Site, runtime_kubeconfig: Path
) -> None:
    plain = add_group(nodes, PLAIN)
    tainted = add_group(nodes, TAINTED, taints={ground.NODE_LABEL: f"{TAINTED}:NoSchedule"})
    alone.add_flavor(PLAIN)
    alone.add_flavor(TAINTED, nodeTaints=[TAINT], tolerations=[TOLERATION])
    queue = alone.add_queue("", flavors={PLAIN: QUOTA[1], TAINTED: QUOTA[3]})
    with running(nodes, runtime_kubeconfig):
        nodes.wait_known(plain, tainted)

        # 1 The head has the first flavor for itself; the worker goes to the second.
        ray = alone.make_ray("ray", queue, rays.group(cpu=WHOLE_NODE), cpu="1", enableInTreeAutoscaling=True)
        first = alone.wait_for_running(ray, 2)
        assert groups_of(nodes, first) == {plain: 1, tainted: 1}

        # 2 It grows: two of four new workers are admitted, and get nodes.
        scale(alone, 5)
        alone.wait_for_grant(ray, head=1, small=3)
        some = alone.wait_for_running(ray, 4)
        assert groups_of(nodes, some) == {plain: 1, tainted: 3}
        for pod in some:
            kind = TAINTED if is_worker(pod) else PLAIN
            assert pod["spec"]["nodeSelector"] == {ground.NODE_LABEL: kind}
            assert (TOLERATION in pod["spec"]["tolerations"]) == is_worker(pod)
        assert len(alone.slices(ray)) == len([pod for pod in alone.pods(ray) if gates_of(pod)]) == 2
        alone.wait_for_usage(queue, plain="1500m", tainted=QUOTA[3])
        assert nodes.desired() == {plain: 1, tainted: 3}, "nobody starts a node for a gated pod"
        assert nodes.instances() == {"running": 4}

        # 3 The rest is admitted when there is quota for it.
        alone.set_quota(queue, "", flavors={PLAIN: QUOTA[1], TAINTED: QUOTA[5]})
        alone.wait_for_grant(ray, head=1, small=5)
        assert groups_of(nodes, alone.wait_for_running(ray, 6)) == {plain: 1, tainted: 5}
        assert nodes.instances() == {"running": 6}
        assert alone.slices(ray) == []

        # 4 It shrinks: quota and nodes are given back.
        scale(alone, 1, *[pod for pod in alone.open_pods(ray) if is_worker(pod)][1:])
        alone.wait_for_grant(ray, head=1, small=1)
        alone.wait_for_usage(queue, plain="1500m", tainted=QUOTA[1])
        nodes.wait_nodes(2)
        assert nodes.desired() == {plain: 1, tainted: 1}
        assert nodes.instances() == {"running": 2, "ended": 4}
        assert len(alone.wait_for_running(ray, 2)) == 2
        assert alone.suspensions(ray) == [True, False]

        # 5 It goes, and all is as it was.
        alone.api.delete(alone.path("rayclusters", "ray"))
        alone.wait_for_usage(queue, plain="0", tainted="0")
        nodes.wait_nodes(0)
        waiting.eventually(lambda: nodes.instances() == {"ended": 6})
