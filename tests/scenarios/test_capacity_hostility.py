"""Capacity among people and clouds that do what they should not: no work is lost, and nothing wedges or storms."""

import asyncio
import contextlib
from collections import Counter

import pytest

from autoscaler import clock, control
from autoscaler.api import keys, resources
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.api.settings.scaling import Scaling
from autoscaler.capacity import decide
from autoscaler.capacity.model import Placement, Policy, Situation
from autoscaler.capacity.scaleup import placement
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, objects, port
from autoscaler.runtime import process
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud, faults
from autoscaler.simulation.cloud.model import Obstacle
from tests import builders
from tests.autoscaler.capacity import seen
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, running
from tests.scenarios.capacity_replicas import add_account
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import NAMESPACE, World, runtime

ACCOUNTS = kinds.custom(resources.ProviderAccount)
POOLS = kinds.custom(resources.InstancePool)
GROUP = cloud.GroupName("workers-a-m5.xlarge")


class Hostile(World):
    """A world in which anybody may do anything."""

    def delete(self, resource: kinds.ResourceType, name: str) -> None:
        request = port.Request(method="DELETE", path=resource.path(name, NAMESPACE))
        port.required(self.cluster.server.handle(request, "admin"))

    def set_ready(self, node: str, *, is_ready: bool) -> None:
        now = clock.to_rfc3339(virtual_time.clock().now())
        condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": now}
        self.patch(kinds.NODES, node, {"status": {"conditions": [condition]}}, "status")

    def add_twin(self, name: str, *, is_ready: bool) -> None:
        """Make a Node that says it is on the instance of the only one there is; nothing can run on it."""
        (node,) = [each for each in self.nodes() if each["metadata"]["name"].startswith("ip-")]
        taints = [{"key": "ghost", "effect": "NoSchedule"}]
        self.cluster.create(
            kinds.NODES,
            {
                "metadata": {"name": name, "labels": dict(node["metadata"]["labels"])},
                "spec": {"providerID": node["spec"]["providerID"], "taints": taints},
                "status": {"capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"]},
            },
        )
        self.set_ready(name, is_ready=is_ready)

    def calls(self, call: faults.Call) -> int:
        """Count what was asked of the cloud."""
        return self.clients["aws"].calls[call]

    async def churn(self, count: int) -> None:
        """Make pods that fit nowhere, two a second: each is news, and brings a plan."""
        for number in range(count):
            self.add_pod(f"churn-{number}", cpu="1000")
            await asyncio.sleep(0.5)


def writes(world: World) -> Counter[str]:
    """Count writes to the API from now on, by what they are to; Leases do not count."""
    counted: Counter[str] = Counter()
    handle = world.cluster.server.handle

    def count(request: port.Request, user: str) -> port.Response:
        if request.method != "GET" and user != "admin" and "/leases" not in request.path:
            counted[request.path.rpartition("/")[2] if "eviction" in request.path else request.path] += 1
        return handle(request, user)

    world.cluster.server.handle = count  # type: ignore[method-assign]
    return counted


# Nodes that are not what they say


@pytest.mark.parametrize("is_ready", [True, False])
def test_work_is_safe_whatever_other_nodes_say_they_are_on_its_instance(*, is_ready: bool) -> None:
    async def scenario() -> None:
        world = Hostile()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        async with runtime(world):
            world.add_pod("one", cpu="3")
            await asyncio.sleep(90)
            want = world.bound()
            for name in ("a-twin", "z-twin"):  # one comes before the true node, one after it
                world.add_twin(name, is_ready=is_ready)
            await asyncio.sleep(3600)
            assert world.bound() == want
            world.delete_pod("one")
            await asyncio.sleep(300)
            assert world.desired() == {}  # and the instance goes when it is idle all the same

    virtual_time.run(scenario())


