"""Write the statuses of Machines and MachineNodePools, each at most so often, and tell what changed in them.

It decides when a status is next written, that room which is missing for a moment is not said to be, and that an event
is told only once the status that says so is written. What else a status says is `status`'s to decide, and nothing that
is done to nodes or pods may be read back from one.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from autoscaler import control
from autoscaler.api import names, resources
from autoscaler.api.resources.base import ConditionStatus
from autoscaler.control import pacing
from autoscaler.kube import kinds
from autoscaler.kube.objects import Key
from autoscaler.machines import executor
from autoscaler.machines.model import Usage
from autoscaler.machines.nodes import node_reports
from autoscaler.machines.objects import writes
from autoscaler.machines.objects.writes import On, Write
from autoscaler.machines.reporting import event_messages, measuring, status
from autoscaler.machines.reporting.event_messages import Told
from autoscaler.machines.state.known import Machine, Tables
from autoscaler.machines.state.views import Views
from autoscaler.machines.wanted_condition import Said

WRITE_SECONDS: Final = 0.5
"""A status is written this often at most."""
MISSING_SECONDS: Final = 5.0
"""Room that was held may be missing for so long before that is said: where a guest left, a sleeper comes."""
CarryOut = Callable[[Sequence[Write]], Awaitable[executor.Outcomes]]
_MACHINES: Final = kinds.custom(resources.Machine)


class Reporting:
    """Says of each Machine how it stands."""

    def __init__(self, context: control.ControllerContext, tables: Tables, views: Views) -> None:
        self._context = context
        self._tables = tables
        self._views = views
        self._pacer: pacing.Pacer[str] = pacing.Pacer(context.clock, WRITE_SECONDS)
        self._usage: dict[str, Mapping[str, Usage]] = {}
        self._obstacles: dict[str, tuple[Said, ...]] = {}
        self._nodes: dict[str, tuple[int, Said]] = {}
        """By group: what is said of all nodes together, of which edition of what is said of each."""
        self._told: dict[str, tuple[int, int]] = {}
        """By group: the version of the MachineNodePool that says all of which edition."""
        self._missing_since: dict[str, float] = {}
        """By group: since when room is missing that should be held, on the monotonic clock."""
        context.measure(lambda: measuring.of(self._usage))

    def note(self, group: str, usage: Mapping[str, Usage], obstacles: Sequence[Said]) -> None:
        """Take over how a group stands."""
        self._usage[group], self._obstacles[group] = usage, tuple(obstacles)
        self._pacer.note(group)

    def again(self, group: str, *, at: float) -> None:
        """Have a status written that was refused, on the monotonic clock."""
        self._pacer.note(group, at=at)

    @property
    def next_at(self) -> float | None:
        """When a status is next to be written, on the monotonic clock."""
        return self._pacer.next_at

    async def publish(self, carry_out: CarryOut) -> None:
        """Write the statuses that are due and say something else."""
        told: dict[str, list[Told]] = {}
        chosen: list[Write] = []
        for group in list(self._pacer.take()):
            machine = self._tables.machines.get(Key("", group))
            if machine is None or machine.meta.deleted_at is not None:
                for known in (self._usage, self._obstacles, self._nodes, self._told, self._missing_since):
                    known.pop(group, None)
                continue
            said = self._said(group, machine)
            told[group] = list(_news(group, machine, said))
            chosen += self._writes(group, machine, said)
        if chosen:
            outcomes = await carry_out(chosen)
            for write in outcomes.done:
                self._tell(told.get(write.group, []) if write.on is On.MACHINE else [])

    def _said(self, group: str, machine: Machine) -> dict[str, Said]:
        edition = self._views.editions[group]
        if self._nodes.get(group, (None,))[0] != edition:
            self._nodes[group] = (edition, node_reports.together(list(self._views.reports[group].values())))
        return {
            status.READY: self._room(group, machine),
            status.NODES_READY: self._nodes[group][1],
        }

    def _room(self, group: str, machine: Machine) -> Said:
        """Say how room stands; that it is missing, where it was held, once that lasts."""
        room = status.room(self._usage.get(group, {}), self._obstacles.get(group, ()))
        if room.reason != status.ROOM_MISSING:
            self._missing_since.pop(group, None)
            return room
        now = self._context.clock.monotonic()
        until = self._missing_since.setdefault(group, now) + MISSING_SECONDS
        said = next((each for each in machine.resource.status.conditions if each.type == status.READY), None)
        if now >= until or said is None or said.status is not ConditionStatus.TRUE:
            return room
        self._pacer.note(group, at=until)
        return Said(holds=True, reason=said.reason, message=said.message)

    def _writes(self, group: str, machine: Machine, said: Mapping[str, Said]) -> Iterator[Write]:
        now, why = self._context.clock.now(), "what it says is not so any more"
        changes = status.machine(machine, self._usage.get(group, {}), said, now)
        if changes:
            yield writes.patch_status(On.MACHINE, machine, changes, why=why, group=group)
        pool = self._tables.node_pools.get(Key("", names.machine_node_pool(group)))
        if pool is None or pool.meta.deleted_at is not None:
            return
        told = (self._views.editions[group], pool.meta.resource_version)
        if self._told.get(group) == told:
            return
        changes = status.node_pool(pool, list(self._views.reports[group].values()), now)
        if changes:
            yield writes.patch_status(On.NODE_POOL, pool, changes, why=why, group=group)
        else:
            self._told[group] = told

    def _tell(self, told: Sequence[Told]) -> None:
        for each in told:
            self.tell(each)

    def tell(self, told: Told) -> None:
        """Record an event about a Machine."""
        machine = self._tables.machines.get(Key("", told.group))
        if machine is not None:
            self._context.tell(
                _MACHINES, machine, told.reason, told.message, is_warning=told.is_warning, is_change=True
            )


def _news(group: str, machine: Machine, said: Mapping[str, Said]) -> Iterator[Told]:
    before = machine.resource.status.conditions
    for kind, each in said.items():
        told = event_messages.of_condition(group, before, kind, each)
        if told is not None:
            yield told
