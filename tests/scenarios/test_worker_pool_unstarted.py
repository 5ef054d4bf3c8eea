"""Workers that never start: told with their number and cause, and replaced once that can help."""

import asyncio

import pytest

from autoscaler.kube import kinds
from autoscaler.simulation.kubelet import Run
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import NAMESPACE, Body, World, runtime

pytestmark = pytest.mark.simulated
NEVER = 1e9
MINUTE = 60.0


class Clinic(World):
    """A world in which images named `bad` cannot be pulled, and pods that select `nowhere` find no node."""

    def _work(self, pod: Body) -> Run:
        containers = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        if any("bad" in container["image"] for container in containers):
            asyncio.get_running_loop().call_later(1.0, self._refuse, pod)
            return Run(start_seconds=NEVER)
        return super()._work(pod)

    def _refuse(self, pod: Body) -> None:
        is_init = any("bad" in container["image"] for container in pod["spec"].get("initContainers", ()))
        waiting = {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull"}}}
        status = {"initContainerStatuses" if is_init else "containerStatuses": [waiting]}
        name = pod["metadata"]["name"]
        if self._find(kinds.PODS, name) is not None:
            self._send("PATCH", kinds.PODS.path(name, NAMESPACE, "status"), {"status": status})

    def set_template(self, **spec: object) -> None:
        """Change what workers are made from."""
        containers = [{"name": "worker", "image": "worker:1"}]
        template = {"spec": {"nodeSelector": None, "initContainers": None, "containers": containers, **spec}}
        self.patch(kinds.DEPLOYMENTS, "worker", {"spec": {"template": template}})

    def phases(self) -> list[str]:
        return sorted(pod["status"].get("phase", "Pending") for pod in self.pods())


class Slow(Clinic):
    """A world in which workers take a minute and a half to start."""

    def _work(self, pod: Body) -> Run:
        del pod
        return Run(start_seconds=90.0, run_seconds=self.job_seconds)


BAD_IMAGE = {"containers": [{"name": "worker", "image": "bad:1"}]}
BAD_INIT = {"initContainers": [{"name": "worker", "image": "bad:1"}]}
NOWHERE = {"nodeSelector": {"disk": "none-has-it"}}


def _corrected(template: dict[str, object], trouble: str) -> None:
    @simulated
    async def play() -> None:
        world = Clinic(job_seconds=36_000)
        world.set_template(**template)
        world.line.length = 3
        world.add(poolCapacity=3)
        async with runtime(world):
            await asyncio.sleep(5 * MINUTE)
            assert (world.phases(), world.made["pool"]) == (["Pending"] * 3, 3)
            ready = world.condition("Ready")
            if trouble:
                assert (ready["status"], ready["reason"]) == ("False", "WorkersCannotStart")
                assert ready["message"] == f"3 workers cannot start: {trouble}"
                assert world.events()["FailedWorker"][0]["message"] == f"3 workers cannot start: {trouble}"
            world.set_template()
            await asyncio.sleep(2 * MINUTE)
            assert (world.phases(), world.made["pool"], world.most["pool"]) == (["Running"] * 3, 6, 3)
            assert world.condition("Ready")["status"] == "True"
            assert "never started" in world.events()["CleanUp"][0]["message"]

    play()


@pytest.mark.accept("W24", part="a template that is corrected; trouble of init containers is told")
@pytest.mark.parametrize(
    ("template", "trouble"), [(BAD_IMAGE, "ErrImagePull"), (BAD_INIT, "ErrImagePull"), (NOWHERE, "")]
)
def test_workers_of_a_bad_template_are_replaced_when_it_is_corrected(template: dict[str, object], trouble: str) -> None:
    _corrected(template, trouble)


@pytest.mark.accept("W24", part="startTimeoutMinutes")
@simulated
async def test_a_worker_with_a_node_that_does_not_start_in_time_is_replaced_with_backoff() -> None:
    world = Clinic(job_seconds=36_000)
    world.set_template(**BAD_IMAGE)
    world.line.length = 2
    world.add(poolCapacity=2, workerSpec__startTimeoutMinutes=10)
    async with runtime(world):
        await asyncio.sleep(9 * MINUTE)
        assert world.made["pool"] == 2
        await asyncio.sleep(3 * MINUTE)
        assert world.made["pool"] == 4
        await asyncio.sleep(6 * 60 * MINUTE)
        assert world.made["pool"] <= 2 + 2 * 37  # every ten minutes at most
        assert world.most["pool"] == 2
        assert any("startTimeoutMinutes" in event["message"] for event in world.events()["CleanUp"])


@pytest.mark.accept("W24", part="a pool whose workers never start in time says so until one does")
@simulated
async def test_a_pool_whose_workers_never_start_in_time_is_not_ready_until_one_does() -> None:
    world = Slow(job_seconds=36_000)
    world.line.length = 3
    world.add(poolCapacity=3, workerSpec__startTimeoutMinutes=1)
    async with runtime(world):
        await asyncio.sleep(60 * MINUTE)
        ready = world.condition("Ready")
        assert (ready["status"], ready["reason"]) == ("False", "WorkersCannotStart")
        assert "did not start within startTimeoutMinutes" in ready["message"]
        world.change(workerSpec__startTimeoutMinutes=5)
        await asyncio.sleep(10 * MINUTE)
        assert (world.phases(), world.condition("Ready")["status"]) == (["Running"] * 3, "True")


@pytest.mark.accept("W24", part="workers that wait for a node keep their place")
@simulated
async def test_workers_that_wait_for_a_node_keep_their_turn_for_as_long_as_it_takes() -> None:
    world = Clinic(job_seconds=36_000)
    world.set_template(**NOWHERE)
    world.line.length = 3
    world.add(poolCapacity=3, workerSpec__startTimeoutMinutes=1)
    async with runtime(world):
        await asyncio.sleep(6 * 60 * MINUTE)
        assert (world.phases(), world.made["pool"]) == (["Pending"] * 3, 3)


@pytest.mark.accept("W24", "W15", part="workers that run are left alone")
@simulated
async def test_workers_that_run_are_left_alone_when_the_template_changes() -> None:
    world = Clinic(job_seconds=36_000)
    world.line.length = 3
    world.add(poolCapacity=10)
    async with runtime(world):
        await asyncio.sleep(2 * MINUTE)
        world.set_template(containers=[{"name": "worker", "image": "worker:2"}])
        await asyncio.sleep(30 * MINUTE)
        assert (world.phases(), world.made["pool"]) == (["Running"] * 3, 3)


@simulated
async def test_the_template_is_read_now_and_then_while_workers_wait_and_not_otherwise() -> None:
    world, reads = Clinic(job_seconds=36_000), list[str]()
    follow = world.cluster.faults.next

    def counted(method: str, path: str, username: str) -> list[object]:
        reads.extend([path] if "/deployments/" in path and method == "GET" else [])
        return list(follow(method, path, username))

    world.cluster.faults.next = counted  # type: ignore[method-assign, assignment]
    world.set_template(**NOWHERE)
    world.line.length = 1
    world.add(queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(10 * MINUTE)
        assert 15 <= len(reads) <= 25  # every half a minute, though the queue is asked every second
        world.set_template()
        await asyncio.sleep(2 * MINUTE)
        assert world.phases() == ["Running"]
        reads.clear()
        await asyncio.sleep(10 * MINUTE)
        assert reads == []


@pytest.mark.accept("W25")
@simulated
async def test_failed_workers_that_are_kept_fill_the_pool_which_says_so_and_a_limit_lets_the_oldest_go() -> None:
    world = World(job_seconds=36_000)
    world.exit_code = 1
    world.line.length = 50
    world.add(poolCapacity=4, workerSpec__retainFailedWorkers=True)
    async with runtime(world):
        await asyncio.sleep(60 * MINUTE)
        kept = sorted(pod["metadata"]["name"] for pod in world.pods())
        assert (len(kept), world.made["pool"]) == (4, 4)  # as the seed says: all of them stay
        full = world.condition("AtCapacity")
        assert full["status"] == "True"
        assert kept[0] in full["message"]
        assert "failedWorkersLimit" in full["message"]
        assert full["message"] in [event["message"] for event in world.events()["CapacityReached"]]
        world.exit_code = 0
        world.change(workerSpec__failedWorkersLimit=1)
        await asyncio.sleep(5 * MINUTE)
        phases = [pod["status"]["phase"] for pod in world.pods()]
        assert phases.count("Failed") == 1
        assert world.made["pool"] == 4 + 3
        failed = next(pod["metadata"]["name"] for pod in world.pods() if pod["status"]["phase"] == "Failed")
        assert failed in kept


@simulated
async def test_a_pool_that_is_shut_down_shows_no_number_of_jobs_that_nobody_reads() -> None:
    world = World()
    world.line.length = 7
    world.add(poolCapacity=2)
    async with runtime(world):
        await asyncio.sleep(30)
        assert world.status()["queueSize"] > 0
        world.change(status="Shutdown")
        await asyncio.sleep(30)
        assert world.status()["queueSize"] == 0
