"""What queued jobs were granted, and what they used of quota, is read off what the runtime wrote."""

import asyncio

import pytest

from autoscaler.kube import kinds
from autoscaler.rehearsal.job_record import JobLife, QueuedJobs, StepKind
from autoscaler.rehearsal.job_watching import JobWatcher
from autoscaler.simulation import kubelet, virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.scheduler import Scheduler
from tests import builders
from tests.scenarios import admission_world
from tests.scenarios.admission_world import CLUSTER_QUEUES, NAMESPACE, World

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
    assert life(watcher.seen(), "job").ended_at is not None


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


async def test_pods_that_run_without_quota_are_counted() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), admission_policies=())
    cluster.install_definitions()
    watcher = JobWatcher(cluster, virtual_time.clock())
    Scheduler(cluster)
    kubelet.Kubelets(cluster, script=lambda _: kubelet.Run())
    room = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    cluster.create(kinds.NODES, {"metadata": {"name": "node"}, "status": {"capacity": room, "allocatable": room}})
    cluster.create(CLUSTER_QUEUES, builders.resource("ClusterQueue", name="team"))
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    metadata = {"name": "job", "namespace": NAMESPACE, "labels": {"sluice.dev/queue-name": "team"}}
    cluster.create(kinds.JOBS, {"metadata": metadata, "spec": {"parallelism": 3, "template": template}})
    await asyncio.sleep(30)
    assert watcher.seen().beyond_quota == 3
