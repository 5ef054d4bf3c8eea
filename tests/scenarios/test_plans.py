"""What a plan says is what is done then, and nothing else: each controller, paused or observing, in virtual time."""

import asyncio
import contextlib
from collections.abc import Iterator

import msgspec
import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.control.plans import Command
from autoscaler.kube import kinds, port
from autoscaler.runtime import process
from autoscaler.runtime.plans.plan_document import Section, State
from autoscaler.simulation.cluster import SimulatedCluster
from tests import plan_writes
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import admission_world, capacity_world, machine_world, running, worker_world
from tests.scenarios.test_ephemeral_pools import Served
from tests.scenarios.test_leaving import POOLS, Stack

pytestmark = pytest.mark.accept("U1", part="each controller on its own, in virtual time")
PATIENCE_SECONDS = 5.0


def pause(cluster: SimulatedCluster, value: str | None = "true") -> None:
    """Pause the runtime, or let it go on."""
    body = msgspec.json.encode({"metadata": {"annotations": {keys.PAUSED: value}}})
    path = kinds.NAMESPACES.path(running.NAMESPACE)
    request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
    port.required(cluster.server.handle(request, "admin"))


@contextlib.contextmanager
def recorded(cluster: SimulatedCluster, by: str) -> Iterator[list[plan_writes.Written]]:
    """Record what a user writes."""
    handle, written = cluster.server.handle, list[plan_writes.Written]()

    def record(request: port.Request, user: str) -> port.Response:
        answer = handle(request, user)
        body = msgspec.json.decode(request.body) if request.body else {}
        made = plan_writes.of_request(request.method, request.path, body)
        if user == by and made is not None and answer.status < 300:
            written.append(made)
        return answer

    cluster.server.handle = record  # type: ignore[method-assign]
    yield written
    cluster.server.handle = handle  # type: ignore[method-assign]


async def section(replica: process.Process, name: str) -> Section:
    """Ask for a plan, and twice: it changes nothing."""
    first = await replica.plans.document()
    await asyncio.sleep(2)
    second = await replica.plans.document()
    assert first.controllers == second.controllers
    (found,) = [each for each in second.controllers if each.controller == name]
    return found


async def do_planned(
    replica: process.Process, cluster: SimulatedCluster, name: str, user: str
) -> list[plan_writes.Written]:
    """Let a paused controller go on, see that it does first what it planned, and return that."""
    planned = await section(replica, name)
    assert planned.state is State.PAUSED
    want = plan_writes.of_commands(planned.commands)
    with recorded(cluster, user) as written:
        pause(cluster, None)
        await asyncio.sleep(PATIENCE_SECONDS)
    plan_writes.compare(want, written)
    return want


@simulated
async def test_admission_does_what_it_planned() -> None:
    world = admission_world.World()
    world.add_queue(cpu=2)
    world.add_job("waits")
    async with admission_world.runtime(world) as replica:
        await asyncio.sleep(PATIENCE_SECONDS)
        world.add_job("big", pods=9)  # no quota for it
        await asyncio.sleep(PATIENCE_SECONDS)
        pause(world.cluster)
        await asyncio.sleep(2)
        world.add_job("new")
        world.set_quota(standard=20)
        await asyncio.sleep(2)
        want = await do_planned(replica, world.cluster, "admission", admission_world.RUNTIME.user)
        assert [verb for verb, _ in want] == ["create", "patch status of"]
        assert not (await section(replica, "admission")).commands


@simulated
async def test_machines_do_what_they_planned() -> None:
    world = machine_world.World()
    for node in ("n1", "n2"):
        world.add_node(node, cpu="2")
    world.add_machine(nodes=[machine_world.entry("n1")])
    async with machine_world.runtime(world, machines.build) as replica:
        await asyncio.sleep(10)
        assert not (await section(replica, "machines")).commands
        pause(world.cluster)
        await asyncio.sleep(2)
        world.add_guest()
        nodes = [machine_world.entry(node) for node in ("n1", "n2")]
        world.change_machine(nodePool=nodes)
        world.add_machine("other", nodes=[])
        await asyncio.sleep(2)
        want = await do_planned(replica, world.cluster, "machines", machine_world.RUNTIME.user)
        assert ("patch", "node n2") in want
        assert ("patch", "pod guests/guest") in want
        assert ("create", "statefulset default/medium-other") in want
        await asyncio.sleep(10)
        assert not (await section(replica, "machines")).commands


@simulated
async def test_capacity_does_what_it_planned() -> None:
    world = capacity_world.World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with capacity_world.runtime(world) as replica:
        world.add_pod("goes", cpu="3")
        await asyncio.sleep(120)
        assert not (await section(replica, "capacity")).commands
        pause(world.cluster)
        world.delete_pod("goes")
        world.add_pod("comes", cpu="1", nodeSelector={keys.INSTANCE_TYPE: "m5.xlarge", "a": "b"})
        world.add_pod("waits", cpu="3")
        world.add_pod("waits-too", cpu="3")
        await asyncio.sleep(300)  # until it is time to say again what was used
        planned = await section(replica, "capacity")
        resized = [each.what for each in planned.commands if each.verb == "resize"]
        assert resized == ["node group workers-a-m5.xlarge from 1 to 2"]
        assert "pods that wait for a node: 1" in [each.why for each in planned.commands]
        stated = Command(verb="patch status of", what="instancepool workers", why="new: secondsThisMonth")
        assert planned.commands[-2] == stated
        told = planned.commands[-1]
        assert (told.verb, told.what) == ("tell", "pod default/comes")
        assert not world.events("NotTriggerScaleUp")
        await do_planned(replica, world.cluster, "capacity", "a")
        assert world.desired() == {"workers-a-m5.xlarge": 2}
        (event,) = world.events("NotTriggerScaleUp")
        assert (event["involvedObject"]["name"], f"NotTriggerScaleUp: {event['message']}") == ("comes", told.why)
        assert "tell" not in {each.verb for each in (await section(replica, "capacity")).commands}


