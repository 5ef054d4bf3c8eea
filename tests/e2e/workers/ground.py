"""A namespace with worker pools on a real API server: make and change them, play the kubelet, read what came of it."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from autoscaler.api import keys, version
from tests import builders
from tests.e2e import waiting
from tools.local import api
from tools.local.plane import Plane

Object = dict[str, Any]
NODE_LABEL = "local.sluice.dev/workers"
"""On the node that workers of these tests run on, and nobody else."""
RUN_FOR = "local.sluice.dev/run-for"
SOURCE = "worker"
"""The Deployment that workers are made from, and its container."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One namespace of one plane, whose pools are of one class."""

    plane: Plane
    namespace: str
    class_name: str | None = None

    # Where things are

    def pool_path(self, name: str = "") -> str:
        return f"/apis/{version.GROUP_VERSION}/namespaces/{self.namespace}/workerpools{_under(name)}"

    def pod_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods{_under(name)}"

    def source_path(self, name: str = "") -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments{_under(name)}"

    # What a person does

    def make_source(self, name: str = SOURCE, template: Object | None = None) -> None:
        """Create a Deployment without replicas, whose workers no node takes unless the template says so."""
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template or waiting_pods(name)}
        self.plane.api.create(self.source_path(), {"metadata": {"name": name}, "spec": spec})

    def make_secret(self, name: str, **data: str) -> None:
        self.plane.api.create(
            f"/api/v1/namespaces/{self.namespace}/secrets", {"metadata": {"name": name}, "stringData": data}
        )

    def make_pool(self, name: str, endpoint: str, **changes: Any) -> Object:
        """Create a pool that asks its queue every second."""
        defaults = {
            "poolCapacity": 10,
            "queue__interval": "00:00:01",
            "queue__source__endpoint": endpoint,
            **({"workerPoolClassName": self.class_name} if self.class_name else {}),
        }
        manifest = builders.resource("WorkerPool", name=name, **{**defaults, **changes})
        manifest["metadata"]["namespace"] = self.namespace
        made: Object = self.plane.api.create(self.pool_path(), manifest)
        return made

    def change(self, name: str, **spec: Any) -> None:
        self.plane.api.merge(self.pool_path(name), {"spec": spec})

    # What a kubelet does

    def end(self, pod: Object, phase: str) -> None:
        """Let a worker end, as its kubelet would report it."""
        self.plane.api.merge(f"{self.pod_path(name_of(pod))}/status", {"status": {"phase": phase}})

    # What came of it

    def pool(self, name: str) -> Object:
        found: Object = self.plane.api.get(self.pool_path(name))
        return found

    def status(self, name: str) -> Object:
        status: Object = self.pool(name).get("status", {})
        return status

    def condition(self, name: str, kind: str) -> Object:
        found: Object = next((one for one in self.status(name).get("conditions", ()) if one["type"] == kind), {})
        return found

    def workers(self, pool: str) -> list[Object]:
        listed = self.plane.api.get(self.pod_path(), {"labelSelector": f"{keys.WORKER_POOL}={pool}"})
        return list(listed["items"])

    def names(self, pool: str) -> set[str]:
        return {name_of(pod) for pod in self.workers(pool)}

    def wait_for_workers(self, pool: str, count: int, *, within_seconds: float = 30.0) -> list[Object]:
        """Wait until a pool has exactly so many pods."""

        def settled() -> bool:
            there = self.names(pool)
            assert len(there) == count, f"{count} workers wanted, there are {sorted(there)}"
            return True

        waiting.eventually(settled, within_seconds=within_seconds)
        return self.workers(pool)

    def wait_for_status(self, name: str, **want: Any) -> Object:
        """Wait until these fields of the status have these values."""

        def told() -> Object:
            status = self.status(name)
            assert status | want == status, f"{want} wanted, status is {status}"
            return status

        return waiting.eventually(told, within_seconds=30)

    def wait_for_condition(self, name: str, kind: str, **want: str) -> None:
        """Wait until a condition has these values."""

        def told() -> bool:
            condition = self.condition(name, kind)
            assert condition | want == condition, f"{want} wanted, the condition is {condition}"
            return True

        waiting.eventually(told, within_seconds=30)

    def events(self, pool: str) -> list[Object]:
        query = {"fieldSelector": f"involvedObject.kind=WorkerPool,involvedObject.name={pool}"}
        return list(self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/events", query)["items"])

    def wait_for_event(self, pool: str, reason: str, text: str = "") -> Object:
        """Wait until something was told, with these words in it."""

        def told() -> Object | None:
            found = self.events(pool)
            mine = [event for event in found if event["reason"] == reason and text in event["message"]]
            assert mine, f"{reason} wanted, told: {[(event['reason'], event['message']) for event in found]}"
            return mine[0]

        event = waiting.eventually(told, within_seconds=30)
        assert event is not None
        return event

    def is_gone(self, name: str) -> bool:
        return self.plane.api.request("GET", self.pool_path(name)).status == 404

    # The end

    def clear(self) -> None:
        """Remove all pools and workers, by force where nobody is left to let them go."""
        for path in (self.pool_path(), self.pod_path()):
            for item in self._listed(path):
                self._remove(f"{path}/{name_of(item)}")
        waiting.eventually(lambda: not self._listed(self.pod_path()))

    def _listed(self, path: str) -> list[Object]:
        answer = self.plane.api.request("GET", path)
        return list(answer.required()["items"]) if answer.status != 404 else []

    def _remove(self, path: str) -> None:
        try:
            self.plane.api.delete(path)
            self.plane.api.merge(path, {"metadata": {"finalizers": None}})
        except api.RefusedError:  # it is gone, or whoever watches over it was faster
            return


def _under(name: str) -> str:
    return f"/{name}" if name else ""


def name_of(item: Mapping[str, Any]) -> str:
    name: str = item["metadata"]["name"]
    return name


def waiting_pods(name: str = SOURCE) -> Object:
    """Return the template of workers that wait for ever: no node has what they ask for."""
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "nodeSelector": {NODE_LABEL: "none"},
            "containers": [{"name": "worker", "image": "example.com/worker:1"}],
        },
    }


def running_pods(name: str = SOURCE, *, run_for: str | None = None) -> Object:
    """Return the template of workers that run, for so long if that is said."""
    template = copy.deepcopy(waiting_pods(name))
    template["spec"] |= {
        "nodeSelector": {NODE_LABEL: "yes"},
        "tolerations": [{"key": NODE_LABEL, "operator": "Exists"}],
    }
    if run_for is not None:
        template["metadata"]["annotations"] = {RUN_FOR: run_for}
    return template


def node(name: str) -> Object:
    """Return a large node, played by KWOK, that takes only workers of these tests."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    return {
        "metadata": {
            "name": name,
            "labels": {NODE_LABEL: "yes"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": NODE_LABEL, "value": "only", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }
