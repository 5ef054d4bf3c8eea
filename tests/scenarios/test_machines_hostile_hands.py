"""Machine groups whose parts are changed and deleted by hand, again and again: writes are few, and all is put right."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import failures
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, NAMESPACE, RUNTIME, World, entry, machine_type, runtime

pytestmark = pytest.mark.simulated
SET = f"medium-{GROUP}"
MINUTE = 60


def one_node(*, available: int = 1) -> World:
    world = World()
    world.add_node("n1", cpu=str(2 * available))
    world.add_machine(types={"medium": machine_type(available=available)}, nodes=[entry("n1")])
    return world


def as_runtime(world: World, method: str, path: str, body: bytes | None = None) -> None:
    """Write what nobody but the runtime may, as if somebody had taken the policy away."""
    request = port.Request(method=method, path=path, body=body, content_type=port.MERGE_PATCH)
    port.required(world.cluster.server.handle(request, RUNTIME.user))


async def writes_per_minute(world: World, undo: Callable[[int], object], minutes: int = 10) -> list[int]:
    """Undo something every second; return how many writes the runtime made in each minute."""
    found = []
    for minute in range(minutes):
        before = world.writes.total()
        for second in range(MINUTE):
            undo(MINUTE * minute + second)
            await asyncio.sleep(1)
        found.append(world.writes.total() - before)
    return found


def delete_if_there(world: World, resource: kinds.ResourceType, name: str) -> None:
    if world.exists(resource, name):
        world.delete(resource, name)


# StatefulSets and Services


def scale_down(world: World, turn: int) -> None:
    del turn
    if world.exists(kinds.STATEFUL_SETS, SET):
        world.patch(kinds.STATEFUL_SETS, SET, {"spec": {"replicas": 0}})


def change_by_turns(world: World, turn: int) -> None:
    """Change something else each time, so that no two corrections are alike."""
    changes: Mapping[str, Any] = {"replicas": 0} if turn % 2 else {"updateStrategy": {"type": "RollingUpdate"}}
    if world.exists(kinds.STATEFUL_SETS, SET):
        world.patch(kinds.STATEFUL_SETS, SET, {"spec": dict(changes)})


def change_template(world: World, turn: int) -> None:
    if world.exists(kinds.STATEFUL_SETS, SET):
        template = {"spec": {"nodeSelector": {"turn": str(turn)}}}
        world.patch(kinds.STATEFUL_SETS, SET, {"spec": {"template": template}})


def relabel_service(world: World, turn: int) -> None:
    del turn
    if world.exists(kinds.SERVICES, SET):
        world.patch(kinds.SERVICES, SET, {"spec": {"selector": {"app": "mine"}}})


HANDS: Mapping[str, Callable[[World, int], object]] = {
    "the StatefulSet is deleted": lambda world, _: delete_if_there(world, kinds.STATEFUL_SETS, SET),
    "the Service is deleted": lambda world, _: delete_if_there(world, kinds.SERVICES, SET),
    "the StatefulSet is scaled down": scale_down,
    "the StatefulSet is changed by turns": change_by_turns,
    "the template is changed": change_template,
    "the Service is changed": relabel_service,
    "sleepers are deleted": lambda world, _: delete_if_there(world, kinds.PODS, f"{SET}-0"),
}


@pytest.mark.accept("M13", part="what is undone by hand again and again is written less and less often, and put right")
@pytest.mark.parametrize("hand", HANDS)
def test_what_is_undone_again_and_again_is_written_less_and_less_often_and_put_right(hand: str) -> None:
    virtual_time.run(_undone(HANDS[hand]))


async def _undone(undo: Callable[[World, int], object]) -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        found = await writes_per_minute(world, lambda turn: undo(world, turn))
        assert max(found) <= 60, found
        assert sum(found[5:]) <= 50, found  # ten a minute at most, once it is clear that somebody insists
        await asyncio.sleep(2 * MINUTE)
        assert world.rooms() == {"n1": 1}
        assert world.exists(kinds.SERVICES, SET)
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes


@simulated
async def test_a_controller_of_others_that_ends_every_sleeper_at_once_is_not_raced() -> None:
    world = one_node(available=2)

    def end(change: Any) -> None:
        pod = change.after.object if change.after is not None else {"metadata": {}, "spec": {}}
        metadata = pod["metadata"]
        is_bound = bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in metadata
        if is_bound and metadata["namespace"] == NAMESPACE:
            name = metadata["name"]
            asyncio.get_running_loop().call_later(0.001, lambda: delete_if_there(world, kinds.PODS, name))

    listeners = world.cluster.server.store.collection(kinds.PODS).listeners
    listeners.append(end)
    async with runtime(world, machines.build):
        found = await writes_per_minute(world, lambda _: None)
        assert found[0] <= 60, found
        assert max(found[2:]) <= 10, found
        listeners.remove(end)
        await asyncio.sleep(2 * MINUTE)
        assert world.rooms() == {"n1": 2}


@pytest.mark.accept("M13", part="room that guests give back is held again at once")
@simulated
async def test_guests_that_come_and_go_fast_do_not_slow_down_the_return_of_sleepers() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for turn in range(20):
            world.add_guest(f"g{turn}")
            await asyncio.sleep(3)
            assert world.places(f"g{turn}") == {f"g{turn}": "n1"}
            world.delete_guest(f"g{turn}")
            await asyncio.sleep(3)
            assert world.rooms() == {"n1": 1}, turn


@simulated
async def test_a_pod_quota_that_refuses_sleepers_keeps_no_guest_waiting() -> None:
    world = one_node(available=2)
    writes, is_full = world.cluster.server.writes, [True]
    create = writes.create

    def within_quota(resource: kinds.ResourceType, body: Any, **more: Any) -> Any:
        labels = body["metadata"].get("labels") or {}
        if is_full[0] and resource == kinds.PODS and labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION:
            raise failures.forbidden(kinds.PODS, body["metadata"]["name"], "exceeded quota: pods")
        return create(resource, body, **more)

    writes.create = within_quota  # type: ignore[method-assign]
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.sleepers() == []
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(20)
        assert sorted(str(node) for node in world.places().values()) == ["None", "n1", "n1"]
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        is_full[0] = False
        for name in ("g1", "g2", "g3"):
            world.delete_guest(name)
        await asyncio.sleep(20 * MINUTE)  # the StatefulSet controller asks again after 1000 s at the latest
        assert world.rooms() == {"n1": 2}


# The catalogue


@pytest.mark.accept("M2", part="the catalogue is put right")
@simulated
async def test_a_catalogue_that_is_changed_or_deleted_again_and_again_comes_back_within_a_quarter_of_a_minute() -> None:
    world = one_node()
    path = kinds.CONFIG_MAPS.path(names.MACHINE_CATALOGUE, NAMESPACE)

    def undo(turn: int) -> None:
        if world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE):
            spoilt = b'{"data": {"general.medium.cpu": "64", "general.huge.cpu": "64"}}'
            as_runtime(world, "PATCH" if turn % 2 else "DELETE", path, spoilt if turn % 2 else None)

    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        want = world.catalogue()
        found = await writes_per_minute(world, undo)
        assert max(found) <= 2 * 60 + 5, found  # half of them are the ones made here, as the runtime
        await asyncio.sleep(20)
        assert world.catalogue() == want
        world.add_guest()
        await asyncio.sleep(5)
        assert world.places() == {"guest": "n1"}


@simulated
async def test_a_catalogue_that_somebody_made_immutable_is_made_again() -> None:
    world = one_node()
    handle, path = world.cluster.server.handle, kinds.CONFIG_MAPS.path(names.MACHINE_CATALOGUE, NAMESPACE)

    def immutable(request: port.Request, user: str) -> port.Response:
        """Refuse what the API server refuses of an immutable ConfigMap, and the simulated one does not."""
        there = world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE)
        is_fixed = there and world._get(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE, NAMESPACE).get("immutable")
        if request.path.startswith(path) and request.method == "PATCH" and is_fixed:
            return port.Response(status=422, body=b'{"reason": "Invalid", "message": "field is immutable"}')
        return handle(request, user)

    world.cluster.server.handle = immutable  # type: ignore[method-assign]
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        want = world.catalogue()
        as_runtime(world, "PATCH", path, b'{"immutable": true, "data": {"general.medium.cpu": "1m"}}')
        await asyncio.sleep(20)
        assert world.catalogue() == want


# Nodes


@pytest.mark.accept("M13", part="a node that is made again")
@simulated
async def test_a_node_that_is_deleted_and_made_again_under_its_name_serves_again() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("g1")
        await asyncio.sleep(5)
        for _ in range(3):
            world.delete(kinds.NODES, "n1")
            await asyncio.sleep(1)
            world.add_node("n1", cpu="4")
            await asyncio.sleep(20)
            assert world.node_conditions() == {"n1": "Ready"}
        world.add_guest("g2")
        await asyncio.sleep(3 * MINUTE)
        assert world.places("g2") == {"g2": "n1"}
        assert world.rooms() == {}
        assert world.usage() == {"maximum": 2, "reserved": 0, "used": 2, "waiting": 0}
        for name in ("g1", "g2"):
            world.delete_guest(name)
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 2}
        world.delete(MACHINES, GROUP)
        await asyncio.sleep(30)
        assert world.marks("n1") == {}


@pytest.mark.accept("M13", part="a node that is made again")
@simulated
async def test_a_node_that_comes_back_smaller_holds_what_fits() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 2}
        world.delete(kinds.NODES, "n1")
        await asyncio.sleep(2 * MINUTE)
        assert world.rooms() == {}
        world.add_node("n1", cpu="2")
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}
        world.add_guest()
        await asyncio.sleep(10)
        assert world.places() == {"guest": "n1"}


@pytest.mark.accept("M13", part="taint is flipped")
@simulated
async def test_a_taint_that_is_flipped_all_the_time_ends_as_it_was_last_asked_for() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("g1")
        await asyncio.sleep(5)
        world.writes.clear()
        for turn in range(61):
            world.change_machine(nodePool=[entry("n1", taint=turn % 2 == 0)])
            await asyncio.sleep(1)
        assert world.writes["PATCH /api/v1/nodes/n1"] <= 61
        await asyncio.sleep(90)
        assert world.taints("n1") == {keys.machine_label("medium"), keys.NODE_POOL}
        assert world.places() == {"g1": "n1"}
        world.change_machine(nodePool=[entry("n1")])
        await asyncio.sleep(90)
        assert world.taints("n1") == set()
        assert world.rooms() == {"n1": 1}


# Machines


@pytest.mark.accept("M14", part="guests of a Machine that is made again")
@simulated
async def test_a_machine_that_is_deleted_and_made_again_takes_its_guests_back() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(10)
        for _ in range(3):
            world.delete(MACHINES, GROUP)
            await asyncio.sleep(20)
            world.add_machine(types={"medium": machine_type(available=2)}, nodes=[entry("n1")])
            await asyncio.sleep(40)
        running = [name for name, node in world.places().items() if node == "n1"]
        assert len(running) == 2
        assert world.usage() == {"maximum": 2, "reserved": 0, "used": 2, "waiting": 1}
        world.delete_guest(running[0])
        await asyncio.sleep(30)
        assert sum(node == "n1" for node in world.places().values()) == 2
        for name in world.places():
            world.delete_guest(name)
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 2}


@pytest.mark.accept("M13", part="a renamed type")
@simulated
async def test_a_type_that_is_renamed_while_guests_run_and_wait_lets_them_run_and_serves_again_under_its_name() -> None:
    world = one_node(available=2)
    old, new = ({"name": name, **machine_type(available=2)} for name in ("medium", "large"))
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(10)
        (waits,) = [name for name, node in world.places().items() if node is None]
        world.change_machine(machineTypes=[new], nodePool=[entry("n1", "large")])
        await asyncio.sleep(60)
        assert sum(node == "n1" for node in world.places().values()) == 2
        assert "NoMachineType" in world.events(waits)
        assert world.sleepers("medium") == []
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes

        for name in {"g1", "g2", "g3"} - {waits}:
            world.delete_guest(name)
        await asyncio.sleep(90)
        assert world.rooms("large") == {"n1": 2}
        assert world.places() == {waits: None}
        world.change_machine(machineTypes=[old], nodePool=[entry("n1")])
        await asyncio.sleep(90)
        assert world.places() == {waits: "n1"}
