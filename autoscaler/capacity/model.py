"""The values that placement speaks: what waits, where there is room, what could be launched, and what came of it.

Values only: nothing here decides. Amounts are integers, cpu in millis and all else in units; `pods` is an amount too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.api import scaling
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.kube import objects, shapes

PODS: Final = "pods"
"""The resource by which a node says how many pods it takes; every pod needs one of it."""


class Reason(StrEnum):
    """Why a node group does not take a pod; the first that holds, in this order."""

    UNSUPPORTED = "Unsupported"
    """The pod asks for something that is not planned for; no group takes it."""
    NO_GROUPS = "NoNodeGroups"
    """There is no node group at all."""
    NOT_ALLOWED = "PoolNotAllowed"
    """The group's pool is not among those that the demand may use."""
    REFUSED = "Refused"
    """The group takes nothing at the moment; `what` says why."""
    MISSED = "Missed"
    """The group does not take this demand any more; `what` says why."""
    SELECTOR = "NodeSelectorMismatch"
    AFFINITY = "NodeAffinityMismatch"
    TAINT = "UntoleratedTaint"
    VOLUME_ZONE = "VolumeInOtherZone"
    INSUFFICIENT = "InsufficientResource"
    """A node of the group has too little of `what` even when it is empty."""
    AT_MAXIMUM = "AtMaximum"
    """The group may not get more nodes."""
    LIMIT = "LimitReached"
    """A limit that groups share, named by `what`, does not allow one more node."""
    PATIENCE = "WithinTargetLatency"
    """A place will be free in time, as the scope's target latency says."""
    ZONE_SPREAD = "ZoneSpread"
    """One more in the zone would exceed the skew: `wanted` there against `available`."""
    ZONE_AFFINITY = "ZoneAffinity"
    """The pod must be where its companions are, and that is another zone."""
    ZONE_ANTI_AFFINITY = "ZoneAntiAffinity"
    """The zone has a pod that must not be near this one."""
    NO_ZONE = "NoZoneForAll"
    """The pods must all go to one zone, and none takes all: `wanted` against the most that one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to choose."""

    expanders: tuple[scaling.Expander, ...] = scaling.EXPANDERS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """Pods of one shape that wait for a node. Compared by identity."""

    shape: shapes.Shape
    count: int
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the pods, as far as rules of others look at them; where the shape carries its own, those hold."""
    scope: str = ""
    """Whose they are; it decides nothing here but the order of equals."""
    pools: tuple[frozenset[str], ...] | None = None
    """The pools they may use, in tiers: the next one serves only what the ones before cannot. None: all alike."""
    zones: frozenset[str] | None = None
    """The zones their volumes are in. None: any."""
    missed: Mapping[NodeGroupKey, str] = field(default_factory=dict)
    """Groups that proved unable to take them, and how."""
    avoid: frozenset[str] = frozenset()
    """Rooms that proved unable to take them, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Pods on a node, as far as rules between pods look at them."""

    namespace: str
    labels: Mapping[str, str]
    shape: shapes.Shape
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node that is there. Nodes without room belong here too: their pods and zones count for spreading."""

    name: str
    labels: Mapping[str, str]
    free: Mapping[str, int]
    taints: tuple[objects.NodeTaint, ...] = ()
    residents: tuple[Resident, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a node will be."""

    labels: Mapping[str, str]
    """All that it will have, zone and instance type included."""
    allocatable: Mapping[str, int]
    """What is left for pods after the daemons."""
    taints: tuple[objects.NodeTaint, ...] = ()
    capacity: Mapping[str, int] | None = None
    """What the instance has, by which waste is measured. None: as much as is allocatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A node group that may get nodes."""

    key: NodeGroupKey
    template: Template
    more: int
    """How many more nodes it may get."""
    nodes: int = 0
    """How many it has or was asked for, by which zones are balanced."""
    price_micros: int | None = None
    """Of a node, in millionths of the currency an hour."""
    refused: str | None = None
    """Why it takes nothing at the moment. None: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Nodes that were asked for and are not there yet."""

    key: NodeGroupKey
    template: Template
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that node groups share."""

    name: str
    pool: str | None = None
    """Whose groups it is for. None: all."""
    nodes: int | None = None
    """How many more nodes they may get together."""
    cpu_millis: int | None = None
    """How much more cpu they may get together, by capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that placement looks at. The order of the parts does not matter."""

    demands: tuple[Demand, ...]
    groups: tuple[Group, ...] = ()
    rooms: tuple[Room, ...] = ()
    asked: tuple[Asked, ...] = ()
    limits: tuple[Limit, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of namespaces, for rules that select namespaces by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Pods of a demand on one node."""

    demand: Demand
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What lands on a node that is there."""

    room: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What lands on each of some equal nodes that are not there yet."""

    key: NodeGroupKey
    nodes: int
    shares: tuple[Share, ...]
    """On each of the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why some node groups do not take a demand, with the numbers compared where there are any."""

    reason: Reason
    groups: tuple[NodeGroupKey, ...] = ()
    """Those that say so. Empty: it is so whatever the group."""
    what: str = ""
    wanted: int | None = None
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """Pods that fit nowhere; each group is named in one of the rejections."""

    demand: Demand
    count: int
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where every pod of every demand goes, or why it goes nowhere."""

    landings: tuple[Landing, ...] = ()
    """On nodes that are there."""
    expected: tuple[Filling, ...] = ()
    """On nodes already asked for."""
    launches: tuple[Filling, ...] = ()
    """On new nodes."""
    unplaced: tuple[Unplaced, ...] = ()

    def new_nodes(self) -> dict[NodeGroupKey, int]:
        """Return how many nodes to launch in each group."""
        total: dict[NodeGroupKey, int] = {}
        for launch in self.launches:
            total[launch.key] = total.get(launch.key, 0) + launch.nodes
        return total
