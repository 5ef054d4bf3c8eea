"""People's hands and large numbers: whatever happens to jobs, queues and quota, no pod runs that nobody counts.

That quota is kept is seen at every change (`admission_audit`).
"""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from structlog import testing

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation.cluster.store import Change
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACE, RUNTIME, WORKLOADS, World, runtime

pytestmark = pytest.mark.simulated
PODS = 1_200


@pytest.mark.accept("E7", part="thousands of pods in one job")
@simulated
async def test_a_job_grows_to_thousands_of_pods_by_a_few_writes_for_each() -> None:
    world = World(is_audited=False)
    world.add_queue(cpu=PODS)
    made: list[Counted] = []
    most_recorded = Recorded(world)

    def wrap(api: port.Api) -> port.Api:
        made.append(Counted(api))
        return made[-1]

    async with runtime(world, wrap=wrap):
        world.add_job(pods=1, completions=None)
        await asyncio.sleep(10)
        world.resize("job", PODS)
        await asyncio.sleep(60)
        assert (world.running(), world.gated(), world.granted(), len(world.slices())) == (PODS, 0, PODS, 0)
    assert most_recorded.most == 500
    assert made[0].writes < 4.1 * PODS  # a slice is made, admitted and deleted, and a gate opened


@pytest.mark.accept("E20", part="two jobs of one name in a row")
@simulated
async def test_a_job_that_is_made_anew_under_its_name_waits_like_any_other() -> None:
    world = World()
    world.stop_seconds = 20.0
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        first = world.workload()["metadata"]["uid"]
        world.delete(kinds.JOBS, "job")
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        assert world.job()["spec"]["suspend"]
        assert len(world.all(WORKLOADS)) == 2  # the first keeps its quota until its pods are gone
        await asyncio.sleep(30)
        (left,) = world.all(WORKLOADS)
        assert left["metadata"]["uid"] != first
        assert (world.running(), world.used()) == (2, 2)


@pytest.mark.accept("E20", part="a job is deleted and its pods stay")
@pytest.mark.accept("E15", part="a deleted parent")
@simulated
async def test_pods_that_outlive_their_job_still_count_and_gated_ones_are_never_opened() -> None:
    world = World()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.resize("job", 4)
        await asyncio.sleep(10)
        pods = [pod["metadata"]["name"] for pod in world.pods()]
        world.delete(kinds.JOBS, "job", policy="Orphan")
        world.add_job("next", pods=1)
        await asyncio.sleep(120)
        assert (world.used(), world.running("next")) == (2, 0)
        there = [pod for pod in world.all(kinds.PODS) if pod["metadata"]["name"] in pods]
        assert sum(bool(pod["spec"].get("schedulingGates")) for pod in there) == 2
        for pod in there:
            world.delete(kinds.PODS, pod["metadata"]["name"])
        await asyncio.sleep(10)
        assert world.running("next") == 1
        assert world.all(WORKLOADS) == [world.workload("next")]


@pytest.mark.accept("E20", part="the queue of a job that waits")
@simulated
async def test_a_job_that_waits_may_go_to_another_queue() -> None:
    world = World()
    world.add_queue("small", cpu=1)
    world.add_queue("large", cpu=4)
    async with runtime(world):
        world.add_job(pods=2, queue="small")
        await asyncio.sleep(10)
        assert world.job()["spec"]["suspend"]
        world.patch(kinds.JOBS, "job", {"metadata": {"labels": {keys.QUEUE_NAME: "large"}}})
        await asyncio.sleep(10)
        assert (world.running(), world.used("large"), world.used("small")) == (2, 2, 0)
        with pytest.raises(port.ApiError):
            world.patch(kinds.JOBS, "job", {"metadata": {"labels": {keys.QUEUE_NAME: "small"}}})


@pytest.mark.accept("E20", part="a job that waits leaves its queue")
@simulated
async def test_a_job_that_waits_may_leave_its_queue() -> None:
    world = World()
    world.add_queue(cpu=1)
    async with runtime(world):
        world.add_job(pods=2)
        await asyncio.sleep(10)
        world.patch(kinds.JOBS, "job", {"metadata": {"labels": {keys.QUEUE_NAME: None}}})
        await asyncio.sleep(10)
        assert world.find_workload() is None


@pytest.mark.accept("E20", part="spec.active")
@simulated
async def test_a_job_that_is_taken_out_stays_out_until_it_is_let_in_again() -> None:
    world = World()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.deactivate("job")
        await asyncio.sleep(60)
        assert (world.pods(), world.used(), world.suspended["job"]) == ([], 0, 1)
        world.add_job("next", pods=1)
        await asyncio.sleep(10)
        assert world.running("next") == 1
        world.deactivate("job", active=True)
        await asyncio.sleep(10)
        assert world.used() == 1  # it does not fit now
        world.delete(kinds.JOBS, "next")
        await asyncio.sleep(10)
        assert world.running() == 2