@simulated
async def test_an_instance_whose_node_somebody_deleted_has_its_time_and_its_offering_is_not_blamed() -> None:
    world = Hostile()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=300)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(1200)
        world.delete(kinds.NODES, world.bound()["one"])
        await asyncio.sleep(600)
        assert world.desired() == {GROUP: 1}  # its kubelet may come back
        world.add_pod("two", cpu="3")
        await asyncio.sleep(1)
        assert world.desired() == {GROUP: 2}  # but nobody waits for it
        await asyncio.sleep(400)
        assert world.desired() == {GROUP: 1}
        assert world.events("NodeLost")
        assert not world.events("NeverJoined")


@simulated
async def test_instances_whose_nodes_were_all_deleted_do_not_stay_for_ever() -> None:
    world = Hostile()
    world.add_pool(zones=("a",))
    async with runtime(world):
        for number in range(8):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(120)
        for node in world.nodes():
            world.delete(kinds.NODES, node["metadata"]["name"])
        await asyncio.sleep(1800)
        assert world.desired() == {}


@simulated
async def test_an_idle_node_goes_though_somebody_takes_our_mark_off() -> None:
    world = Hostile()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(90)
        (node,) = world.nodes()
        world.delete_pod("one")
        while keys.REMOVING not in str(node["spec"].get("taints")):
            await asyncio.sleep(0.5)
            (node,) = world.nodes()
        world.patch(kinds.NODES, node["metadata"]["name"], {"spec": {"taints": None}})
        await asyncio.sleep(60)
        assert (world.desired(), world.nodes()) == ({}, [])


@simulated
async def test_a_node_that_was_away_for_a_moment_does_not_make_instances_seem_slow() -> None:
    world = Hostile()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    limits = {"targetLatencySeconds": 4000}
    scope = builders.resource("Scope", pools=[{"name": "workers", "limits": limits}])
    world.cluster.create(kinds.custom(resources.Scope), scope)
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    job = world.cluster.create(
        kinds.JOBS, {"metadata": {"name": "job", "namespace": "team"}, "spec": {"parallelism": 0}}
    )
    kept = {key: job["metadata"][key] for key in ("name", "uid")}
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "controller": True, **kept}]
    async with runtime(world):
        world.add_pod("first", cpu="3")
        await asyncio.sleep(5 * 3600)
        (node,) = world.nodes()
        for is_ready in (False, True):
            world.set_ready(node["metadata"]["name"], is_ready=is_ready)
            await asyncio.sleep(5)
        for number in range(6):
            world.add_pod(f"job-{number}", cpu="3", namespace="team", owners=owners)
        await asyncio.sleep(60)
        assert world.desired() == {GROUP: 2}  # one more place serves them all in time


# Clouds that refuse


@simulated
async def test_a_group_that_may_not_be_asked_does_not_hold_up_pods_that_another_could_serve() -> None:
    world = Hostile()
    for name in ("first", "second"):
        world.add_pool(name, zones=("a",))
    entries = [{"name": "first", "priority": 9}, {"name": "second", "priority": 1}]
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=entries))
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    deny(world.cloud, "first")
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3", namespace="team")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"one"}
        assert world.desired() == {"second-a-m5.xlarge": 1}


@pytest.mark.parametrize("call", [faults.Call.TERMINATE, faults.Call.SET_DESIRED])
@pytest.mark.parametrize("effect", [faults.Effect.THROTTLE, faults.Effect.DENY])
def test_a_cloud_that_wants_fewer_calls_gets_few_however_busy_the_cluster_is(
    call: faults.Call, effect: faults.Effect
) -> None:
    async def scenario() -> None:
        world = Hostile()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=30)
        async with runtime(world):
            for number in range(5):
                world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(90)
            world.cloud.faults.add(effect, call, times=None)
            world.delete_pod("p-0")
            more = 3 if call is faults.Call.SET_DESIRED else 0  # one of them has room already
            for number in range(more):
                world.add_pod(f"more-{number}", cpu="3")
            await asyncio.sleep(60)
            before = world.calls(call)
            await world.churn(120)
            assert world.calls(call) - before <= 5
            world.cloud.faults.clear()
            await asyncio.sleep(300)
            assert world.desired() == {GROUP: 4 + more}

    virtual_time.run(scenario())


