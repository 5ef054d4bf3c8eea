"""The values that placement speaks: what waits, where there is room, what could be launched, and what came of it.

Values only: nothing here decides. Amounts are integers, cpu in millis and all else in units; `pods` is an amount too.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.api.settings import scaling
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.scaleup.scopes.latency import Patience
from autoscaler.kube import objects, shapes

PODS: Final = "pods"
"""The resource by which a node says how many pods it takes; every pod needs one of it."""

ATTACHABLE: Final = "attachable-volumes-"
"""How the resources begin by which volumes on a node are counted; a node that does not have one has no limit of it."""
UNLIMITED: Final = 1 << 60


def absent(resource: str) -> int:
    """Return how much a node has of a resource that it does not name."""
    return UNLIMITED if resource.startswith(ATTACHABLE) else 0


class Reason(StrEnum):
    """Why a node group does not take a pod; the first that holds, in this order."""

    UNSUPPORTED = "Unsupported"
    """The pod asks for something that is not planned for; no group takes it."""
    NO_CLAIM = "VolumeClaimMissing"
    """The pod names a volume claim, `what`, that does not exist."""
    CLAIM_LEAVING = "VolumeClaimBeingDeleted"
    CLAIM_LOST = "VolumeClaimLost"
    """The volume that the claim was bound to is gone."""
    CLAIM_UNBOUND = "VolumeClaimUnbound"
    """The claim has no volume, and its StorageClass, `message`, makes volumes before pods have nodes."""
    CLAIM_WITHOUT_CLASS = "VolumeClaimWithoutClass"
    """The claim has no volume, and nobody makes one."""
    NO_STORAGE_CLASS = "StorageClassMissing"
    """The claim has no volume, and its StorageClass, `message`, does not exist."""
    VOLUME_NODE_GONE = "VolumeOnLostNode"
    """The pod's volume can be used on the node `what` alone, and that is gone."""
    NO_GROUPS = "NoNodeGroups"
    """There is no node group at all."""
    NOT_ALLOWED = "PoolNotAllowed"
    """The group's pool is not among those that the demand may use."""
    OTHER_AUTOSCALER = "OtherAutoscaler"
    """`what` scales the cluster's nodes."""
    AUTOSCALERS_UNSEEN = "OtherAutoscalersUnseen"
    """Nobody can tell whether another autoscaler scales the cluster's nodes; `message` is why."""
    NO_POOL = "NoInstancePool"
    LEAVING = "PoolBeingRemoved"
    GROUP_LEAVING = "GroupBeingRemoved"
    DISABLED = "PoolDisabled"
    UNKNOWN_TYPE = "UnknownInstanceType"
    ARCHITECTURE = "OtherArchitecture"
    """The group's instance type has the architecture `what`, and the pool allows those in `message` alone."""
    NO_ANSWER = "AccountDoesNotAnswer"
    """The pool's account `what` does not; `message` is what came instead."""
    UNAVAILABLE = "Unavailable"
    """The provider did not have it, for the reason `what`, and is not asked for `wanted` seconds more."""
    SUSPENDED = "LaunchesSuspended"
    NO_PRICE = "NoPrice"
    """The pool has a limit of money, `wanted`, and nobody knows what `what` costs."""
    STATED = "Stated"
    """The group takes nothing at the moment, as its pool's status says in the words `message`."""
    MISSED = "Missed"
    """So many nodes of the group did not take such a pod although they had room: `wanted`."""
    LOW_PRIORITY = "LowPriority"
    """Nothing is started for a pod of so low a priority: `wanted` against `available`."""
    SELECTOR = "NodeSelectorMismatch"
    AFFINITY = "NodeAffinityMismatch"
    TAINT = "UntoleratedTaint"
    HOST_PORT = "HostPortInUse"
    """A DaemonSet uses the port `what` of the group's nodes."""
    VOLUME_ZONE = "VolumeInOtherZone"
    VOLUME_NODE = "VolumeOnOtherNode"
    """The pod's volume can be used on the node `what` alone."""
    INSUFFICIENT = "InsufficientResource"
    """A node of the group has too little of `what` even when it is empty."""
    AT_MAXIMUM = "AtMaximum"
    """The group may not get more nodes: it has `wanted` of at most `available`."""
    LIMIT = "LimitReached"
    """The limit in `numbers`, which groups share, does not allow one more node."""
    PATIENCE = "WithinTargetLatency"
    """A slot will be free before the pod's deadline, or before a new one; `numbers` are a Patience."""
    NO_LABEL = "UnknownLabel"
    """The pod must be near others by the label `what`, and nobody knows that the group's nodes will have it."""
    LABEL_AFFINITY = "LabelAffinity"
    """The pod must be near others by the label `what`, and the group's nodes have another value of it."""
    HOST_AFFINITY = "HostAffinity"
    """The pod must share a node with another pod, and no node that has such a pod has room for it."""
    NO_HOST = "NoNodeForAll"
    """So many pods must share one node, `wanted`, and none takes all of them."""
    ZONE_SPREAD = "ZoneSpread"
    """One more in the zone would exceed the skew: `wanted` there against `available`."""
    ZONE_AFFINITY = "ZoneAffinity"
    """The pod must be where its companions are, and that is another zone."""
    ZONE_ANTI_AFFINITY = "ZoneAntiAffinity"
    """The zone has a pod that must not be near this one."""
    NO_ZONE = "NoZoneForAll"
    """The pods must all go to one zone, and none takes all: `wanted` against the most that one takes."""


