"""Machines: room is held on chosen nodes for machine types, and guests that ask for one get it.

A cycle is a few rounds: look at the nodes that changed, decide about the groups that changed, and write; the next round
sees what was written. What the scheduler makes of an opened guest is waited for a moment: guests are placed one after
the other, and each would need a cycle of its own otherwise. Groups share nothing but nodes, and a node has one group.
Nothing is decided here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.api import controllers, resources
from autoscaler.control import copies, farewell, pacing, plans, takeover
from autoscaler.kube import kinds, objects
from autoscaler.kube.writing import writer
from autoscaler.machines import catalogue, decide, executor, leaving, making, planned
from autoscaler.machines.model import OpenGuest, OpenSleeper, Plan
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.nodes.node_views import NodeView
from autoscaler.machines.objects import owned, writes
from autoscaler.machines.objects.writes import On, Step, Write
from autoscaler.machines.reporting import event_messages, reporter, telling
from autoscaler.machines.state import assembling, known, views
from autoscaler.machines.wanted_condition import Said

log = structlog.get_logger()
ROUNDS: Final = 100
"""So many rounds a cycle has at most; what is left is the next one's."""
BINDING_SECONDS: Final = 0.2
"""So long after the last opening a cycle waits for a guest to be bound."""
FAILED_SECONDS: Final = 60.0
"""How long a group is left alone about which nothing could be decided."""


