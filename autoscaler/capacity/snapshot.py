"""All that a plan of capacity is made from, as it was at one moment. Values only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes.pod_index import IndexedPods
from autoscaler.capacity.model import Rejection
from autoscaler.capacity.records.accounting import Durations, MonthToDate, ScopePool
from autoscaler.capacity.records.pool_lives import PoolLives
from autoscaler.capacity.records.record_index import IndexedRecords
from autoscaler.capacity.scaleup.missed_placements import MissedPlacement, Waiting
from autoscaler.capacity.scaleup.storage.needs import Storage
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import objects, shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What the whole cluster may have, besides the limits of its pools; None: no limit."""

    nodes: int | None = None
    cpu_millis: int | None = None
    launches_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """An offering that the provider did not have, and is not asked for again before a time."""

    until: float
    reason: str
    """Empty: another leader noted it, and the message says it all."""
    message: str = ""
    failures: int = 1
    """How often in a row."""
    since: float = 0.0
    """When it was last seen not to be there."""


NodeKind = tuple[str, tuple[tuple[str, int], ...]]
"""An instance type, and the resources that tags promise of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What nodes of a kind have really offered at least."""

    amounts: Mapping[str, int]
    templates: Mapping[cloud.GroupName, str | None]
    """The groups whose nodes have shown it, and the hash of what these were made from; None: nobody can tell later
    whether that is still the same, and it is not kept in status."""
    retry_at: float | None = None
    """When one node may be started for pods that this refuses and the type would take; None: a node shows it now."""
    retries: int = 0
    """How often that was done in a row and did not help."""
    is_tried: bool = False
    """A node that was started for this may be on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhelpful:
    """A launch that did not help: an empty node did not take a pod although it had room."""

    pool: str
    group: cloud.GroupName
    template_hash: str | None
    at: float
    is_over: bool = False
    """A node has taken such a pod since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeUse:
    """Who uses a scope, and whether that keeps it from being deleted."""

    namespaces: tuple[str, ...] = ()
    """Those whose label names it, in order; not those that are being deleted, in which nothing new begins."""
    pools: tuple[str, ...] = ()
    """Pools that are for this scope alone, in order."""
    is_held: bool = False
    """It carries our finalizer."""
    deleted_at: float | None = None
    """When its deletion was asked for; None: it stays."""


