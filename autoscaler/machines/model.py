"""The values that machine groups are decided in. Frozen: nothing is read or written here.

A group is a Machine with its types, its nodes, its guests and its sleepers. Guests ask for a machine of a type;
sleepers hold the room of machines that nobody uses. Amounts are integers: cpu in millis, all else in units.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.control import plans
from autoscaler.kube.objects import Key

PODS: Final = "pods"
"""The resource of which each pod takes one."""
Amounts = Mapping[str, int]


class Phase(StrEnum):
    """Where a guest or a sleeper stands. What has ended, succeeded or failed, is not in the model at all."""

    HELD = "Held"
    """It has gates of others besides ours; it is looked at once ours is the last."""
    GATED = "Gated"
    """Our gate is its last one."""
    OPEN = "Open"
    """It has no gate and no node."""
    BOUND = "Bound"
    """It has a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A kind of machine that guests may ask for."""

    name: str
    maximum: int
    """How many machines there are at most."""
    requests: Amounts
    """The resources of one machine, with `pods: 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the group, or one that is about to leave it."""

    name: str
    types: frozenset[str] = frozenset()
    """The types that it should serve, by the group's entries and hostLimit."""
    is_ready: bool = True
    """It is in mode ready and healthy, not cordoned, and this group's."""
    is_marked: bool = True
    """It carries our labels for all its types and `node-pool=ready`, and not the taint that closes it."""
    is_closed: bool = False
    """It carries the taint of ours that closes it."""
    allocatable: Amounts
    used: Amounts
    """What all pods bound there request that have not ended, guests and sleepers among them, with `pods`."""

    @property
    def is_usable(self) -> bool:
        """Tell whether its room counts."""
        return self.is_ready and self.is_marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A pod that asks for a machine."""

    key: Key
    uid: str
    version: int
    """The version of the object that all of this was read from."""
    type: str
    created_at: float
    phase: Phase
    requests: Amounts
    """Its effective request, with `pods: 1`."""
    node: str = ""
    """Where it is bound; empty until then."""
    is_terminating: bool = False
    is_failing: bool = False
    """A container of it waits with the reason Error: it is bound and does not count as used."""
    barred: Container[str] = frozenset()
    """The nodes where it may not go, by its own selectors, affinity and tolerations. It is equal for pods alike."""
    is_independent: bool = True
    """Where other guests are makes no difference to where the scheduler lets it go, as long as there is room."""
    promised: str | None = None
    """The node that is promised to it, as its annotation says."""
    tried: frozenset[str] = frozenset()
    """Nodes that had room for it while the scheduler refused it, as its annotation says."""
    trying_since: float | None = None
    """When it was opened, or room was last made for it; None: it is gated, or was refused for long enough since."""
    unschedulable_since: float | None = None
    """When the scheduler found no node for it; None: it did not say so."""

    @property
    def is_open(self) -> bool:
        """Tell whether it counts against the maximum: a gate cannot be closed again."""
        return self.phase in {Phase.OPEN, Phase.BOUND}

    @property
    def is_used(self) -> bool:
        """Tell whether it uses a machine: it is bound, and may be terminating."""
        return self.phase is Phase.BOUND and not self.is_failing

    @property
    def is_waiting(self) -> bool:
        """Tell whether it waits for a node and is looked at."""
        return self.phase in {Phase.GATED, Phase.OPEN} and not self.is_terminating


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper:
    """A pod that holds the room of a machine that nobody uses. It is born gated."""

    key: Key
    uid: str
    version: int
    type: str
    ordinal: int
    phase: Phase
    requests: Amounts
    node: str = ""
    """Where it is bound, or else pinned; empty while it is gated."""
    is_terminating: bool = False
    barred: Container[str] = frozenset()
    """The nodes where it may not go, by taints of others for one. It is equal for pods alike."""
    is_outdated: bool = False
    """Its StatefulSet's template has changed since it was made."""

    @property
    def is_open(self) -> bool:
        """Tell whether it counts against the maximum."""
        return self.phase in {Phase.OPEN, Phase.BOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A Machine with everything that belongs to it."""

    name: str
    types: tuple[MachineType, ...]
    """In the order of the Machine."""
    nodes: tuple[Node, ...] = ()
    guests: tuple[Guest, ...] = ()
    sleepers: tuple[Sleeper, ...] = ()
    outsiders: tuple[Guest, ...] = ()
    """Those who wait behind our gate in namespaces where no machines are given: nothing is done but telling them."""
    is_deleted: bool = False
    """The Machine is being deleted, or is gone: nothing is opened any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How many machines of a type are what; derived from pods, never counted on."""

    maximum: int
    reserved: int
    """Sleepers bound to ready nodes."""
    used: int
    """Bound guests that have not ended."""
    waiting: int
    """Guests without a node, those behind gates of others among them."""


# What is to be done


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseGuest:
    """Write on a guest which node it is promised."""

    guest: Guest
    node: str
    trying_since: float | None = None
    """For a guest that is open: the scheduler's time to find that node begins now."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGuest:
    """Take our gate off a guest."""

    guest: Guest
    trying_since: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTried:
    """Write on a guest which nodes had room for it while the scheduler refused it, and that its time is over."""

    guest: Guest
    nodes: frozenset[str]
    """All of them, those recorded before among them."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSleeper:
    """Give up the room that a sleeper holds; its successor is gated."""

    sleeper: Sleeper
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSleeper:
    """Take our gate off a sleeper and pin it to a node, in one patch."""

    sleeper: Sleeper
    node: str
    why: str


Command = PromiseGuest | OpenGuest | RecordTried | DeleteSleeper | OpenSleeper


class Reason(StrEnum):
    """Why a guest waits."""

    NEXT = "MachineNext"
    """It is its turn: room is being made for it, or it is about to be opened."""
    SCHEDULING = "MachineScheduling"
    """It is open, and the scheduler has not decided yet."""
    IN_LINE = "MachineInLine"
    """Another guest of types that share its nodes is being placed."""
    ALL_USED = "AllMachinesUsed"
    """As many guests are open as there are machines."""
    REFUSED_FILL = "MachinesRefused"
    """As many guests are open as there are machines, and the scheduler refuses some of them."""
    NO_ROOM = "NoMachineRoom"
    """No node has room for it."""
    HELD_BY_OTHERS = "MachineRoomReserved"
    """Sleepers of other types hold the room that it would need."""
    NO_NODE = "NoMachineNode"
    """No node of its type is ready, or none that it may go to."""
    REFUSED = "MachineRefused"
    """The scheduler refused it for long enough."""
    OTHER_GATES = "OtherGates"
    """Gates of others are still on it."""
    GROUP_DELETED = "MachineDeleted"
    """Its Machine is deleted or gone."""
    NO_TYPE = "NoMachineType"
    """Its Machine does not offer its type any more."""
    OUTSIDE = "NamespaceGivesNoMachines"
    """Its namespace has not the label of those where machines are given, or not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a guest waits, for events and `explain`."""

    guest: Guest
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done about a group. Its commands do not depend on each other; the next plan sees what they did."""

    group: str
    writes: tuple[Command, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """By type."""
    wake_at: float | None = None
    """When time alone changes the answer; None: never."""


def pod_of(command: Command) -> Key:
    """Return the pod that a command is about."""
    match command:
        case PromiseGuest(guest=guest) | OpenGuest(guest=guest) | RecordTried(guest=guest):
            return guest.key
        case DeleteSleeper(sleeper=sleeper) | OpenSleeper(sleeper=sleeper):
            return sleeper.key


def shown(command: Command) -> plans.Command:
    """Show one command."""
    match command:
        case PromiseGuest(guest=guest, node=node):
            return plans.Command(verb="promise", what=f"node {node} to pod {_place(guest.key)}", why=command.why)
        case OpenGuest(guest=guest):
            return plans.Command(verb="open", what=f"pod {_place(guest.key)}", why=command.why)
        case RecordTried(guest=guest):
            return plans.Command(verb="record tried nodes of", what=f"pod {_place(guest.key)}", why=command.why)
        case DeleteSleeper(sleeper=sleeper):
            return plans.Command(verb="delete", what=f"pod {_place(sleeper.key)}", why=command.why)
        case OpenSleeper(sleeper=sleeper, node=node):
            return plans.Command(verb="open", what=f"pod {_place(sleeper.key)} on node {node}", why=command.why)


def _place(key: Key) -> str:
    return f"{key.namespace}/{key.name}"
