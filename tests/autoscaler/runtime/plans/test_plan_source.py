"""A replica's plans: one at a time however many ask, one controller's trouble is its own, changes are logged."""

import asyncio
from collections.abc import Callable

import pytest
import structlog

from autoscaler import control
from autoscaler.control.plans import Command, Planned
from autoscaler.runtime import fence
from autoscaler.runtime.plans import plan_source
from autoscaler.runtime.plans.plan_document import State
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated

COMMAND = Command(verb="patch", what="node n1", why="it must")


class Silent:
    """A controller that tells no plan."""

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        raise AssertionError(f"nobody asked for a cycle: {dirty}")


class Telling(Silent):
    """A controller that takes its time to plan."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.asked = 0
        self.commands = [COMMAND]
        self._fault = fault

    async def planned(self) -> Planned:
        self.asked += 1
        await asyncio.sleep(0.5)
        if self._fault is not None:
            raise self._fault
        return Planned(commands=tuple(self.commands))


def planned(
    controller: control.Controller,
    *,
    closed: Callable[[], fence.Closed | None] = lambda: None,
    missing: str | None = None,
) -> plan_source.Planned:
    return plan_source.Planned(
        controller=controller, leader=lambda: "sluice_a_0", closed=closed, unsynced=lambda: missing
    )


@simulated
async def test_many_who_ask_at_once_get_one_plan() -> None:
    controller = Telling()
    source = plan_source.PlanSource(virtual_time.clock(), {"workers": planned(controller)})
    first, *others = await asyncio.gather(*(source.document() for _ in range(100)))
    assert all(each is first for each in others)
    assert await source.document() is first
    await asyncio.sleep(1)
    assert await source.document() is not first
    assert controller.asked == 2


@simulated
async def test_who_gives_up_waiting_spoils_nobody_elses_plan() -> None:
    source = plan_source.PlanSource(virtual_time.clock(), {"workers": planned(Telling())})
    hasty = asyncio.create_task(source.document())
    patient = asyncio.create_task(source.document())
    await asyncio.sleep(0.1)
    hasty.cancel()
    assert (await patient).controllers[0].commands == (COMMAND,)


@simulated
async def test_each_controller_speaks_for_itself() -> None:
    controllers = {
        "telling": planned(Telling()),
        "broken": planned(Telling(RuntimeError("no"))),
        "silent": planned(Silent()),
        "other": planned(Telling(), closed=lambda: fence.Closed.NOT_LEADING),
        "starting": planned(Telling(), missing="Pod: Listing"),
        "paused": planned(Telling(), closed=lambda: fence.Closed.PAUSED),
    }
    source = plan_source.PlanSource(virtual_time.clock(), controllers)
    found = {each.controller: each for each in (await source.document()).controllers}
    assert {name: each.state for name, each in found.items()} == {
        "telling": State.ACTING,
        "broken": State.ACTING,
        "silent": State.ACTING,
        "other": State.STANDBY,
        "starting": State.STARTING,
        "paused": State.PAUSED,
    }
    assert {name for name, each in found.items() if each.commands} == {"telling", "paused"}
    assert found["broken"].unknown == ("everything: RuntimeError: no",)
    assert found["silent"].unknown == ("everything: this controller tells no plan",)
    assert found["starting"].waits_for == "Pod: Listing"
    assert found["other"].leader == "sluice_a_0"


@simulated
async def test_plans_are_logged_when_they_change() -> None:
    controller = Telling()
    source = plan_source.PlanSource(virtual_time.clock(), {"workers": planned(controller)})
    with structlog.testing.capture_logs() as logged:
        task = asyncio.create_task(source.log_changes())
        await asyncio.sleep(100)
        controller.commands.append(COMMAND)
        await asyncio.sleep(100)
        task.cancel()
    assert [(each["controller"], len(each["commands"])) for each in logged] == [("workers", 1), ("workers", 2)]
    assert list(logged[0]["commands"]) == [{"verb": "patch", "what": "node n1", "why": "it must"}]


pytestmark = pytest.mark.simulated
