"""What queued jobs were granted, and what they used of quota, is read off what the runtime wrote."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from autoscaler.admission.workloads import workload
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulate.observation import job_watching
from autoscaler.simulate.observation.job_record import JobLife, QueuedJobs, StepKind
from autoscaler.simulate.observation.job_watching import JobWatcher
from autoscaler.simulation import kubelet, pod_status, virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.scheduler import Scheduler
from tests import builders
from tests.scenarios import admission_world
from tests.scenarios.admission_world import NAMESPACE, WORKLOADS, World

pytestmark = pytest.mark.simulated
Steps = list[tuple[StepKind, int, int]]


def steps(life: JobLife) -> Steps:
    return [(step.kind, step.before, step.after) for step in life.steps]


def life(seen: QueuedJobs, name: str) -> JobLife:
    return next(each for each in seen.lives if each.name == name)


async def test_a_job_that_grows_gives_way_and_comes_back_is_told_step_by_step() -> None:
    world = World()
    watcher = JobWatcher(world.cluster, virtual_time.clock())
    world.add_queue(cpu=6, preemption={"withinClusterQueue": "LowerPriority"})
    world.cluster.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    async with admission_world.runtime(world):
        world.add_job("long", pods=2, completions=40)
        await asyncio.sleep(30)
        world.resize("long", 8)
        await asyncio.sleep(30)
        world.add_job("soon", pods=4, priority="urgent")
        await asyncio.sleep(30)
        assert watcher.waiting == 0
    seen = watcher.seen()
    long, soon = life(seen, "long"), life(seen, "soon")
    want: Steps = [
        (StepKind.ADMITTED, 0, 2),
        (StepKind.GREW, 2, 6),
        (StepKind.EVICTED, 6, 6),
        (StepKind.RELEASED, 6, 0),
        (StepKind.ADMITTED, 0, 2),
    ]
    assert steps(long) == want
    assert (long.evictions, long.added, long.queue) == (1, 4, "team")
    assert "makes room for default/job-soon" in long.steps[2].why
    assert steps(soon) == [(StepKind.ADMITTED, 0, 4)]
    assert soon.wait.seconds(0) > 0
    assert seen.beyond_quota == 0


async def test_usage_is_measured_at_its_most_and_on_average() -> None:
    world = World(job_seconds=50.0)
    watcher = JobWatcher(world.cluster, virtual_time.clock())
    world.add_queue("idle", cpu=4, cohort="all")
    world.add_queue("team", cpu=2, cohort="all")
    async with admission_world.runtime(world):
        world.add_job("job", pods=3)
        await asyncio.sleep(100)
    by_queue = {each.cluster_queue: each for each in watcher.seen().quotas}
    used = by_queue["team"]
    assert (used.nominal, used.most, used.most_borrowed) == (2000, 3000, 1000)
    assert used.mean == pytest.approx(1500, rel=0.1)
    assert (by_queue["idle"].most, by_queue["idle"].mean) == (0, 0.0)
    ended_at = life(watcher.seen(), "job").ended_at
    assert ended_at is not None
    assert watcher.waiting == 0
    await asyncio.sleep(10)
    world.patch(kinds.JOBS, "job", {"metadata": {"annotations": {"seen": "yes"}}})
    assert life(watcher.seen(), "job").ended_at == ended_at


async def test_a_job_without_room_waits_and_one_outside_queues_is_not_looked_at() -> None:
    world = World()
    watcher = JobWatcher(world.cluster, virtual_time.clock())
    world.add_queue(cpu=1)
    async with admission_world.runtime(world):
        world.add_job("large", pods=2)
        world.add_job("free", pods=2, queue=None)
        await asyncio.sleep(30)
        assert watcher.waiting == 1
    assert [each.name for each in watcher.seen().lives] == ["large"]
    assert life(watcher.seen(), "large").wait.began_at is None


class Unguarded:
    """A cluster without our policies and runtime: a queued job of three pods runs whatever its Workload says."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock(), admission_policies=())
        self.cluster.install_definitions()
        self.watcher = JobWatcher(self.cluster, virtual_time.clock())
        Scheduler(self.cluster)
        kubelet.Kubelets(self.cluster, script=lambda _: kubelet.Run(stop_seconds=25.0))
        room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
        status = {"capacity": room, "allocatable": room}
        self.cluster.create(kinds.NODES, {"metadata": {"name": "node"}, "status": status})
        container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        spec = {"parallelism": 3, "completions": 40, "template": template}
        metadata = {"name": "job", "namespace": NAMESPACE, "labels": {keys.QUEUE_NAME: "team"}}
        self.job = self.cluster.create(kinds.JOBS, {"metadata": metadata, "spec": spec})

    def pods(self) -> list[Key]:
        return list(self.cluster.server.store.collection(kinds.PODS).entries)

    def grant(self, pods: int) -> None:
        """Write a grant into the job's Workload, which is made if it is not there."""
        key = Key(NAMESPACE, "job-job")
        if self.cluster.server.store.find(WORKLOADS, key) is None:
            body = builders.resource("Workload", name=key.name)
            body["metadata"] |= {"namespace": NAMESPACE, "labels": {keys.JOB_UID: self.job["metadata"]["uid"]}}
            self.cluster.create(WORKLOADS, body)
        assigned = [{"name": "main", "count": pods, "flavors": {"cpu": "standard"}}]
        admission = {"clusterQueue": "team", "clusterQueueGeneration": 1, "podSetAssignments": assigned}
        said = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "admitted"}
        status = {"admission": admission, "conditions": [{**said, "lastTransitionTime": "2026-06-30T06:00:00Z"}]}
        self._write(WORKLOADS, key, lambda body: {**body, "status": status})

    def end(self, pod: Key) -> None:
        self._write(kinds.PODS, pod, lambda body: pod_status.ended(body, now="2026-06-30T06:00:00Z", exit_code=0))

    def delete(self, pod: Key) -> None:
        self.cluster.server.deletes.delete(kinds.PODS, pod, Options(), Manner(user="admin"))

    def _write(self, kind: kinds.ResourceType, key: Key, change: Callable[[Manifest], Manifest]) -> None:
        self.cluster.server.writes.update(kind, key, change, manner=Manner(user="admin"), subresource=STATUS)


async def test_pods_that_run_without_quota_are_counted() -> None:
    world = Unguarded()
    await asyncio.sleep(30)
    assert world.watcher.seen().beyond_quota == 3


async def test_pods_that_ended_or_are_being_deleted_do_not_run_beyond_quota() -> None:
    world = Unguarded()
    world.grant(3)
    await asyncio.sleep(30)
    first, second, _ = world.pods()
    world.end(first)
    world.delete(second)
    await asyncio.sleep(10)
    assert len(world.pods()) == 5
    assert world.watcher.seen().beyond_quota == 0


async def test_a_grant_that_is_lowered_while_pods_run_is_seen() -> None:
    world = Unguarded()
    world.grant(3)
    await asyncio.sleep(30)
    world.grant(1)
    assert world.watcher.seen().beyond_quota == 2


def test_an_eviction_is_told_once() -> None:
    condition = {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-06-30T06:00:00Z", "message": "why"}
    body = {"metadata": {"name": "w", "namespace": "n"}, "spec": {}, "status": {"conditions": [condition]}}
    evicted = workload.decode(msgspec.json.encode(body))
    assert [step.why for step in job_watching.steps(None, evicted, 0.0)] == ["why"]
    assert not list(job_watching.steps(evicted, evicted, 0.0))
