"""Idle instances go, a few at a time; none that has work, none below the smallest size, and no mark is left behind."""

import contextlib
import signal
from collections.abc import Iterator

import pytest

from autoscaler.api import keys
from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site
from tools.local.components import Component

AT_ONCE = 10


def most_at_once(runtime: replicas.Replica) -> int:
    """Return how many instances were on their way out at once, by what the runtime told."""
    told = [*runtime.entries("node_marked"), *runtime.entries("instance_ended")]
    leaving: set[str] = set()
    most = 0
    for entry in sorted(told, key=lambda each: each["timestamp"]):
        change = leaving.add if entry["event"] == "node_marked" else leaving.discard
        change(entry["node"])
        most = max(most, len(leaving))
    return most


@pytest.mark.accept("G11")
def test_empty_nodes_go_in_bulk_down_to_the_smallest_size_and_never_one_with_work(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("idle", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(2, 14, 15), labels={"site": site.id})
    nodes = list(site.wait_nodes(14))
    site.add_pod("works", nodeName=nodes[0])
    run_everywhere(site)
    runtime = start()
    site.wait_nodes(2)
    assert most_at_once(runtime) == AT_ONCE
    assert site.pods()["works"]["spec"]["nodeName"] == nodes[0]
    assert nodes[0] in site.nodes()
    assert site.desired() == {group: 2}
    waiting.eventually(lambda: site.group_status(pool, group).get("instances") == 2)
    assert not site.marked()
    ended = runtime.entries("instance_ended")
    marked = {entry["node"]: entry["timestamp"] for entry in runtime.entries("node_marked")}
    assert len(ended) == 12
    assert all(marked[entry["node"]] < entry["timestamp"] for entry in ended), "each was marked first"
    assert site.instances() == {"running": 2, "ended": 12}, "none was started anew"


def run_everywhere(site: Site) -> None:
    """Run a pod on each of the site's nodes that keeps none of them."""
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "nodeSelector": {"site": site.id},
            "containers": [{"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "100m"}}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    path = f"/apis/apps/v1/namespaces/{site.namespace}/daemonsets"
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    site.plane.api.create(path, {"metadata": {"name": "agent"}, "spec": spec})
    waiting.eventually(lambda: set(site.bound().values()) == set(site.nodes()))


@pytest.mark.accept("G11")
def test_a_marked_node_that_gets_a_pod_is_spared_and_takes_pods_again(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("spared", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(0, 2, 5))
    site.wait_nodes(2)
    runtime = start()
    lucky = waiting.eventually(lambda: next(iter(site.marked()), None))
    assert lucky is not None
    site.add_pod("late", nodeName=lucky)
    waiting.eventually(lambda: runtime.entries("node_spared"))
    site.wait_nodes(1)
    waiting.eventually(lambda: not site.marked())
    assert list(site.nodes()) == [lucky]
    assert site.desired() == {group: 1}
    site.add_pod("next", cpu="100m")  # the scheduler uses it again
    site.wait_bound("next")
    assert site.bound()["next"] == lucky


def test_a_node_whose_instance_ends_takes_no_pod_for_as_long_as_it_is_there(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("ending", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(0, 1, 5))
    [node] = site.wait_nodes(1)
    runtime = start()
    waiting.eventually(lambda: node in site.marked())
    with frozen_fleet(site):  # as with EC2, where an instance takes a while to shut down
        waiting.eventually(lambda: runtime.entries("instance_ended"))
        waiting.eventually(lambda: site.group_status(pool, group).get("instances") == 0)
        site.add_pod("late")
        waiting.eventually(lambda: site.bound() or "TriggeredScaleUp" in site.events("late"))
        assert not site.bound()
        assert node in site.marked()
    site.wait_bound("late")
    assert site.instances() == {"running": 1, "ended": 1}


@contextlib.contextmanager
def frozen_fleet(site: Site) -> Iterator[None]:
    """Keep nodes from coming and going with their instances."""
    site.plane.send(Component.NODE_REGISTRAR, signal.SIGSTOP)
    try:
        yield
    finally:
        site.plane.send(Component.NODE_REGISTRAR, signal.SIGCONT)


@pytest.mark.accept("G11")
def test_marks_that_a_dead_runtime_left_are_swept_at_the_start(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("swept")
    site.add_group(pool, sizes=(0, 3, 5))
    nodes = list(site.wait_nodes(3))
    stale = {"key": keys.REMOVING, "value": "Idle", "effect": "NoSchedule"}
    theirs = {"key": "example.com/theirs", "value": "x", "effect": "NoSchedule"}
    for name, given in zip(nodes, ([stale], [stale, theirs], [theirs]), strict=True):
        site.plane.api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": given}})
    site.add_pod("works", nodeName=nodes[0])
    start()

    def taints() -> list[list[str]]:
        there = site.nodes()
        return [[taint["key"] for taint in there[name]["spec"].get("taints", ())] for name in nodes]

    want = [[], [theirs["key"]], [theirs["key"]]]
    waiting.eventually(lambda: taints() == want, within_seconds=30)
    assert len(site.nodes()) == 3
