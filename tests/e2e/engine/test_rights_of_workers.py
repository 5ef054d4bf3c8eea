"""What worker pools may do where the runtime handles those of its own namespace alone is what they do there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import controllers, keys, names, version
from autoscaler.api.permissions import Where, WorkerScope
from tests import builders
from tests.e2e import rights, waiting
from tests.e2e.engine import stacks, worker_chapters
from tests.e2e.workers import queue_servers
from tools.engine.engine import Engine
from tools.engine.layout import Surroundings
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane
from tools.stack import replicas

HOME, ACCOUNT = "sluice-system", "sluice"
POOLS = f"/apis/{version.GROUP_VERSION}/namespaces/{HOME}/workerpools"
PODS = f"/api/v1/namespaces/{HOME}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
PATIENCE_SECONDS = 90.0


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    """A cluster with one node, and without AWS."""
    started = start_plane(Options(components=USUAL - {Component.MOTO, Component.NODE_REGISTRAR}, audit=True))
    node = {
        "metadata": {"name": "node", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }
    started.api.create("/api/v1/nodes", node)
    return started


@pytest.fixture
def queues() -> Iterator[queue_servers.Queues]:
    with queue_servers.Queues() as served:
        yield served


def until(check: Callable[[], object]) -> None:
    waiting.eventually(check, within_seconds=PATIENCE_SECONDS)


def start(plane: Plane) -> None:
    replicas.start(plane, replicas.deployment(plane))
    until(lambda: plane.api.get(f"{LEASES}/{names.worker_lease(None)}")["spec"].get("holderIdentity"))


def told(plane: Plane, name: str) -> int:
    """Count what an object was told, with its repetitions."""
    query = {"fieldSelector": f"involvedObject.name={name}"}
    events = plane.api.get(f"/api/v1/namespaces/{HOME}/events", query)["items"]
    return max((event["count"] for event in events), default=0)


def workers_rights() -> set[rights.Right]:
    """Return what the registry grants worker pools in the runtime's own namespace."""
    own = {Where.OWN_NAMESPACE, Where.WORKER_SCOPE, Where.WORKER_LEASES, Where.SECRET_NAMESPACES}
    asked = controllers.kube_rules([controllers.WORKERS], scope=WorkerScope.NAMESPACE, classes=[None])
    return {
        rights.Right(HOME, rule.group, resource, verb, name)
        for rule in asked
        if rule.where in own
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.resource_names or ("",)
    }


@pytest.mark.accept("S8", "W3")
def test_worker_pools_of_one_namespace_have_every_right_that_they_use_and_no_other(
    plane: Plane, queues: queue_servers.Queues, tmp_path: Path
) -> None:
    env = [{"name": "SLUICE_ALLOW_LOOPBACK_QUEUES", "value": "true"}]
    settings = {"scope": "namespace", "replicas": 1, "container": {"image": stacks.IMAGE, "env": env}}
    engine = Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))
    engine.write_stack("test", stacks.document({"here": stacks.bare(autoscaler=settings)}))
    engine.up("test")
    api = plane.api
    api.create(f"/api/v1/namespaces/{HOME}/secrets", {"metadata": {"name": "queue"}, "stringData": {"ApiKey": "k"}})
    api.create(f"/apis/apps/v1/namespaces/{HOME}/deployments", deployment())
    for name, extra in (("http", {}), ("stranger", {"workerPoolClassName": "elsewhere"})):
        source = {"queue__source__endpoint": queues.fill(name, 2), "queue__source__secretName": "queue"}
        pool = builders.resource("WorkerPool", name=name, poolCapacity=2, queue__interval="00:00:01", **source, **extra)
        pool["metadata"]["namespace"] = HOME
        api.create(POOLS, pool)

    with worker_chapters.no_new_pods(api, HOME):  # the pool says so, and the next leader counts on
        start(plane)
        until(lambda: told(plane, "http") >= 2)
        start(plane)
        before = told(plane, "http")
        until(lambda: told(plane, "http") > before)
    until(lambda: len(api.get(PODS, {"labelSelector": f"{keys.WORKER_POOL}=http"})["items"]) == 2)
    path = worker_chapters.orphan(api, HOME)
    until(lambda: api.request("GET", path).status == 404)
    api.delete(f"{POOLS}/http")
    until(lambda: api.request("GET", f"{POOLS}/http").status == 404)
    drain_object = f"/api/v1/namespaces/{HOME}/configmaps/{names.DRAIN_OBJECT}"
    api.delete(drain_object)
    until(lambda: api.request("GET", drain_object).status == 404)
    plane.stop_guests()

    made = rights.calls(plane.paths.audit_log, HOME, ACCOUNT)
    have = rights.granted(plane, HOME, ACCOUNT)
    assert made.forbidden == set()
    assert [each for each in workers_rights() if not any(right.allows(each) for right in have)] == []
    assert rights.unused(have, made) & workers_rights() == set()
    assert {call.namespace for call in made.used if call.resource in {"workerpools", "secrets"}} == {HOME}


def deployment() -> dict[str, Any]:
    """The template of workers."""
    template = {
        "metadata": {"labels": {"app": "worker"}},
        "spec": {"containers": [{"name": "worker", "image": "worker:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "worker"}}, "template": template}
    return {"metadata": {"name": "worker"}, "spec": spec}