class Standing(StrEnum):
    """Where an instance that is for one pod stands."""

    FREE = "Free"
    """It waits for its pod."""
    HELD = "Held"
    """It is kept for a pod that may come."""
    VACANT = "Vacant"
    """It is kept for a pod that was never there and will not come: it can be free again."""
    BUSY = "Busy"
    """The pod that it is kept for is there."""
    TAKEN = "Taken"
    """A pod works there that it is not kept for, as one does that names its node itself."""
    DOUBTED = "Doubted"
    """The pod that it is kept for is gone, and the API server can still tell whether it ever was there."""
    SPENT = "Spent"
    """It has had its pod, or may have had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """An instance, where it stands, and the pod that this is about."""

    node: objects.Node
    holder: str
    """What the taint says."""
    standing: Standing
    pod: objects.Pod | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """What is known of the cluster and the cloud. Compared by identity, so that what was reckoned of it is kept."""

    now: float
    settled_at: float = 0.0
    """Nothing is ended before this: until lately, nobody saw what happens in the cluster."""
    pods: Mapping[objects.Key, objects.Pod] = field(default_factory=dict)
    indexed: IndexedPods = field(default_factory=IndexedPods)
    """The same pods, by where they are."""
    nodes: Mapping[objects.Key, objects.Node] = field(default_factory=dict)
    by_provider: Mapping[str, objects.Node] = field(default_factory=dict)
    """The same nodes, by the instance that each is on."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of each namespace."""
    pools: Mapping[str, InstancePoolSpec] = field(default_factory=dict)
    scopes: Mapping[str, ScopeSpec] = field(default_factory=dict)
    scope_use: Mapping[str, ScopeUse] = field(default_factory=dict)
    """By scope: who uses it."""
    may_hold_scopes: bool = False
    """The drain object is there and stays: scopes that are held now are let go when it leaves."""
    machines: Mapping[str, MachineSpec] = field(default_factory=dict)
    """Machine groups; where several ask for a node, the first of them has it."""
    groups: tuple[cloud.NodeGroup, ...] = ()
    types: Mapping[str, catalogue.InstanceType] = field(default_factory=dict)
    """The instance types of the groups, as far as anybody knows them."""
    storage: Storage = field(default_factory=Storage)
    daemons: tuple[shapes.Shape, ...] = ()
    """The pods that DaemonSets put on every node that takes them."""
    unavailable: Mapping[NodeGroupKey, Unavailable] = field(default_factory=dict)
    missed: Mapping[Waiting, MissedPlacement] = field(default_factory=dict)
    """What was learned from plans that did not come true."""
    unhelpful: Mapping[str, Unhelpful] = field(default_factory=dict)
    """Kinds of pods for which no instance is started, by a hash of what they ask for."""
    learned: Mapping[NodeKind, Learned] = field(default_factory=dict)
    """What nodes really offered; kinds that had none are not in it."""
    instances: Collection[Instance] = ()
    """The Instance objects, which keep the books."""
    records: IndexedRecords = field(default_factory=IndexedRecords)
    """The same, by instance."""
    lives: Mapping[str, PoolLives] | None = None
    """The same, by pool; None: nobody has kept them, and they are gathered from `instances`."""
    used: MonthToDate | None = None
    """What was used of this month; None: nobody has kept the sums, and they are made from `instances`."""
    durations: Mapping[ScopePool, Durations] = field(default_factory=dict)
    """How long pods of a scope run in a pool."""
    prices: Prices = field(default_factory=Prices)
    outages: Mapping[str, str] = field(default_factory=dict)
    """Accounts that have not answered for a while, and what came instead."""
    outdated: frozenset[cloud.InstanceId] = frozenset()
    """Instances made from another launch template than their group has now, by what it says, not by its number."""
    stands: tuple[Stand, ...] = ()
    """Instances of ephemeral pools, and where each of them stands."""
    spent: frozenset[cloud.InstanceId] = frozenset()
    """Instances of ephemeral pools that have run the one pod they were for."""
    doomed: frozenset[cloud.InstanceId] = frozenset()
    """Instances that the provider has announced to take away."""
    maintained: frozenset[cloud.InstanceId] = frozenset()
    """Instances that the provider has announced to stop, restart or retire later: they are replaced before."""
    at_risk: frozenset[cloud.InstanceId] = frozenset()
    """Instances that the provider is more likely than others to take away: of idle ones, they go first."""
    leaving: Mapping[str, float] = field(default_factory=dict)
    """Pools that are being removed, and since when."""
    leaving_groups: Mapping[NodeGroupKey, float | None] = field(default_factory=dict)
    """Groups that the stack's file does not give their pool any more, and since when their removal waits for us. None:
    nobody waits, for they are to be removed without delay, or their list is not written yet."""
    dissolving: bool = False
    """The whole stack is leaving: there may be no other place for what runs."""
    closing_since: float | None = None
    """And since when no work is left that ends by itself: what lives for ever may go, too. None: some is left."""
    unheld: frozenset[str] = frozenset()
    """Pools that do not carry our finalizer."""
    deleted: frozenset[str] = frozenset()
    """Pools whose deletion waits for our finalizer."""
    unheld_lists: frozenset[str] = frozenset()
    """Group lists that stay and do not carry our finalizer."""
    deleted_lists: Mapping[str, str] = field(default_factory=dict)
    """Group lists whose deletion waits for our finalizer, and whose pool each is of."""
    empty_since: Mapping[str, float] = field(default_factory=dict)
    """Pools that are being removed, whole or in part, and wait for nothing any more, and since when."""
    home: str = ""
    """The runtime's own namespace."""
    launched_at: Mapping[cloud.InstanceId, float] = field(default_factory=dict)
    """When instances were launched, as far as the cloud has told."""
    failed: frozenset[cloud.GroupName] = frozenset()
    """Groups whose launches failed, and that still ask for what they did not get."""
    overdue: frozenset[cloud.GroupName] = frozenset()
    """Groups that have waited too long for instances: what they lack counts no more."""
    unasked: Mapping[cloud.GroupName, Collection[cloud.InstanceId]] = field(default_factory=dict)
    """Groups in which the provider replaces instances by itself, and those that are more than anybody asked for."""
    unread: Mapping[cloud.GroupName, str] = field(default_factory=dict)
    """Groups that lack instances, of which nobody could tell why, and what came instead."""
    half_read: Mapping[str, str] = field(default_factory=dict)
    """Accounts that did not tell all of their instances and launch templates, and what came instead."""
    unsure: frozenset[str] = frozenset()
    """Provider ids of instances of which nobody could tell yet what they were made from."""
    marked: Mapping[str, float] = field(default_factory=dict)
    """Nodes that we marked because they are idle, and when."""
    held: frozenset[str] = frozenset()
    """The UIDs of pods that were asked to leave, and that a disruption budget holds."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Accounts that have not answered a call for a while, and which."""
    ceilings: Ceilings = Ceilings()
    launched: int = 0
    """Nodes that were asked for within the last minute."""
    other_autoscaler: Rejection | None = None
    """Who else scales this cluster's nodes, or why nobody can tell; nothing is started or ended then. None: nobody."""
    autoscalers_unseen: Rejection | None = None
    """Why nobody can tell whether another autoscaler has come since we looked last; None: we look."""

    def is_leaving(self, key: NodeGroupKey) -> bool:
        """Tell whether a group is being removed, with its pool or without it."""
        return key.pool in self.leaving or key in self.leaving_groups
