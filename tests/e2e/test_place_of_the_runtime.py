"""The runtime gets a place on nodes that are full of others' pods, by the real scheduler."""

from collections.abc import Callable
from typing import Any

import pytest

from components.runtime import deployment
from tests.components import configs, places
from tests.e2e import waiting
from tools.local.components import Component, Options
from tools.local.plane import Plane

PARTS = frozenset(
    {Component.ETCD, Component.API_SERVER, Component.CONTROLLER_MANAGER, Component.SCHEDULER, Component.KWOK}
)
OWN = "sluice-system"


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    """A cluster with two nodes for services, of two processors each."""
    made = start_plane(Options(components=PARTS))
    for name in ("services-a", "services-b"):
        labels = {"node.type": "k8s-services", "kubernetes.io/hostname": name}
        note = {"kwok.x-k8s.io/node": "fake"}
        status = {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "30"}}
        made.api.create(
            "/api/v1/nodes", {"metadata": {"name": name, "labels": labels, "annotations": note}, "status": status}
        )
    made.api.create("/api/v1/namespaces", {"metadata": {"name": OWN}})
    made.api.create(f"/api/v1/namespaces/{OWN}/serviceaccounts", {"metadata": {"name": "sluice"}})
    for namespace in (OWN, "default"):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        waiting.eventually(lambda path=path: made.api.get(path), within_seconds=60)  # type: ignore[misc]
    return made


def running(plane: Plane, namespace: str) -> list[str]:
    """The nodes on which a namespace's pods run."""
    pods = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    kept = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return [pod["spec"]["nodeName"] for pod in kept if pod["status"].get("phase") == "Running"]


def deploy(plane: Plane, namespace: str, name: str, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    plane.api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)


def users_pods() -> dict[str, Any]:
    """More pods than the nodes have room for."""
    labels = {"app": "users"}
    box = {"name": "c", "image": "users.invalid/c:1", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
    pod = {"nodeSelector": {"node.type": "k8s-services"}, "containers": [box], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"replicas": 24, "selector": {"matchLabels": labels}, "template": template}


@pytest.mark.accept("S16", part="full nodes and a lost one: the runtime still gets a place")
def test_the_runtime_gets_a_place_on_full_nodes_after_one_is_lost(plane: Plane) -> None:
    config = configs.of_cluster(configs.cluster()).stack.config.clusters["bench"]
    around = deployment.Surroundings(config=config, place=places.place(), image="example.invalid/sluice:1")
    deploy(plane, OWN, "sluice", deployment.spec(around))
    waiting.eventually(lambda: set(running(plane, OWN)) == {"services-a", "services-b"}, within_seconds=90)
    deploy(plane, "default", "users", users_pods())
    # Two processors hold eight pods of a quarter; one of these places is the runtime's.
    waiting.eventually(lambda: len(running(plane, "default")) == 14, within_seconds=90)

    plane.api.delete("/api/v1/nodes/services-a")
    waiting.eventually(lambda: running(plane, OWN) == ["services-b"] * 2, within_seconds=180)