class LimitKind(StrEnum):
    """What a limit counts."""

    POOL_INSTANCES = "PoolInstances"
    CLUSTER_NODES = "ClusterNodes"
    CLUSTER_CPU = "ClusterCpu"
    """In millis; a node takes as many of it as it has."""
    LAUNCHES = "LaunchesPerMinute"
    POOL_SECONDS = "PoolSecondsPerMonth"
    SCOPE_SECONDS = "ScopeSecondsPerMonth"
    POOL_COST = "PoolCostPerMonth"
    """In millionths of the currency."""
    STATED = "Stated"
    """Known by what the pool's status says of it alone, and used up."""


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
    hosts: frozenset[str] | None = None
    """The host names of the only nodes that can use their volumes. None: any."""
    refused: "Rejection | None" = None
    """Why no node helps them, there or new. None: one may."""
    missed: Mapping[NodeGroupKey, "Rejection"] = field(default_factory=dict)
    """Groups that do not take them, and why."""
    avoid: frozenset[str] = frozenset()
    """Rooms that proved unable to take them, by name."""
    is_endless: bool = False
    """They do not end by themselves: a node for them is expected to be there until the month is over."""
    turn: int = 0
    """Of pods that are alike, those with a lower one take room first."""
    attachments: Mapping[str, int] = field(default_factory=dict)
    """How many volumes of each are attached to their node, by a resource for each driver."""

    @property
    def requests(self) -> Mapping[str, int]:
        """What they take of a node."""
        return {**self.shape.requests, **self.attachments} if self.attachments else self.shape.requests


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
    is_idle: bool = False
    """Nothing works there yet."""


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
    host_ports: frozenset[tuple[str, int]] = frozenset()
    """Ports of the host that DaemonSets use, by protocol and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A node group that may get nodes."""

    key: NodeGroupKey
    template: Template
    more: int
    """How many more nodes it may get; less than none where it has too many."""
    nodes: int = 0
    """How many it has or was asked for, by which zones are balanced."""
    price_micros: int | None = None
    """Of a node, in millionths of the currency an hour."""
    refused: "Rejection | None" = None
    """Why it takes nothing at the moment. None: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Nodes that were asked for and are not there yet."""

    key: NodeGroupKey
    template: Template
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that node groups may have of something together, or a scope use of it, and how much that is now."""

    kind: LimitKind
    pool: str = ""
    """Whose groups it is for. Empty: all."""
    scope: str = ""
    """Whose pods it is for. Empty: all."""
    most: int
    used: int
    expected: int = 0
    """What runs or starts is expected to use yet."""
    each: int = 1
    """What one more node takes."""
    each_endless: int | None = None
    """What one more node takes that gets pods which do not end. None: as much as any."""
    message: str = ""
    """What the pool's status says of it, where that is all that is known."""

    @property
    def left(self) -> int:
        return max(0, self.most - self.used - self.expected)

    def takes(self, cpu_millis: int, *, is_endless: bool = False) -> int:
        """Return how much of it a node takes that has so much cpu."""
        if is_endless and self.each_endless is not None:
            return max(1, self.each_endless)
        return max(1, cpu_millis if self.kind is LimitKind.CLUSTER_CPU else self.each)

    def more(self, cpu_millis: int = 0) -> int:
        """Return how many more such nodes it allows."""
        return self.left // self.takes(cpu_millis)

    def with_more(self, taken: int) -> "Limit":
        """Return it with so much more of it used."""
        return dataclasses.replace(self, used=self.used + taken)


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
    message: str = ""
    """In the words of another: quoted, never read."""
    wanted: int | None = None
    available: int | None = None
    numbers: Limit | Patience | None = None


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
