"""What people see of admission, in virtual time: why work waits, what queues say, and how few writes that takes."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster.store import Change
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import (
    CLUSTER_QUEUES,
    FLAVORS,
    LOCAL_QUEUES,
    NAMESPACE,
    WORKLOADS,
    Body,
    World,
    cycles,
    runtime,
)

SOON = 5.0
"""More than a cycle and a report take."""


class Counted:
    """Counts what is sent, by method and path."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def wrap(self, api: port.Api) -> port.Api:
        return _Counting(api, self.calls)

    def of_workloads(self) -> int:
        """Return how often the status of a Workload was written."""
        return sum(n for (method, path), n in self.calls.items() if method == "PATCH" and _is_status(path))

    def most_of_one(self) -> int:
        return max((n for (method, path), n in self.calls.items() if method == "PATCH" and _is_status(path)), default=0)

    def on(self, plural: str) -> int:
        return sum(n for (method, path), n in self.calls.items() if method == "PATCH" and f"/{plural}/" in path)


class _Counting:
    def __init__(self, api: port.Api, calls: Counter[tuple[str, str]]) -> None:
        self._api = api
        self._calls = calls

    async def send(self, request: port.Request) -> port.Response:
        self._calls[request.method, request.path] += 1
        return await self._api.send(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


def _is_status(path: str) -> bool:
    return "/workloads/" in path and path.endswith("/status")


def status(world: World, job: str) -> Body:
    found: Body = world.workload(job).get("status", {})
    return found


def why(world: World, job: str) -> tuple[str, str]:
    found = world.condition("QuotaReserved", job)
    assert found is not None, f"{job} is not told why it waits"
    assert found["status"] == "False"
    return found["reason"], found["message"]


def said(world: World, resource: kinds.ResourceType, name: str, kind: str) -> Body | None:
    conditions = world._get(resource, name).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), None)


@pytest.mark.accept("E17", part="position and reason")
@simulated
async def test_who_waits_is_told_what_is_missing_and_where_it_stands() -> None:
    world = World()
    world.add_queue("team", cpu=4)
    async with runtime(world):
        world.add_job("first", pods=3)
        await asyncio.sleep(SOON)
        world.add_job("second", pods=3)
        await asyncio.sleep(SOON)
        world.add_job("third", pods=2)
        await asyncio.sleep(SOON)
    missing = "needs 3 cpu of flavor standard, 1 are free: 2 missing"
    assert why(world, "second") == ("NoRoom", missing)
    assert [status(world, name).get("position") for name in ("first", "second", "third")] == [None, 1, 2]


@pytest.mark.accept("E17", part="position and reason")
@simulated
async def test_who_waits_is_told_anew_when_others_give_some_quota_back() -> None:
    world = World()
    world.add_queue("team", cpu=4)
    async with runtime(world):
        world.add_job("first", pods=4, completions=None)
        await asyncio.sleep(SOON)
        world.add_job("second", pods=3)
        await asyncio.sleep(3 * SOON)
        world.resize("first", 2)
        await asyncio.sleep(SOON)
    assert why(world, "second") == ("NoRoom", "needs 3 cpu of flavor standard, 2 are free: 1 missing")


@simulated
async def test_the_position_goes_when_quota_is_granted() -> None:
    world = World()
    world.add_queue("team", cpu=1)
    async with runtime(world):
        world.add_job("first")
        await asyncio.sleep(SOON)
        world.add_job("second")
        await asyncio.sleep(SOON)
        assert status(world, "second")["position"] == 1
        world.delete(kinds.JOBS, "first")
        await asyncio.sleep(40)
    assert world.holds("QuotaReserved", "second")
    assert "position" not in status(world, "second")


@pytest.mark.accept("E17", part="an estimate of the wait")
@simulated
async def test_an_estimate_follows_the_pace_of_admissions_and_grows_while_nothing_moves() -> None:
    world = World(job_seconds=30.0)
    world.add_queue("team", cpu=1)
    async with runtime(world):
        for number in range(6):
            world.add_job(f"job-{number}")
            await asyncio.sleep(1.1)  # so that they wait in this order
        world.job_seconds = None
        await asyncio.sleep(70)
        early = status(world, "job-5")["estimatedWaitSeconds"]
        await asyncio.sleep(600)
        late = status(world, "job-5")["estimatedWaitSeconds"]
    assert status(world, "job-5")["position"] == 4
    assert 30 <= early <= 300
    assert late > 2 * early


@pytest.mark.accept("E17", part="no estimate for those who cannot be admitted")
@simulated
async def test_a_job_that_no_queue_will_ever_have_room_for_is_told_so_and_given_no_estimate() -> None:
    world = World(job_seconds=10.0)
    world.add_queue("team", cpu=4)
    async with runtime(world):
        for number in range(3):
            world.add_job(f"small-{number}")
        await asyncio.sleep(SOON)
        world.add_job("huge", pods=5)
        await asyncio.sleep(60)
    want = "needs 5 cpu of flavor standard, which never has more than 4"
    assert why(world, "huge") == ("NoRoom", want)
    assert "estimatedWaitSeconds" not in status(world, "huge")
    assert [each["message"] for each in world.events("huge")["NoRoom"]] == [want]