@pytest.mark.accept("E20", part="suspended and resumed by hand")
@simulated
async def test_a_hand_on_suspend_is_taken_off_and_told() -> None:
    world = World()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        world.add_job("waits", pods=2)
        await asyncio.sleep(10)
        first, second = ("job", "waits") if world.running("job") else ("waits", "job")
        world.patch(kinds.JOBS, first, {"spec": {"suspend": True}})
        await asyncio.sleep(20)
        assert world.running(first) == 2
        [resumed] = world.events(first)["Resumed"]
        assert (resumed["type"], "spec.active" in resumed["message"]) == ("Warning", True)
        world.patch(kinds.JOBS, second, {"spec": {"suspend": False}})
        await asyncio.sleep(20)
        assert world.job(second)["spec"]["suspend"]
        assert world.events(second)["Suspended"][0]["type"] == "Normal"
        assert world.pods(second) == []


@pytest.mark.accept("E20", part="a queue in use is deleted")
@simulated
async def test_a_queue_that_is_deleted_in_use_stays_and_lets_nobody_in() -> None:
    world = World()
    world.add_queue(cpu=3)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.delete(CLUSTER_QUEUES, "team")
        world.delete(LOCAL_QUEUES, "team")
        world.add_job("next", pods=1)
        world.resize("job", 3)
        await asyncio.sleep(30)
        assert (world.running(), world.running("next"), world.used()) == (2, 0, 2)
        assert "deletionTimestamp" in world.all(CLUSTER_QUEUES)[0]["metadata"]
        world.resize("job", 1)
        await asyncio.sleep(10)
        assert (world.running(), world.used()) == (1, 1)
        world.delete(kinds.JOBS, "job")
        world.delete(kinds.JOBS, "next")
        await asyncio.sleep(30)
        assert world.all(CLUSTER_QUEUES) == []
        assert world.all(LOCAL_QUEUES) == []


@pytest.mark.accept("E20", part="quota below what is used")
@simulated
async def test_quota_that_is_lowered_below_use_kills_nobody_and_lets_nobody_in() -> None:
    world = World()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_job(pods=4, completions=None)
        await asyncio.sleep(10)
        world.set_quota(standard=2)
        world.add_job("next", pods=1)
        await asyncio.sleep(60)
        assert (world.running(), world.running("next"), world.suspended["job"]) == (4, 0, 0)
        condition = world.condition("QuotaReserved", "next")
        assert condition is not None
        want = "needs 1 cpu of flavor standard, which is used 2 above quota: 3 missing"
        assert condition["message"] == want
        world.resize("job", 5)
        await asyncio.sleep(10)
        assert world.running() == 4
        world.resize("job", 2)
        await asyncio.sleep(10)
        assert (world.running(), world.running("next")) == (2, 0)
        world.resize("job", 1)
        await asyncio.sleep(10)
        assert (world.running(), world.running("next")) == (1, 1)


@pytest.mark.accept("E20", part="a job that cannot be queued any more")
@simulated
async def test_a_job_that_waits_and_becomes_one_that_cannot_be_queued_stays_out() -> None:
    world = World()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job("first", pods=2, completions=None)
        await asyncio.sleep(10)
        world.add_job(pods=1)
        await asyncio.sleep(10)
        claims = [{"name": "device", "resourceClaimTemplateName": "device"}]
        world.patch(kinds.JOBS, "job", {"spec": {"template": {"spec": {"resourceClaims": claims}}}})
        world.delete(kinds.JOBS, "first")
        before = world.cluster.server.store.version
        await asyncio.sleep(60)
        assert world.job()["spec"]["suspend"]
        assert world.find_workload() is None  # it keeps no place
        assert world.cluster.server.store.version - before < 120  # Leases, and what becomes of the first


@pytest.mark.accept("E19", part="vertical changes suspend and requeue")
@simulated
async def test_a_job_whose_pods_become_larger_while_it_waits_is_admitted_as_it_is_now() -> None:
    world = World(is_audited=False)  # it counts pods of one cpu
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_job("first", pods=3, completions=None)
        await asyncio.sleep(10)
        world.add_job(pods=2)
        await asyncio.sleep(10)
        larger = [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "2"}}}]
        world.patch(kinds.JOBS, "job", {"spec": {"template": {"spec": {"containers": larger}}}})
        world.delete(kinds.JOBS, "first")
        await asyncio.sleep(20)
        assert world.running() == 2
        assert world.workload()["spec"]["podSets"][0]["requests"] == {"cpu": "2000m"}