@simulated
async def test_a_group_whose_maximum_was_set_below_its_size_is_not_read_again_with_every_plan() -> None:
    world = Hostile()
    world.add_pool(zones=("a",))
    async with runtime(world):
        for number in range(5):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(90)
        world.cloud.resize(GROUP, minimum=0, maximum=3)
        await asyncio.sleep(70)
        before = world.calls(faults.Call.GROUPS)
        await world.churn(120)
        assert world.calls(faults.Call.GROUPS) - before <= 5
        assert len(world.bound()) == 5  # and nothing was ended for it


@simulated
async def test_instances_of_an_account_that_cannot_be_used_for_a_while_stay_in_the_books() -> None:
    world = Hostile()
    world.add_pool(zones=("a",))
    far = add_account(world, "far", pool="remote")
    locked: set[str] = set()
    async with replica_of(world, {"far": far}, locked):
        for pool in ("workers", "remote"):
            world.add_pod(pool, cpu="3", nodeSelector={keys.INSTANCE_POOL: pool})
        await asyncio.sleep(120)
        assert len(world.bound()) == 2
        locked.add("far")
        world.patch(ACCOUNTS, "far", {"spec": {"region": "eu-west-2"}})  # a change that makes it read anew
        await asyncio.sleep(1200)
        locked.clear()
        await asyncio.sleep(300)
        phases = {each["metadata"]["name"]: each["status"]["phase"] for each in world.instances()}
        assert phases == {"workers-001": "Ready", "remote-001": "Ready"}


def deny(provider: SimulatedCloud, pool: str) -> None:
    """Let nobody set the size of a pool's groups."""
    plain = provider.set_desired

    def refuse(group: "cloud.NodeGroup", desired: int) -> None:
        if str(group.name).startswith(pool):
            raise cloud.CloudError(cloud.Reason.DENIED, "not authorized to perform: SetDesiredCapacity")
        plain(group, desired)  # type: ignore[arg-type]

    provider.set_desired = refuse  # type: ignore[method-assign,assignment]


def replica_of(
    world: World, others: dict[str, SimulatedCloud], locked: set[str]
) -> contextlib.AbstractAsyncContextManager[process.Process]:
    """Run a replica for which some accounts cannot be opened at times."""

    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        del context, spec
        if name in locked:
            raise cloud.CloudError(cloud.Reason.DENIED, f"there is no Secret for {name}")
        return others.get(name, world.cloud).client()

    return running.replica(world.cluster, capacity_world.registrations(world, open_cloud))


# Storms


@simulated
async def test_pods_that_never_may_leave_neither_hold_up_launches_nor_are_asked_all_the_time() -> None:
    world = Hostile()
    world.add_pool("old", zones=("a",), maximum=60)
    world.add_pool("new", zones=("a",))
    service = Service(world, "web", cpu="100m", nodeSelector={keys.INSTANCE_POOL: "old"})
    async with runtime(world):
        await asyncio.sleep(5)
        service.start(300)
        await asyncio.sleep(120)
        assert len(service.running()) == 300
        service.guard(available=300)
        world.delete(POOLS, "old")
        await asyncio.sleep(120)
        counted = writes(world)
        world.add_pod("urgent", cpu="3", nodeSelector={keys.INSTANCE_POOL: "new"})
        await asyncio.sleep(1)
        assert world.desired()["new-a-m5.xlarge"] == 1
        await asyncio.sleep(300)
        assert 300 <= counted["eviction"] <= 300 * 11  # each is asked about twice a minute
        assert len(service.running()) == 300