@simulated
async def test_five_hundred_who_wait_are_told_once_and_only_the_first_ones_again() -> None:
    world, counted = World(job_seconds=20.0), Counted()
    world.add_queue("team", cpu=1)
    for number in range(500):
        world.add_job(f"job-{number:03}")
    async with runtime(world, wrap=counted.wrap):
        await asyncio.sleep(60)
        told = [world.condition("QuotaReserved", f"job-{number:03}") for number in range(500)]
        assert all(each is not None for each in told)
        assert counted.of_workloads() < 500 + 20 * 6 + 3 * 6
        counted.calls.clear()
        await asyncio.sleep(200)  # one is admitted and ends every 20 seconds
    assert counted.of_workloads() < 20 * 20 + 100
    assert counted.most_of_one() <= 21
    behind = [each for each in told if each is not None and each["reason"] == "BehindAnother"]
    assert len(behind) >= 470
    assert "explain workload default/" in behind[0]["message"]


@simulated
async def test_nothing_is_written_while_nothing_changes() -> None:
    world, counted = World(), Counted()
    world.add_queue("team", cpu=1)
    for number in range(60):
        world.add_job(f"job-{number:03}")
    async with runtime(world, wrap=counted.wrap) as replica:
        await asyncio.sleep(60)
        counted.calls.clear()
        before = cycles(replica)
        await asyncio.sleep(600)
        assert cycles(replica) - before < 30
    assert [path for method, path in counted.calls if method in {"PATCH", "POST"} and "leases" not in path] == []


@pytest.mark.accept("E20", part="a missing queue")
@simulated
async def test_a_job_whose_queue_is_missing_is_told_and_runs_once_it_is_there() -> None:
    world = World()
    async with runtime(world):
        world.add_job("job", queue="team")
        await asyncio.sleep(SOON)
        want = ("LocalQueueMissing", "LocalQueue team does not exist")
        assert why(world, "job") == want
        assert [each["message"] for each in world.events("job")["LocalQueueMissing"]] == [want[1]]
        world.add_queue("team")
        await asyncio.sleep(20)
        assert world.running("job") == 1


@simulated
async def test_queues_say_what_is_used_what_waits_and_that_they_are_active() -> None:
    world = World()
    world.add_queue("team", cpu=2, cohort="all", borrowing_limit=2)
    world.add_queue("other", cpu=2, cohort="all")
    async with runtime(world):
        world.add_job("first", pods=3)
        await asyncio.sleep(SOON)
        world.add_job("second", pods=3)
        await asyncio.sleep(SOON)
        queue = world._get(CLUSTER_QUEUES, "team")["status"]
        door = world._get(LOCAL_QUEUES, "team")["status"]
    assert queue["usage"] == [{"name": "standard", "resources": [{"name": "cpu", "total": "3", "borrowed": "1"}]}]
    assert (queue["pending"], queue["admitted"], door["pending"], door["admitted"]) == (1, 1, 1, 1)
    for resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
        active = said(world, resource, "team", "Active")
        assert active is not None
        assert (active["status"], active["reason"]) == ("True", "Ready")