@pytest.mark.accept("E16", part="a job that changes at the moment when it is admitted")
@simulated
async def test_a_job_that_changes_at_the_moment_when_there_is_room_is_admitted_as_it_is_now() -> None:
    world, made = World(), list[Meanwhile]()
    world.add_queue(cpu=1)
    async with runtime(world, wrap=lambda api: _kept(made, Meanwhile(api))):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        made[0].then = [lambda: world.set_quota(standard=3), lambda: world.resize("job", 3)]
        world.add_job("other", queue="elsewhere")
        await asyncio.sleep(10)
        assert world.workload()["status"]["firstAdmitted"] == [{"name": "main", "count": 3}]


@pytest.mark.accept("E10", part="nobody is evicted in vain")
@simulated
async def test_quota_is_not_claimed_for_a_job_that_changes_at_the_moment_when_there_is_room() -> None:
    world, made = World(), list[Meanwhile]()
    world.add_priority("high", 10)
    world.add_queue(cpu=3, preemption={"withinClusterQueue": "LowerPriority"})
    async with runtime(world, wrap=lambda api: _kept(made, Meanwhile(api))):
        world.add_job("low", pods=2, completions=None)
        world.add_job(pods=4, completions=None, priority="high")
        await asyncio.sleep(10)
        made[0].then = [lambda: world.set_quota(standard=4), lambda: world.resize("job", 2)]
        world.add_job("other", queue="elsewhere")
        await asyncio.sleep(10)
        assert (world.running("low"), world.running("job"), made[0].claims) == (2, 2, 0)


@pytest.mark.accept("E15", part="a job that makes no sense")
@simulated
async def test_a_job_about_which_nothing_can_be_decided_keeps_nobody_waiting() -> None:
    world = World(is_audited=False)
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.resize("job", 3)
        await asyncio.sleep(10)
        gated = [pod["metadata"]["uid"] for pod in world.pods() if pod["spec"].get("schedulingGates")]
        name = world.workload()["metadata"]["name"]
        broken = {
            "admission": {
                "clusterQueue": "team",
                "podSetAssignments": [{"name": "another", "count": 1, "flavors": {}}],
            },
            "opened": [{"name": "main", "uids": gated}],
        }
        world.cluster.server.handle(
            port.Request(
                method="PATCH",
                path=WORKLOADS.path(name, NAMESPACE, "status"),
                body=msgspec.json.encode({"status": broken}),
                content_type=port.MERGE_PATCH,
            ),
            RUNTIME.user,
        )
        world.add_job("next", pods=1)
        with testing.capture_logs() as logs:
            await asyncio.sleep(200)
        assert world.running("next") == 1
        assert world.gated() == 1
        assert 3 <= [each["event"] for each in logs].count("job_not_decided") <= 5  # tried again once a minute


@simulated
async def test_an_eviction_is_told_of_a_job_of_which_much_was_told_a_moment_ago() -> None:
    world = World()
    world.add_queue(cpu=60)
    async with runtime(world):
        world.add_job(completions=None)
        for size in range(1, 46):
            world.resize("job", size)
            await asyncio.sleep(2)
        assert len(world.events("job")["Resized"]) > 20
        world.deactivate("job")
        await asyncio.sleep(5)
        assert "Evicted" in world.events("job")


class Meanwhile:
    """A connection by which a Workload is made slowly: things happen meanwhile, and the runtime sees them."""

    def __init__(self, api: port.Api) -> None:
        self.then: list[Callable[[], None]] = []
        self.claims = 0
        self._api = api
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        self.claims += b'"claim":{' in (request.body or b"")
        if request.method == "POST" and request.path.endswith("/workloads"):
            while self.then:
                self.then.pop()()
            await asyncio.sleep(0.1)
        return await self._api.send(request)


def _kept(made: list[Meanwhile], one: Meanwhile) -> Meanwhile:
    made.append(one)
    return one


class Counted:
    """A connection that counts writes."""

    def __init__(self, api: port.Api) -> None:
        self.writes = 0
        self._api = api
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        self.writes += request.method != "GET" and "/leases" not in request.path
        return await self._api.send(request)


class Recorded:
    """Sees how many pods are on record at once."""

    def __init__(self, world: World) -> None:
        self.most = 0
        world.cluster.server.store.collection(WORKLOADS).listeners.append(self._see)

    def _see(self, change: Change) -> None:
        status = change.after.object.get("status", {}) if change.after else {}
        self.most = max(self.most, sum(len(part["uids"]) for part in status.get("opened") or ()))