@simulated
async def test_an_hour_in_which_nothing_happens_takes_hardly_a_write() -> None:
    world = Hostile()
    world.add_pool(limits__maxIdleSeconds=7200)
    async with runtime(world):
        for number in range(9):
            world.add_pod(f"p-{number}")
        world.add_pod("never", cpu="100")
        await asyncio.sleep(300)
        counted, before = writes(world), world.calls(faults.Call.GROUPS)
        await asyncio.sleep(3600)
        assert sum(counted.values()) <= 67  # what the pool has used, once a minute; why a pod waits, every ten
        assert world.calls(faults.Call.GROUPS) - before <= 61


# Clocks


@simulated
async def test_a_clock_that_is_set_back_does_not_hold_up_launches() -> None:
    world = Hostile()
    world.add_pool()
    async with runtime(world, scaling=Scaling(launches_per_minute=3)):
        await asyncio.sleep(5)
        for number in range(3):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(5)
        assert sum(world.desired().values()) == 3
        virtual_time.clock()._start -= 86_400
        world.add_pod("late", cpu="3")
        await asyncio.sleep(120)
        assert sum(world.desired().values()) == 4


@simulated
async def test_a_clock_that_is_set_back_does_not_prolong_a_shortage() -> None:
    world = Hostile()
    world.add_pool()
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
    async with runtime(world):
        world.add_pod("one")
        await asyncio.sleep(60)
        world.cloud.relieve()
        virtual_time.clock()._start -= 86_400
        await asyncio.sleep(600)
        assert set(world.bound()) == {"one"}


# Crowds


def placed_demands(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> int:
    """Plan, and return how many demands were looked at in all placements together."""
    seen_demands: list[int] = []
    plain = placement.place

    def count(situation: Situation, *policy: Policy) -> Placement:
        seen_demands.append(len(situation.demands))
        return plain(situation, *policy)

    monkeypatch.setattr(placement, "place", count)
    decide.decide(snapshot, Policy())
    return sum(seen_demands)


def test_planning_does_not_take_longer_for_each_scope_that_asks_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes, pools, sizes = 20, 10, 10
    limits = {"targetLatencySeconds": 1200, "targetMaxSecondsPerMonth": 0}
    entries = [{"name": f"pool-{number}", "priority": -number, "limits": limits} for number in range(pools)]
    pods = [
        seen.pod(f"p-{scope}-{size}", cpu=f"{100 + size}m", owner="Job", metadata={"namespace": f"team-{scope}"})
        for scope in range(scopes)
        for size in range(sizes)
    ]
    snapshot = seen.snapshot(
        pods=pods,
        pools={f"pool-{number}": seen.pool() for number in range(pools)},
        groups=tuple(seen.group(pool=f"pool-{number}") for number in range(pools)),
        scopes={f"s-{number}": ScopeSpec.model_validate({"pools": entries}) for number in range(scopes)},
        namespaces={f"team-{number}": {keys.SCOPE: f"s-{number}"} for number in range(scopes)},
    )
    assert placed_demands(monkeypatch, snapshot) <= 2 * scopes * sizes + pools * sizes  # not once more in every pool


def test_planning_many_jobs_that_go_to_one_zone_each_does_not_take_the_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = 60

    def member(job: int, number: int) -> objects.Pod:
        owner = {"kind": "Job", "name": f"j-{job}", "uid": f"j-{job}", "controller": True}
        labels = {"batch.kubernetes.io/job-name": f"j-{job}"}
        metadata = {"annotations": {keys.SAME_ZONE: "true"}, "ownerReferences": [owner], "labels": labels}
        gates = [{"name": keys.PLACEMENT_GATE}]
        return seen.pod(f"j-{job}-{number}", waits=False, metadata=metadata, schedulingGates=gates)

    snapshot = seen.snapshot(
        pods=[member(job, number) for job in range(jobs) for number in range(3)],
        groups=tuple(seen.group(zone=zone, maximum=100) for zone in "abc"),
    )
    assert (
        placed_demands(monkeypatch, snapshot) <= 3 * 2 * jobs + jobs
    )  # three zones, each with what was promised there