@simulated
async def test_the_status_of_a_queue_is_written_at_most_once_a_second() -> None:
    world, counted = World(job_seconds=1.0), Counted()
    world.add_queue("team", cpu=5)
    async with runtime(world, wrap=counted.wrap):
        for number in range(100):
            world.add_job(f"job-{number:03}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(40)
    want = 2 * (50 + 2)
    assert 10 < counted.on("clusterqueues") + counted.on("localqueues") <= want


@pytest.mark.accept("E20", part="queues in use")
@simulated
async def test_what_is_in_use_says_who_uses_it_takes_nothing_new_and_goes_when_nobody_does() -> None:
    world = World()
    world.add_queue("team", cpu=4)
    async with runtime(world):
        world.add_job("first")
        await asyncio.sleep(SOON)
        name = world.workload("first")["metadata"]["name"]
        for resource, each in ((FLAVORS, "standard"), (CLUSTER_QUEUES, "team"), (LOCAL_QUEUES, "team")):
            world.delete(resource, each)
        world.add_job("second")
        await asyncio.sleep(SOON)
        users = f"Workloads: {NAMESPACE}/{name}"
        told = [said(world, CLUSTER_QUEUES, "team", "InUse"), said(world, LOCAL_QUEUES, "team", "InUse")]
        assert [each and each["message"] for each in told] == [users, users]
        flavor = said(world, FLAVORS, "standard", "InUse")
        assert flavor is not None
        assert flavor["message"] == f"ClusterQueues: team; {users}"
        assert not world.holds("QuotaReserved", "second")
        assert why(world, "second")[0] == "LocalQueueBeingDeleted"
        world.delete(kinds.JOBS, "first")
        await asyncio.sleep(40)
        assert [world.all(each) for each in (FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES)] == [[], [], []]


@simulated
async def test_what_nobody_uses_is_deleted_at_once() -> None:
    world = World()
    world.add_queue("team")
    async with runtime(world):
        await asyncio.sleep(SOON)
        assert world._get(CLUSTER_QUEUES, "team")["metadata"]["finalizers"] == [keys.FINALIZER]
        world.delete(LOCAL_QUEUES, "team")
        world.delete(CLUSTER_QUEUES, "team")
        world.delete(FLAVORS, "standard")
        await asyncio.sleep(SOON)
    assert [world.all(each) for each in (FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES)] == [[], [], []]


@pytest.mark.accept("E15", part="gated pods whose job is gone")
@simulated
async def test_gated_pods_whose_job_is_gone_are_told_and_never_opened() -> None:
    world = World()
    world.add_queue("team", cpu=1)
    async with runtime(world):
        world.add_job("job", pods=1, completions=10)
        await asyncio.sleep(20)
        world.resize("job", 3)
        await asyncio.sleep(20)
        gated = sorted(each["metadata"]["name"] for each in world.pods("job") if "nodeName" not in each["spec"])
        assert len(gated) == 2
        world.delete(kinds.JOBS, "job", policy="Orphan")
        await asyncio.sleep(15)
        assert all("NeverAdmitted" in world.events(name) for name in gated)
        await asyncio.sleep(45)
        node = world._get(kinds.NODES, "node")["metadata"]
        another = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
        for name in gated:
            world.patch(kinds.PODS, name, {"metadata": {"ownerReferences": [another]}})
        await asyncio.sleep(60)
        for name in gated:
            told = world.events(name)["NeverAdmitted"]
            assert [each["count"] for each in told] == [1]
            assert told[0]["message"].startswith("no job owns it: its gate sluice.dev/admission will not be opened")
            assert world._get(kinds.PODS, name)["spec"]["schedulingGates"] == [{"name": keys.ADMISSION_GATE}]


@pytest.mark.accept("E20", part="pods that outlive their job keep its Workload")
@simulated
async def test_a_workload_stays_for_as_long_as_pods_that_outlived_their_job_run() -> None:
    world = World()
    world.add_queue("team", cpu=2)
    async with runtime(world):
        world.add_job("job", pods=2)
        await asyncio.sleep(20)
        first, second = world.pods("job")
        world.delete(kinds.JOBS, "job", policy="Orphan")
        world.add_job("next", pods=2)
        for pod in (first, second):
            await asyncio.sleep(60)
            assert len(world.all(WORKLOADS)) == 2
            assert (world.used(), world.granted("next")) == (2, 0)
            world.end(pod)
        await asyncio.sleep(20)
        assert len(world.all(WORKLOADS)) == 1
        assert (world.used(), world.granted("next")) == (2, 2)


@pytest.mark.accept("E19", part="left alone with a reason")
@simulated
async def test_a_job_that_is_left_alone_is_told_so() -> None:
    world = World()
    world.add_queue("team")
    async with runtime(world):
        world.add_job("job", managedBy="example.com/other")
        await asyncio.sleep(SOON)
    assert [each["message"] for each in world.events("job")["LeftAlone"]] == [
        "the job is not queued: it is managed by example.com/other"
    ]
    spec = world.job()["spec"]
    assert (spec["suspend"], "schedulingGates" in spec["template"]["spec"]) == (False, False)


@simulated
async def test_a_job_that_cannot_be_queued_is_told_why() -> None:
    world = World()
    world.add_queue("team")
    async with runtime(world):
        template = {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "main:1"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        }
        world.add_job("job", template={"spec": template})
        await asyncio.sleep(SOON)
    told = world.events("job")["CannotBeQueued"]
    assert [each["type"] for each in told] == ["Warning"]
    assert "claim" in told[0]["message"]


@simulated
async def test_reports_leave_nine_tenths_of_a_slow_servers_time_to_admission() -> None:
    world, told_at = World(latency_seconds=0.5), set[int]()

    def note(change: Change) -> None:
        if change.before is not None and change.after is not None:
            told_at.add(int(virtual_time.clock().now()))

    world.add_queue("team", cpu=0)
    world.cluster.server.store.collection(WORKLOADS).listeners.append(note)
    async with runtime(world):
        for number in range(60):
            world.add_job(f"job-{number:02}")
            await asyncio.sleep(1)
        moments = len(told_at)
        await asyncio.sleep(20)
        assert all(status(world, f"job-{number:02}") for number in range(60))
    assert 4 <= moments <= 14


@simulated
async def test_a_job_that_ends_is_told_nothing_about_its_quota() -> None:
    world = World(job_seconds=5.0)
    world.add_queue("team", cpu=1)
    async with runtime(world):
        world.add_job("job")
        await asyncio.sleep(60)
    assert world.condition("Finished", "job") is not None
    assert set(world.events("job")) >= {"Queued", "Admitted"}
    assert "QuotaReleased" not in world.events("job")