class Controller:
    """Handles the Machines of a cluster."""

    def __init__(self, context: control.ControllerContext, *, image: str) -> None:
        context = replace(context, writer=context.writer.with_deadlines())
        tables = known.Tables.watched(context)
        self._context = context
        self._image = image
        self._tables = tables
        self._known = known.Known(tables, context.namespace)
        self._views = views.Views(tables, self._known)
        self._making = making.Making(tables, namespace=context.namespace, image=image)
        self._assembling = assembling.Assembling(
            tables, self._known, self._views, context.namespace, differing=self._making.differing
        )
        self._catalogue = catalogue.Catalogue(context)
        self._telling = telling.Telling(context, tables.pods)
        self._reporting = reporter.Reporting(context, tables, self._views)
        self._executor = executor.Executor(context, _targets(tables))
        summed_up = takeover.Read(resource=kinds.PODS, decode=objects.pod, table=tables.pods)
        self._takeover = takeover.Takeover(context, (summed_up,))
        last = leaving.Leaving(context, tables, self._catalogue)
        self._farewell = farewell.Farewell(context, controllers.MACHINES, last.leave, once_left=last.open_gates)
        self._groups: pacing.Pacer[str] = pacing.Pacer(context.clock, 0.0)
        """Groups that time alone changes something about."""
        self._nodes: pacing.Pacer[str] = pacing.Pacer(context.clock, 0.0)
        self._binding_until = float("-inf")
        """When to stop waiting for guests that were opened, on the monotonic clock."""
        self._on_their_way: dict[str, frozenset[GroupType]] = {}
        self._obstacles: dict[str, list[Said]] = {}
        self._catalogue_problem: str | None = None
        """Why the catalogue could not be written, as groups say."""

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Bring all groups that changed up to date, round by round, until nothing changes any more."""
        del dirty  # what changed is noted by group and node, as it arrives
        if self._farewell.is_leaving:
            return await self._farewell.carry_out()
        await self._takeover.catch_up()
        self._ring()
        catalogue_at = None
        for _ in range(ROUNDS):
            if self._known.are_machines_new:
                self._catalogue.follow(self._tables.machines, kept=self._known.unreadable)
            await self._round()
            catalogue_at = await self._keep_catalogue()
            if not self._known.is_dirty and not await self._is_changed_soon():
                break
        await self._reporting.publish(self._carry_out)
        times = (self._groups.next_at, self._nodes.next_at, self._reporting.next_at, catalogue_at)
        return clock.on_wall(self._context.clock, 0.0 if self._known.is_dirty else clock.earliest(times))

    async def _keep_catalogue(self) -> float | None:
        """Write the catalogue if it says something else; all groups tell of it where it cannot be written."""
        again_at = await self._catalogue.keep()
        if self._catalogue.problem != self._catalogue_problem:
            self._catalogue_problem = self._catalogue.problem
            self._known.groups.update(dict.fromkeys(machine.meta.key.name for machine in self._tables.machines))
        return again_at

    async def planned(self) -> plans.Planned:
        """Say what would be done now."""
        if self._farewell.is_leaving:
            return plans.Planned(unknown=("the runtime leaves: it lets go of nodes and guests",))
        copied = copies.Copies()
        sight = planned.Sight(
            tables=copied.of(self._tables),
            namespace=self._context.namespace,
            image=self._image,
            now=self._context.clock.now(),
            may_open=self._takeover.unsure_until is None,
        )
        found, unknown = await self._context.plan(planned.decided, copied, sight)
        due = map(writes.shown, (write for write in found if self._executor.due_at(write) is None))
        listed = await self._catalogue.planned(self._tables.machines, kept=self._known.unreadable)
        return plans.Planned(commands=(*due, *listed.commands), unknown=(*unknown, *listed.unknown))

    async def _round(self) -> None:
        """Look at what changed, decide, and write."""
        now = self._context.clock.now()
        changed = self._views.refresh(now)
        marks = list(self._marks(changed))
        chosen: list[Write] = [write for write, _ in marks]
        groups = self._known.take_groups()
        try:
            for group in groups:
                chosen += self._step(group, now)
            outcomes = await self._carry_out(chosen)
        except BaseException:
            self._known.groups.update(dict.fromkeys(groups))  # what was not done is decided again
            self._known.nodes.update(dict.fromkeys(view.name for view in changed))
            raise
        told = {write.key.name: view for write, view in marks}
        for write in outcomes.done:
            self._tell(write, told)
            if isinstance(write.command, OpenGuest):
                self._binding_until = self._context.clock.monotonic() + BINDING_SECONDS

    async def _is_changed_soon(self) -> bool:
        """Wait a moment for guests to be bound that were opened just now; tell whether anything changed."""
        seconds = self._binding_until - self._context.clock.monotonic()
        if seconds > 0 and any(self._on_their_way.values()):
            await self._known.stirred(seconds)
        return self._known.is_dirty

    # Nodes

    def _marks(self, changed: Sequence[NodeView]) -> Iterator[tuple[Write, NodeView]]:
        """Write what nodes should carry of ours."""
        for view in changed:
            is_ours = view.held_by not in self._known.unreadable
            if is_ours and view.marks is not None and view.marks.wake_at is not None:
                self._nodes.note(view.name, at=self._monotonic(view.marks.wake_at))
            if (write := planned.mark(self._tables, self._known, view)) is not None:
                yield write, view

    # Groups

    def _step(self, group: str, now: float) -> list[Write]:
        """Decide about one group; one that makes no sense to us keeps nobody else waiting, and what it has."""
        if group in self._known.unreadable:
            self._assembling.forget(group)
            return []
        try:
            return [*self._made(group), *self._decided(group, now)]
        except Exception:
            log.exception("group_not_decided", group=group, again_in_seconds=FAILED_SECONDS)
            self._assembling.forget(group)  # a change may have been taken over in part
            self._groups.note(group, at=self._context.clock.monotonic() + FAILED_SECONDS)
            return []

    def _made(self, group: str) -> list[Write]:
        """Compare what belongs to a Machine with what is wanted of it, if one of the two changed."""
        if group not in self._known.owned:
            return []
        del self._known.owned[group]
        made, self._obstacles[group] = self._making.of_group(group)
        self._known.blocked.add(group)
        if not self._obstacles[group]:
            del self._obstacles[group]
            self._known.blocked.discard(group)
        return made

    def _decided(self, group: str, now: float) -> list[Write]:
        self._note_on_their_way(group)
        plan = decide.of_state(self._assembling.group(group), now=now)
        self._telling.of_waiting(group, plan.waiting)
        self._reporting.note(group, plan.usage, self._all_obstacles(group))
        if plan.wake_at is not None:
            self._groups.note(group, at=self._monotonic(plan.wake_at))
        return self._writes(plan)

    def _writes(self, plan: Plan) -> list[Write]:
        """Write what was decided; nothing is opened while something that was opened may not be seen yet."""
        unsure_until = self._takeover.unsure_until
        if unsure_until is not None and any(isinstance(each, OpenGuest | OpenSleeper) for each in plan.writes):
            self._groups.note(plan.group, at=self._monotonic(unsure_until))
        return list(planned.of_plan(self._tables, plan, may_open=unsure_until is None))

    def _note_on_their_way(self, group: str) -> None:
        """Have nodes looked at again that keep labels for guests who may be bound there in a moment."""
        there = self._known.on_their_way(group)
        if there != self._on_their_way.get(group, frozenset()):
            self._on_their_way[group] = there
            self._views.note_unsettled(group)

    def _all_obstacles(self, group: str) -> list[Said]:
        found = list(self._obstacles.get(group, ()))
        if group in self._catalogue.left_out:
            text = "the catalogue of machine types has no room for this group: its guests are refused"
            found.append(Said(holds=False, reason="CatalogueFull", message=text))
        if self._catalogue.problem is not None:
            text = "the catalogue of machine types cannot be written: guests of new or changed types are refused or get"
            text += f" the old ones: {self._catalogue.problem}"
            found.append(Said(holds=False, reason="CatalogueNotWritten", message=text))
        return found

    # What all need

    async def _carry_out(self, chosen: Sequence[Write]) -> executor.Outcomes:
        if not chosen:
            return executor.Outcomes()
        outcomes = await self._executor.carry_out(chosen)
        for write, error in outcomes.refused:
            if write.step is Step.OPEN:
                self._takeover.doubt(error)
        for write in outcomes.failed:
            self._again(write)
        return outcomes

    def _again(self, write: Write) -> None:
        """Have decided again what was refused, once it may be tried again."""
        at = self._executor.due_at(write) or self._context.clock.monotonic()
        if write.step is Step.TELL:
            self._reporting.again(write.group, at=at)
        elif write.on is On.NODE:
            self._nodes.note(write.key.name, at=at)
        else:
            if write.on is not On.POD:
                self._known.owned[write.group] = None
            self._groups.note(write.group, at=at)

    def _tell(self, write: Write, marks: dict[str, NodeView]) -> None:
        if write.command is not None:
            self._telling.of_command(write.command)
        elif write.on is On.NODE and (told := event_messages.of_marks(marks[write.key.name])) is not None:
            self._reporting.tell(told)

    def _ring(self) -> None:
        self._known.note_unreadable()
        self._known.groups.update(dict.fromkeys(self._groups.take()))
        self._known.nodes.update(dict.fromkeys(self._nodes.take()))
        for group in self._telling.untold:
            self._groups.note(group, at=self._context.clock.monotonic() + telling.AGAIN_SECONDS)
        self._telling.untold.clear()

    def _monotonic(self, at: float) -> float:
        return self._context.clock.monotonic() + at - self._context.clock.now()


def _targets(tables: known.Tables) -> dict[On, writer.Target[Any]]:
    machine, node_pool = resources.Machine, resources.MachineNodePool
    return {
        On.POD: writer.Target(resource=kinds.PODS, decode=objects.pod, table=tables.pods),
        On.NODE: writer.Target(resource=kinds.NODES, decode=objects.node, table=tables.nodes),
        On.STATEFUL_SET: writer.Target(resource=kinds.STATEFUL_SETS, decode=owned.decode, table=tables.stateful_sets),
        On.SERVICE: writer.Target(resource=kinds.SERVICES, decode=owned.decode, table=tables.services),
        On.NODE_POOL: writer.Target(
            resource=kinds.custom(node_pool), decode=objects.custom(node_pool), table=tables.node_pools
        ),
        On.MACHINE: writer.Target(
            resource=kinds.custom(machine), decode=objects.custom(machine), table=tables.machines
        ),
    }