@simulated
async def test_an_idle_instance_is_planned_to_go_and_goes() -> None:
    world = capacity_world.World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with capacity_world.runtime(world) as replica:
        world.add_pod("goes", cpu="3")
        await asyncio.sleep(120)
        (node,) = [each["metadata"]["name"] for each in world.nodes()]
        world.delete_pod("goes")
        await asyncio.sleep(30)
        pause(world.cluster)
        await asyncio.sleep(60)
        want = await do_planned(replica, world.cluster, "capacity", "a")
        assert ("patch", f"node {node}") in want
        await asyncio.sleep(60)
        assert world.desired() == {}


@simulated
async def test_instances_for_one_pod_each_go_to_whom_the_plan_named() -> None:
    world = Served(schedules=False, minimum=2, maximum=2)
    async with capacity_world.runtime(world) as replica:
        await asyncio.sleep(60)
        world.add_pod("first")
        await asyncio.sleep(5)
        (kept,) = [node for node, uid in world.kept_by_node().items() if uid == world.uid("first")]
        (free,) = set(world.kept_by_node()) - {kept}
        pause(world.cluster)
        await asyncio.sleep(2)
        world.cluster.create(kinds.NODES, {"metadata": {"name": "static"}, "status": {}})
        world.bind("first", "static")
        world.add_pod("second")
        await asyncio.sleep(2)
        planned = await section(replica, "capacity")
        goes_back = "the pod that it was kept for will not come"
        assert Command(verb="taint", what=f"node {kept}", why=goes_back) in planned.commands
        (given,) = [each for each in planned.commands if "is kept for it: toleration" in each.why]
        assert given.what == "pod default/second"
        want = await do_planned(replica, world.cluster, "capacity", "a")
        assert ("patch", "pod default/second") in want
        (node,) = [name for name in (kept, free) if name in given.why]
        assert world.kept_by_node() == {kept: keys.RESERVED_FOR_NONE, free: keys.RESERVED_FOR_NONE, "static": ""} | {
            node: world.uid("second")
        }


@simulated
async def test_pools_are_planned_to_be_held_and_let_go() -> None:
    world = Stack()
    world.add_pool("goes", zones=("a",), minimum=1)
    async with capacity_world.runtime(world) as replica:
        await asyncio.sleep(60)
        world.add_pod("works")
        await asyncio.sleep(60)
        world.delete(POOLS, "goes")
        await asyncio.sleep(60)
        (waits,) = (await replica.plans.document()).controllers
        assert not [each for each in waits.commands if each.verb == "patch"]
        world.delete_pod("works")
        await asyncio.sleep(PATIENCE_SECONDS - 2)
        pause(world.cluster)
        await asyncio.sleep(PATIENCE_SECONDS)
        world.add_pool("comes", zones=("b",))
        await asyncio.sleep(2)
        want = await do_planned(replica, world.cluster, "capacity", "a")
        assert {("patch", "instancepool comes"), ("patch", "instancepool goes")} <= set(want)
        assert world.pool("goes") is None
        assert world.finalizers("comes") == [keys.FINALIZER]


@simulated
async def test_a_stack_that_may_leave_is_planned_to_and_leaves() -> None:
    world = Stack()
    world.add_drain_object()
    world.add_pool(zones=("a",))
    async with capacity_world.runtime(world) as replica:
        await asyncio.sleep(30)
        pause(world.cluster)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(30)
        planned = await section(replica, "capacity")
        assert [each.what for each in planned.commands if each.verb == "patch"] == ["configmap default/sluice-leaving"]
        pause(world.cluster, None)
        await asyncio.sleep(60)
        assert world.drain_object() is None
        assert not (await section(replica, "capacity")).commands


@simulated
async def test_worker_pools_that_are_observed_say_how_they_grow_and_then_do() -> None:
    world = worker_world.World()
    world.add(poolCapacity=3)
    world.line.length = 5
    async with worker_world.runtime(world, observe=True) as replica:
        await asyncio.sleep(120)
        planned = await section(replica, "workers")
        assert planned.state is State.OBSERVING
        why = "the queue asks for 5 more, and the pool may have 3 more"
        assert Command(verb="create", what="3 pods of workerpool default/pool", why=why) in planned.commands
        assert not world.pods()
    want = plan_writes.of_commands(planned.commands)
    with recorded(world.cluster, "a") as written:
        async with worker_world.runtime(world) as replica:
            await asyncio.sleep(100)
            assert not (await section(replica, "workers")).commands  # the same reading is not acted on twice
    assert sorted(written[: len(want)]) == want


@simulated
async def test_worker_pools_at_rest_say_what_is_not_known_of_them() -> None:
    world = worker_world.World(job_seconds=100)
    world.add()
    world.line.length = 1
    async with worker_world.runtime(world) as replica:
        await asyncio.sleep(70)
        pause(world.cluster)
        await asyncio.sleep(3600)  # its worker ends meanwhile
        planned = await section(replica, "workers")
        assert [each.verb for each in planned.commands] == ["delete"]
        assert planned.unknown == ("how 1 worker pools grow: no queue is read while the runtime is paused",)
