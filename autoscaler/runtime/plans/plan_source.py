"""Ask the controllers of this replica for their plans: for GET /plan, and for the log where it only observes.

It writes nothing. However many ask, one plan is made at a time, and one that is a moment old serves again.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from autoscaler import clock, control
from autoscaler.control import plans
from autoscaler.runtime import fence
from autoscaler.runtime.plans import plan_document
from autoscaler.runtime.plans.plan_document import Document, Section, State

log = structlog.get_logger()
FRESH_SECONDS: Final = 1.0
LOG_SECONDS: Final = 10.0
"""While we only observe, it is looked so often whether plans have changed."""
_STATES: Final = {
    None: State.ACTING,
    fence.Closed.OBSERVING: State.OBSERVING,
    fence.Closed.PAUSED: State.PAUSED,
    fence.Closed.NOT_LEADING: State.STANDBY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A controller, and how it stands."""

    controller: control.Controller
    leader: Callable[[], str | None]
    closed: Callable[[], fence.Closed | None]
    unsynced: Callable[[], str | None]


class PlanSource:
    """The plans of this replica."""

    def __init__(self, time: clock.Clock, controllers: Mapping[str, Planned]) -> None:
        self._clock = time
        self._controllers = controllers
        self._making: asyncio.Task[Document] | None = None
        self._made_at = 0.0

    async def document(self) -> Document:
        """Say what all controllers would do now."""
        now = self._clock.monotonic()
        if self._making is None or (self._making.done() and now >= self._made_at + FRESH_SECONDS):
            self._making, self._made_at = asyncio.create_task(self._make(), name="plan"), now
        return await asyncio.shield(self._making)

    async def log_changes(self) -> None:
        """Log the plans, again and again, of controllers whose plan is another than before."""
        told: dict[str, Section] = {}
        while True:
            await asyncio.sleep(LOG_SECONDS)
            for each in (await self.document()).controllers:
                if each.has_plan and each != told.get(each.controller):
                    told[each.controller] = each
                    listed = msgspec.to_builtins(each.commands[: plan_document.PRINTED_MAX])
                    more = len(each.commands) - len(listed) + each.more
                    log.info("plan", controller=each.controller, commands=listed, more=more, unknown=each.unknown)

    async def _make(self) -> Document:
        at = datetime.fromtimestamp(self._clock.now(), UTC)
        sections = await asyncio.gather(*(self._section(name, each) for name, each in self._controllers.items()))
        return Document(at=at, controllers=tuple(sections))

    async def _section(self, name: str, each: Planned) -> Section:
        leader, state, missing = each.leader(), _STATES[each.closed()], each.unsynced()
        if state is State.STANDBY:
            return Section(controller=name, leader=leader, state=state)
        if missing is not None:
            return Section(controller=name, leader=leader, state=State.STARTING, waits_for=missing)
        return plan_document.section(name, leader, state, await _planned(name, each.controller))


async def _planned(name: str, controller: control.Controller) -> plans.Planned:
    if not isinstance(controller, control.Planning):
        return plans.Planned(unknown=("everything: this controller tells no plan",))
    try:
        return await controller.planned()
    except Exception as error:  # one controller's trouble is not the others'
        log.exception("plan_failed", controller=name, error=str(error))
        return plans.Planned(unknown=(f"everything: {type(error).__name__}: {error}",))
