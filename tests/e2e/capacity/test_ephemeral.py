"""Ephemeral pools on real parts: one pod for each instance, also when pods race for it and whoever leads is killed."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.api import keys, manifests
from autoscaler.api.policies.pools import daemon_sets, pool_tolerations
from tests.e2e import waiting
from tests.e2e.capacity import conftest, test_kills
from tests.e2e.capacity.site import PATIENCE_SECONDS, Object, Site
from tools.local.components import Component
from tools.local.plane import Plane

TAINTS = {keys.RESERVED_FOR: f"{keys.RESERVED_FOR_NONE}:NoSchedule"}
POLICIES = (pool_tolerations.UNFOUNDED, daemon_sets.POLICY)
MERGE = "application/merge-patch+json"


@pytest.fixture
def policed(capacity_plane: Plane) -> Iterator[None]:
    """Have the policies in force that say who may go to such instances, for the time of one test."""
    made = manifests.dump([manifest for policy in POLICIES for manifest in policy.manifests()])
    capacity_plane.kubectl("apply", "--server-side", "-f", "-", stdin=made)
    forged = {"key": keys.RESERVED_FOR, "operator": "Exists"}
    body = {
        "metadata": {"name": "forged"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "tolerations": [forged]},
    }
    path, query = "/api/v1/namespaces/default/pods", {"dryRun": "All"}
    waiting.eventually(lambda: capacity_plane.api.request("POST", path, body, query=query).status == 422)
    yield
    capacity_plane.kubectl("delete", "-f", "-", stdin=made)


def kept_for(node: Object) -> str:
    """Return what a node's taint says."""
    found: str = next(taint["value"] for taint in node["spec"]["taints"] if taint["key"] == keys.RESERVED_FOR)
    return found


def end(site: Site, *names: str) -> None:
    """Let pods end, as their kubelets would report it."""
    for name in names:
        path = f"/api/v1/namespaces/{site.namespace}/pods/{name}/status"
        site.plane.api.merge(path, {"status": {"phase": "Succeeded"}})


def serve(site: Site, *names: str) -> dict[str, str]:
    """Make pods, all at once, and wait until each has an instance of its own; return which."""
    for name in names:
        site.add_pod(name, cpu="100m")
    site.wait_bound(*names)
    found = {name: node for name, node in site.bound().items() if name in names}
    assert len(set(found.values())) == len(names)
    return found


def wait_all_free(site: Site, used: set[str], *, count: int) -> None:
    """Wait until so many instances are there, and nobody has used any of them."""

    def all_free() -> bool:
        nodes = site.nodes()
        assert len(nodes) == count, sorted(nodes)
        assert not used & set(nodes)
        return {kept_for(node) for node in nodes.values()} == {keys.RESERVED_FOR_NONE}

    waiting.eventually(all_free, within_seconds=3 * PATIENCE_SECONDS)


@pytest.mark.accept("P15")
@pytest.mark.usefixtures("policed")
def test_pods_that_race_for_an_instance_get_one_each_and_none_is_used_twice(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("once", ephemeral=True)
    group = site.add_group(pool, sizes=(1, 1, 6), taints=TAINTS)
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
    }
    daemon_set = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{site.namespace}/daemonsets"
    site.plane.api.create(path, {"metadata": {"name": "agent"}, "spec": daemon_set})
    site.wait_nodes(1)
    start()
    site.wait_known(group)
    first = serve(site, *(f"first-{number}" for number in range(5)))
    pods, nodes = site.pods(), site.nodes()
    assert {name: kept_for(nodes[node]) for name, node in first.items()} == {
        name: pods[name]["metadata"]["uid"] for name in first
    }

    def agents() -> set[str]:
        return {node for name, node in site.bound().items() if name.startswith("agent")}

    # What every node runs comes there too, as soon as the DaemonSet controller gets round to it.
    waiting.eventually(lambda: set(first.values()) <= agents(), within_seconds=PATIENCE_SECONDS)
    end(site, *list(first)[:3])
    site.delete_pods(*list(first)[3:])
    used = set(first.values())
    wait_all_free(site, used, count=1)
    assert site.desired() == {group: 1}
    second = serve(site, "second-0", "second-1")
    assert not used & set(second.values())
    end(site, *second)
    used |= set(second.values())
    wait_all_free(site, used, count=1)
    assert site.instances() == {"running": 1, "ended": 7}, "as many as there were pods, and the one that waits"


@contextlib.contextmanager
def frozen_scheduler(site: Site) -> Iterator[None]:
    """Keep pods from getting nodes."""
    site.plane.send(Component.SCHEDULER, signal.SIGSTOP)
    try:
        yield
    finally:
        site.plane.send(Component.SCHEDULER, signal.SIGCONT)


@pytest.mark.accept("P15")
@pytest.mark.usefixtures("policed")
def test_an_instance_whose_pod_vanishes_is_free_again_and_nobody_else_can_claim_it_before(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("vacant", ephemeral=True)
    group = site.add_group(pool, sizes=(0, 0, 1), taints=TAINTS)
    start()
    site.wait_known(group)
    site.add_pod("leaves", cpu="100m")
    waiting.eventually(site.desired)
    with frozen_scheduler(site):
        uid = site.pods()["leaves"]["metadata"]["uid"]
        waiting.eventually(lambda: [kept_for(node) for node in site.nodes().values()] == [uid])
        assert claim(site, "thief", uid) == 422
        site.delete_pods("leaves")
        waiting.eventually(lambda: [kept_for(node) for node in site.nodes().values()] == ["none"])
    site.wait_bound("thief")
    assert site.instances() == {"running": 1}, "it was not replaced"


def claim(site: Site, name: str, uid: str) -> int:
    """Make a pod and let it tolerate what is kept for another; return the API server's answer."""
    site.add_pod(name, cpu="100m")
    path = f"/api/v1/namespaces/{site.namespace}/pods/{name}"
    more = {"key": keys.RESERVED_FOR, "operator": "Equal", "value": uid, "effect": "NoSchedule"}
    given = site.plane.api.get(path)["spec"]["tolerations"]
    changes = {"spec": {"tolerations": [*given, more]}}
    return site.plane.api.request("PATCH", path, changes, content_type=MERGE).status


def wait_claimed(site: Site, *names: str) -> None:
    """Wait until an instance is kept for any of these pods."""
    pods = site.pods()
    uids = {pods[name]["metadata"]["uid"] for name in names}
    waiting.eventually(lambda: any(kept_for(node) in uids for node in site.nodes().values()))


@pytest.mark.accept("P15")
def test_a_leader_killed_while_it_gives_instances_away_leaves_one_pod_to_each(site: Site, tmp_path: Path) -> None:
    pool = site.add_pool("killed", ephemeral=True)
    group = site.add_group(pool, sizes=(2, 2, 8), taints=TAINTS)
    site.wait_nodes(2)
    used: set[str] = set()
    with test_kills.Pair(site, tmp_path) as pair:
        site.wait_known(group)
        for wave in range(3):
            leader = waiting.eventually(pair.leader)
            assert leader is not None
            names = [f"pod-{wave}-{number}" for number in range(4)]
            for name in names:
                site.add_pod(name, cpu="100m")
            wait_claimed(site, *names)
            leader.send(signal.SIGKILL)
            waiting.eventually(lambda: leader.process.poll() is not None)  # noqa: B023  # called in this round only
            pair.revive()
            site.wait_bound(*names)
            found = {site.bound()[name] for name in names}
            assert len(found) == len(names)
            assert not found & used
            used |= found
            end(site, *names)
        wait_all_free(site, used, count=2)
