"""A scope that namespaces use, in virtual time: its deletion waits for them, it stays in force, and it says why."""

import asyncio
import copy
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from autoscaler.api import keys, names, resources
from autoscaler.kube import kinds, port
from autoscaler.simulation.cluster import SimulatedCluster
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, Body, World, runtime

SCOPES = kinds.custom(resources.Scope)
POOLS = kinds.custom(resources.InstancePool)


class Team(World):
    """A world with a scope, and the stack's drain object."""

    def __init__(self, *, has_drain_object: bool = True) -> None:
        super().__init__()
        if has_drain_object:
            self.add_drain_object()

    def add_drain_object(self) -> None:
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE}})

    def add_scope(self, name: str = "research", *pools: Body) -> None:
        entries = list(pools) or [{"name": "workers"}]
        self.cluster.create(SCOPES, builders.resource("Scope", name=name, pools=entries))

    def add_namespace(self, name: str, scope: str | None = "research") -> None:
        self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        self.label(name, scope)

    def label(self, namespace: str, scope: str | None) -> None:
        self.patch(kinds.NAMESPACES, namespace, {"metadata": {"labels": {keys.SCOPE: scope}}})

    def delete(self, resource: kinds.ResourceType, name: str) -> None:
        request = port.Request(method="DELETE", path=resource.path(name, NAMESPACE))
        port.required(self.cluster.server.handle(request, "admin"))

    def scope(self, name: str = "research") -> Body | None:
        return next((each for each in self.all(SCOPES) if each["metadata"]["name"] == name), None)

    def finalizers(self, name: str = "research") -> list[str]:
        found: list[str] = (self.scope(name) or {"metadata": {}})["metadata"].get("finalizers", [])
        return found

    def in_use(self, name: str = "research") -> Body:
        said = (self.scope(name) or {}).get("status", {}).get("conditions", ())
        return next((each for each in said if each["type"] == "InUse"), {})

    def through(self, api: port.Api) -> "Team":
        """Return the same world, reached through this connection."""
        seen = copy.copy(self)
        seen.cluster = cast("SimulatedCluster", SimpleNamespace(client=lambda _: api))
        return seen


class Refusing:
    """An API server that refuses some patches, and counts them."""

    def __init__(self, api: port.Api, path: str) -> None:
        self._api, self._path = api, path
        self.refused = 0
        self.refuses = True
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        if self.refuses and request.method == "PATCH" and request.path.endswith(self._path):
            self.refused += 1
            return port.Response(status=403, body=msgspec.json.encode({"reason": "Forbidden"}))
        return await self._api.send(request)


@simulated
async def test_a_scope_is_held_while_a_namespace_uses_it_and_says_who_does() -> None:
    world = Team()
    world.add_pool()
    world.add_pool("own", scope="research", instanceWide=False)
    world.add_pool("for-all", scope="research")
    world.add_scope()
    world.add_scope("unused", {"name": "workers"})
    async with runtime(world):
        await asyncio.sleep(5)
        assert world.finalizers() == world.finalizers("unused") == []
        assert world.in_use("unused") == {}
        assert (world.in_use()["reason"], world.in_use()["message"]) == ("Pools", "pools of this scope alone: own")
        for name in ("d", "b", "c", "a"):
            world.add_namespace(name)
        world.add_namespace("elsewhere", "unused-too")
        await asyncio.sleep(2)
        assert (world.finalizers(), world.finalizers("unused")) == ([keys.FINALIZER], [])
        said = world.in_use()
        assert (said["status"], said["reason"]) == ("True", "Namespaces")
        assert said["message"] == "namespaces: a, b, c and 1 more; pools of this scope alone: own"
        for name in ("a", "b", "c", "d"):
            world.label(name, None)
        await asyncio.sleep(2)
        assert world.finalizers() == []
        assert world.in_use()["reason"] == "Pools"
        world.delete(SCOPES, "research")
        assert world.scope() is None  # pools do not hold it: stacks delete them after it


@simulated
async def test_a_scope_that_is_deleted_in_use_stays_in_force_until_the_last_namespace_leaves_it() -> None:
    world = Team()
    world.add_pool("spot", zones=("a",))
    world.add_pool("workers", zones=("b",))
    limits = {"targetMaxSecondsPerMonth": 5_000_000}
    world.add_scope("research", {"name": "workers", "priority": 9, "limits": limits}, {"name": "spot", "priority": 1})
    world.label(NAMESPACE, "research")
    world.add_namespace("more")
    async with runtime(world):
        await asyncio.sleep(20)
        world.delete(SCOPES, "research")
        await asyncio.sleep(1)
        assert "deletionTimestamp" in (world.scope() or {})["metadata"]
        said = world.in_use()
        assert said["reason"] == "DeletionHeld"
        assert said["message"] == (
            "it is being deleted, and stays in force until no namespace has the label sluice.dev/scope with its name;"
            " namespaces: default, more"
        )
        [event] = world.events("DeletionHeld")
        assert (event["type"], event["message"]) == ("Warning", said["message"])
        world.run_seconds = 120
        world.add_pod("one", cpu="3")
        await asyncio.sleep(700)  # what was used is written every five minutes
        pools = {each["spec"]["pool"] for each in world.instances()}
        assert pools == {"workers"}  # its order holds, which is not that of names
        assert (world.scope() or {})["status"]["pools"][0]["secondsThisMonth"] > 0
        world.label(NAMESPACE, None)
        await asyncio.sleep(600)
        assert world.scope() is not None
        assert world.in_use()["message"].endswith("; namespaces: more")
        assert len(world.events("DeletionHeld")) == 1
        world.label("more", "other")
        await asyncio.sleep(1)
        assert world.scope() is None


