"""The Job controller where a real one would take long, or many pods, to show the same."""

import asyncio
import json
from typing import Any

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Key
from tests.autoscaler.kube.cluster import simulated

NAMESPACE, NAME = "default", "job"


class World:
    """A cluster with one Job and no nodes; the test says what becomes of pods."""

    def __init__(self, *, pods: Manifest | None = None, **spec: Any) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock())
        whole = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}], **(pods or {})}
        body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": {"template": {"spec": whole}, **spec}}
        self.cluster.create(kinds.JOBS, body)

    @property
    def status(self) -> Manifest:
        entry = self.cluster.server.store.find(kinds.JOBS, Key(NAMESPACE, NAME))
        assert entry is not None
        status: Manifest = entry.object["status"]
        return status

    def holding(self) -> set[str]:
        return {each["type"] for each in self.status["conditions"] if each["status"] == "True"}

    def pods(self) -> list[Manifest]:
        found = self.cluster.server.store.collection(kinds.PODS).entries.values()
        return [each.object for each in found if each.object["status"]["phase"] not in {"Succeeded", "Failed"}]

    async def send(self, method: str, path: str, body: Manifest) -> None:
        content_type = port.MERGE_PATCH if method == "PATCH" else port.JSON
        content = json.dumps(body).encode()
        request = port.Request(method=method, path=path, query={}, body=content, content_type=content_type)
        port.required(await self.cluster.client().send(request))
        await asyncio.sleep(3)

    async def change(self, **spec: Any) -> None:
        await self.send("PATCH", kinds.JOBS.path(NAME, NAMESPACE), {"spec": spec})

    async def end(self, pod: Manifest, phase: str) -> None:
        path = kinds.PODS.path(pod["metadata"]["name"], NAMESPACE, "status")
        await self.send("PATCH", path, {"status": {"phase": phase}})

    async def bind(self, pod: Manifest) -> None:
        """Put a pod on a node that does not exist, so that it takes its time to stop."""
        name = pod["metadata"]["name"]
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "absent"}}
        await self.send("POST", kinds.PODS.path(name, NAMESPACE, "binding"), body)

    async def delete(self, pod: Manifest, **options: Any) -> None:
        await self.send("DELETE", kinds.PODS.path(pod["metadata"]["name"], NAMESPACE), options)


@simulated
async def test_pods_are_made_and_deleted_by_the_hundreds() -> None:
    world = World(parallelism=1200, completions=5000)
    await asyncio.sleep(0.5)
    assert len(world.pods()) == 500
    await asyncio.sleep(5)
    assert (len(world.pods()), world.status["active"]) == (1200, 1200)
    await world.change(parallelism=100)
    await asyncio.sleep(5)
    assert world.status["active"] == 100


@simulated
async def test_a_job_waits_longer_after_each_failure_and_not_after_a_success() -> None:
    world = World(parallelism=1, completions=5)
    await asyncio.sleep(3)
    for wait in (10, 20):
        await world.end(world.pods()[0], "Failed")
        await asyncio.sleep(wait - 6)
        assert world.pods() == []
        await asyncio.sleep(6)
        assert len(world.pods()) == 1
    await world.end(world.pods()[0], "Succeeded")
    await world.end(world.pods()[0], "Failed")
    await asyncio.sleep(10)
    assert len(world.pods()) == 1


@simulated
async def test_pods_that_are_refused_are_made_later() -> None:
    world = World(pods={"priorityClassName": "late"})
    await asyncio.sleep(3)
    assert world.pods() == []
    world.cluster.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "late"}, "value": 5})
    await asyncio.sleep(15)
    assert len(world.pods()) == 1


@simulated
async def test_a_pod_is_replaced_only_when_it_has_stopped_if_the_job_says_so() -> None:
    world = World(podReplacementPolicy="Failed")
    await asyncio.sleep(3)
    (first,) = world.pods()
    await world.bind(first)
    await world.delete(first)
    await asyncio.sleep(15)
    assert len(world.pods()) == 1
    assert (world.status["terminating"], world.status.get("failed")) == (1, None)
    await world.end(first, "Failed")
    await asyncio.sleep(15)
    assert [pod["metadata"]["name"] != first["metadata"]["name"] for pod in world.pods()] == [True]


@simulated
async def test_a_job_is_complete_only_when_its_last_pod_has_stopped() -> None:
    world = World(parallelism=2)
    await asyncio.sleep(3)
    first, second = world.pods()
    await world.bind(second)
    await world.end(first, "Succeeded")
    await world.change(suspend=True)
    assert world.holding() == {"SuccessCriteriaMet"}
    await world.delete(second, gracePeriodSeconds=0)
    assert world.holding() == {"SuccessCriteriaMet", "Complete"}


@simulated
async def test_a_job_that_is_given_up_fails_whatever_is_allowed_later() -> None:
    world = World(parallelism=2, completions=2, backoffLimit=0)
    await asyncio.sleep(3)
    first, second = world.pods()
    await world.bind(second)
    await world.end(first, "Failed")
    await world.change(backoffLimit=9)
    assert world.holding() == {"FailureTarget"}
    await world.delete(second, gracePeriodSeconds=0)
    assert world.holding() == {"FailureTarget", "Failed"}


@simulated
async def test_a_job_that_has_ended_is_not_begun_again() -> None:
    world = World(parallelism=1, completions=1, completionMode="Indexed")
    await asyncio.sleep(3)
    await world.end(world.pods()[0], "Succeeded")
    await world.change(parallelism=2, completions=2)
    assert world.pods() == []


@simulated
async def test_failures_of_indexes_that_are_no_longer_wanted_do_not_count() -> None:
    world = World(parallelism=2, completions=2, completionMode="Indexed")
    await asyncio.sleep(3)
    path = kinds.PODS.path(world.pods()[1]["metadata"]["name"], NAMESPACE, "status")
    body = json.dumps({"status": {"phase": "Failed"}}).encode()
    request = port.Request(method="PATCH", path=path, query={}, body=body, content_type=port.MERGE_PATCH)
    port.required(await world.cluster.client().send(request))
    await world.change(parallelism=1, completions=1)
    assert (world.status["active"], world.status.get("failed")) == (1, None)


@simulated
async def test_time_begins_anew_when_a_job_is_resumed() -> None:
    world = World(suspend=True)
    await asyncio.sleep(3)
    assert "startTime" not in world.status
    await world.change(suspend=False)
    before = world.status["startTime"]
    await world.change(suspend=True)
    await world.change(suspend=False)
    assert world.status["startTime"] > before


@simulated
async def test_a_job_that_goes_after_its_pods_makes_no_more() -> None:
    world = World(parallelism=2, completions=9)
    await asyncio.sleep(3)
    slow, _ = world.pods()
    await world.bind(slow)
    made: list[str] = []
    listeners = world.cluster.server.store.collection(kinds.PODS).listeners
    listeners.append(lambda change: made.append(change.key.name) if change.before is None else None)
    await world.send("DELETE", kinds.JOBS.path(NAME, NAMESPACE), {"propagationPolicy": "Foreground"})
    await asyncio.sleep(25)
    assert made == []
    assert [pod["metadata"]["name"] for pod in world.pods()] == [slow["metadata"]["name"]]
    await world.delete(slow, gracePeriodSeconds=0)
    assert world.cluster.server.store.find(kinds.JOBS, Key(NAMESPACE, NAME)) is None
