"""Whose pools are whose: scopes, classes, and two operators that want the same ones."""

import secrets
from pathlib import Path

import pytest

from autoscaler.api import controllers
from autoscaler.api.permissions import WorkerScope
from components.access import rbac
from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, ground, queue_servers
from tools.local import tokens

ACCOUNT = "sluice"
RBAC = "rbac.authorization.k8s.io"


def wait_for_beats(queues: queue_servers.Queues, site: ground.Ground, name: str) -> None:
    """Wait while an operator reads a pool's queue a few times: it had the time to do what it should not."""
    before = len(queues.asked(name))
    waiting.eventually(lambda: len(queues.asked(name)) >= before + 2)
    assert not site.is_gone(name)


def is_untouched(site: ground.Ground, name: str) -> bool:
    pool = site.pool(name)
    touched = pool["metadata"].get("finalizers") or pool.get("status") or site.events(name) or site.workers(name)
    return not touched


def other_namespace(site: ground.Ground, class_name: str | None = None) -> ground.Ground:
    """Make a second namespace with a source, for pools of the same class or of another."""
    name = f"{site.namespace}-b"
    site.plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    waiting.eventually(lambda: site.plane.api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    made = ground.Ground(plane=site.plane, namespace=name, class_name=class_name or site.class_name)
    made.make_source()
    return made


def remove_namespace(site: ground.Ground) -> None:
    site.clear()
    site.plane.api.delete(f"/api/v1/namespaces/{site.namespace}")


def account(site: ground.Ground, path: Path) -> Path:
    """Give a ServiceAccount of a namespace what the stack gives the runtime there, and write its kubeconfig."""
    roles = rbac.runtime_roles([controllers.WORKERS], scope=WorkerScope.NAMESPACE, classes=[None])
    name = f"{ACCOUNT}-{secrets.token_hex(4)}"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": site.namespace}
    create, api = site.plane.api.create, f"/apis/{RBAC}/v1"
    create(f"/api/v1/namespaces/{site.namespace}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    wide = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    create(f"{api}/clusterroles", {"metadata": {"name": name}, "rules": roles.cluster})
    create(f"{api}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": wide, "subjects": [subject]})
    narrow = {"apiGroup": RBAC, "kind": "Role", "name": name}
    within = f"{api}/namespaces/{site.namespace}"
    rules = [*roles.own_namespace, *roles.secret_namespaces]
    create(f"{within}/roles", {"metadata": {"name": name}, "rules": rules})
    create(f"{within}/rolebindings", {"metadata": {"name": name}, "roleRef": narrow, "subjects": [subject]})
    tokens.write_kubeconfig(site.plane.api, path, namespace=site.namespace, service_account=ACCOUNT)
    return path


@pytest.mark.accept("W3")
def test_an_operator_of_a_namespace_needs_a_role_there_and_leaves_the_others_alone(
    alone: ground.Ground, queues: queue_servers.Queues, start: conftest.Start, tmp_path: Path
) -> None:
    other = other_namespace(alone)
    try:
        alone.make_secret("key", ApiKey="x")
        alone.make_pool("near", queues.fill("near", 2), queue__source__secretName="key")
        other.make_pool("far", queues.fill("far", 2))
        config = account(alone, tmp_path / "account.kubeconfig")
        replica = replicas.ready(start("local", alone.namespace, config=config))
        alone.wait_for_workers("near", 2)
        alone.wait_for_status("near", managedBy="local")
        wait_for_beats(queues, alone, "near")
        assert is_untouched(other, "far")
        assert not queues.asked("far")
        alone.plane.api.delete(alone.pool_path("near"))
        waiting.eventually(lambda: alone.is_gone("near"))
        assert "forbidden" not in replica.log.read_text()
    finally:
        remove_namespace(other)


@pytest.mark.accept("W3")
def test_an_operator_of_the_cluster_handles_the_pools_of_all_namespaces(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    other = other_namespace(site)
    try:
        site.make_pool("same", queues.fill("here", 1))
        other.make_pool("same", queues.fill("there", 2))
        site.wait_for_workers("same", 1)
        other.wait_for_workers("same", 2)
        site.wait_for_status("same", queueSize=1, workers=1)
        other.wait_for_status("same", queueSize=2, workers=2)
    finally:
        remove_namespace(other)


@pytest.mark.accept("W3")
def test_any_other_scope_is_an_error(start: conftest.Start) -> None:
    replica = start("lost", "default", "--scope", "galaxy")
    assert replica.wait() == 2
    assert "--scope or SLUICE_SCOPE: 'galaxy': Input should be 'namespace' or 'cluster'" in replica.log.read_text()


@pytest.mark.accept("W4")
def test_a_pool_is_handled_by_the_operator_of_its_class_alone(
    alone: ground.Ground, queues: queue_servers.Queues, start: conftest.Start
) -> None:
    alone.make_pool("classless", queues.fill("classless", 1))
    alone.make_pool("explicit", queues.fill("explicit", 1), workerPoolClassName=None)
    alone.make_pool("fast", queues.fill("fast", 1), workerPoolClassName="fast")
    alone.make_pool("nobody", queues.fill("nobody", 1), workerPoolClassName="nobody")
    default = start("default-operator", alone.namespace)
    fast = start("fast-operator", alone.namespace, "--class-name", "fast", "--no-default-class")
    want = {"classless": "default-operator", "explicit": "default-operator", "fast": "fast-operator"}
    for pool, identity in want.items():
        alone.wait_for_workers(pool, 1)
        alone.wait_for_status(pool, managedBy=identity)
    wait_for_beats(queues, alone, "fast")
    wait_for_beats(queues, alone, "classless")
    assert is_untouched(alone, "nobody")
    for replica in (default, fast):
        assert not rival_metric(replica), "they share nothing"
    for pool, identity in want.items():
        assert {event["source"]["component"] for event in alone.events(pool)} == {identity}

    alone.change("fast", workerPoolClassName=None)
    alone.wait_for_status("fast", managedBy="default-operator")
    adopted = [event["message"] for event in alone.events("fast") if event["reason"] == "Adopted"]
    assert sorted(adopted) == ["adopted by default-operator", "adopted by fast-operator"]
    wait_for_beats(queues, alone, "fast")
    assert len(alone.workers("fast")) == 1, "its worker came along"


@pytest.mark.accept("W4")
def test_a_second_operator_of_the_default_class_says_so_and_creates_nothing(
    alone: ground.Ground, queues: queue_servers.Queues, start: conftest.Start
) -> None:
    first = replicas.ready(start("first", alone.namespace))
    waiting.eventually(lambda: leads(first))
    second = replicas.ready(start("second", alone.namespace))
    check_rivals(alone, queues, first, second)


def check_rivals(
    site: ground.Ground, queues: queue_servers.Queues, first: replicas.Replica, second: replicas.Replica
) -> None:
    """See that the second operator tells of the first and leaves everything to it."""
    metric = waiting.eventually(lambda: rival_metric(second))
    assert first.identity in metric
    site.make_pool("wanted", queues.fill("wanted", 3))
    site.wait_for_workers("wanted", 3)
    site.wait_for_status("wanted", managedBy=first.identity)
    (entry,) = waiting.eventually(lambda: second.entries("rival_operator"), within_seconds=40)
    assert entry["holder"].startswith(f"{first.identity}_")
    assert "different classes or scopes" in entry["advice"]
    assert not rival_metric(first)
    assert not first.entries("rival_operator")
    assert {event["source"]["component"] for event in site.events("wanted")} == {first.identity}
    assert "sluice_writes_total{" not in second.get("/metrics")[1]
    assert len(site.workers("wanted")) == 3


def rival_metric(replica: replicas.Replica) -> str:
    """Return what a replica's metric says about a rival; empty if it knows of none."""
    lines = replica.get("/metrics")[1].splitlines()
    return next((line for line in lines if line.startswith("sluice_rival_operator{") and line.endswith(" 1.0")), "")


def leads(replica: replicas.Replica) -> bool:
    lines = replica.get("/metrics")[1].splitlines()
    return any(line.startswith("sluice_leader{") and line.endswith(" 1.0") for line in lines)