@simulated
async def test_a_namespace_that_is_being_deleted_uses_no_scope_any_more() -> None:
    world = Team()
    world.add_pool()
    world.add_scope()
    world.add_namespace("team")
    body = {"metadata": {"name": "slow", "namespace": "team", "finalizers": ["example.com/slow"]}}
    world.cluster.create(kinds.CONFIG_MAPS, body)  # so that the namespace takes its time to go
    async with runtime(world):
        await asyncio.sleep(5)
        assert world.finalizers() == [keys.FINALIZER]
        world.delete(SCOPES, "research")
        await asyncio.sleep(5)
        assert world.scope() is not None
        world.delete(kinds.NAMESPACES, "team")
        await asyncio.sleep(1)
        assert "team" in {each["metadata"]["name"] for each in world.all(kinds.NAMESPACES)}
        assert world.scope() is None


@pytest.mark.accept("S1")
@simulated
async def test_scopes_are_let_go_at_once_when_the_stack_leaves_and_nobody_holds_them_again() -> None:
    world = Team()
    world.add_pool()
    world.add_scope()
    world.label(NAMESPACE, "research")
    async with runtime(world):
        await asyncio.sleep(20)
        assert world.finalizers() == [keys.FINALIZER]
        world.add_pod("works")
        await asyncio.sleep(60)
        assert "works" in world.bound()
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(16)  # it is looked at every fifteen seconds
        assert world.finalizers() == []  # work holds pools, and no scope
        assert [each for each in world.all(kinds.CONFIG_MAPS) if each["metadata"]["name"] == names.DRAIN_OBJECT]
        world.delete(SCOPES, "research")
        assert world.scope() is None
        world.add_scope("late")
        world.label(NAMESPACE, "late")
        world.patch(kinds.PODS, "works", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(300)
        assert world.finalizers("late") == []
        drain_objects = [each["metadata"]["name"] for each in world.all(kinds.CONFIG_MAPS)]
        assert names.DRAIN_OBJECT not in drain_objects


@simulated
async def test_without_a_drain_object_nothing_is_held_and_what_was_is_let_go() -> None:
    world = Team(has_drain_object=False)  # nor pools: nothing but scopes keeps anybody from leaving
    world.add_scope()
    world.label(NAMESPACE, "research")
    held = {"metadata": {"finalizers": [keys.FINALIZER, "example.com/theirs"]}}
    world.add_scope("old")
    world.add_namespace("old", "old")
    world.patch(SCOPES, "old", held)  # by a runtime whose stack is gone
    async with runtime(world):
        await asyncio.sleep(5)
        assert (world.finalizers(), world.finalizers("old")) == ([], ["example.com/theirs"])
        assert world.in_use()["reason"] == "Namespaces"
        world.add_drain_object()
        await asyncio.sleep(16)
        assert world.finalizers() == [keys.FINALIZER]
        world.patch(kinds.CONFIG_MAPS, names.DRAIN_OBJECT, {"metadata": {"finalizers": None}})
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)  # too fast for anybody to see it going
        await asyncio.sleep(16)
        assert world.finalizers() == []


@simulated
async def test_a_scope_that_makes_no_sense_to_us_is_let_go_with_the_stack() -> None:
    world = Team()
    world.add_pool()
    world.add_scope()
    world.label(NAMESPACE, "research")
    async with runtime(world):
        await asyncio.sleep(20)
        spoiled = {**(world.scope() or {}), "spec": {"pools": "as another version writes them"}}
        world.cluster.server.store.put(SCOPES, spoiled)
        await asyncio.sleep(5)
        assert world.finalizers() == [keys.FINALIZER]
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        assert world.finalizers() == []


@simulated
async def test_a_finalizer_that_is_refused_for_ever_is_asked_for_now_and_then_and_all_else_goes_on() -> None:
    world = Team()
    world.add_pool()
    world.add_scope()
    world.add_scope("other")
    world.label(NAMESPACE, "research")
    world.add_namespace("others", "other")
    api = Refusing(world.cluster.client("a"), "/scopes/research")
    async with runtime(world.through(api)):
        await asyncio.sleep(20)
        for number in range(100):
            world.add_pod(f"pod-{number}", cpu="100m")
            await asyncio.sleep(6)
        assert 5 <= api.refused <= 30  # of a thousand cycles
        assert (world.finalizers(), world.finalizers("other")) == ([], [keys.FINALIZER])
        assert len(world.bound()) == 100
        assert world.in_use()["reason"] == "Namespaces"
        api.refuses = False
        await asyncio.sleep(61)
        assert world.finalizers() == [keys.FINALIZER]


@simulated
async def test_a_scope_that_cannot_be_let_go_holds_neither_the_others_nor_anything_else() -> None:
    world = Team()
    world.add_pool()
    for name in ("first", "second"):
        world.add_scope(name)
        world.add_namespace(f"in-{name}", name)
    api = Refusing(world.cluster.client("a"), "/scopes/first")
    api.refuses = False
    async with runtime(world.through(api)):
        await asyncio.sleep(20)
        assert world.finalizers("first") == world.finalizers("second") == [keys.FINALIZER]
        api.refuses = True
        for name in ("first", "second"):
            world.label(f"in-{name}", None)
            world.delete(SCOPES, name)
        await asyncio.sleep(120)
        assert world.scope("first") is not None
        assert world.scope("second") is None
        assert api.refused <= 10
        api.refuses = False
        await asyncio.sleep(61)
        assert world.scope("first") is None
