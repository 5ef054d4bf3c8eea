"""Everything that is watched for machines, found by group and by node: kept current by each change.

It notes which groups and which nodes changed, so that a step costs what changed; nothing is decided here.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.kube import incremental, kinds, objects, store
from autoscaler.machines import owned, pods
from autoscaler.machines.claims import GroupType
from autoscaler.machines.model import PODS, Guest, Phase, Sleeper

Machine = objects.Custom[resources.Machine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What is watched."""

    machines: store.Table[Machine]
    node_pools: store.Table[objects.Custom[resources.MachineNodePool]]
    nodes: store.Table[objects.Node]
    pods: store.Table[objects.Pod]
    namespaces: store.Table[objects.Simple]
    stateful_sets: store.Table[owned.Owned]
    services: store.Table[owned.Owned]

    @classmethod
    def watched(cls, context: control.ControllerContext) -> "Tables":
        """Watch everything."""
        machine, node_pool = resources.Machine, resources.MachineNodePool
        return cls(
            machines=context.watch(kinds.custom(machine), objects.custom(machine)),
            node_pools=context.watch(kinds.custom(node_pool), objects.custom(node_pool)),
            nodes=context.watch(kinds.NODES, objects.node),
            pods=context.watch(kinds.PODS, objects.pod),
            namespaces=context.watch(kinds.NAMESPACES, objects.simple),
            stateful_sets=context.watch(kinds.STATEFUL_SETS, owned.decode, namespace=context.namespace),
            services=context.watch(kinds.SERVICES, owned.decode, namespace=context.namespace),
        )


@dataclass(slots=True)
class GroupPods:
    """The guests and sleepers of one group, by UID."""

    namespace: str
    guests: dict[str, tuple[Guest, bool]] = field(default_factory=dict)
    """Those that say they are, with whether we wrote on them."""
    sleepers: dict[str, Sleeper] = field(default_factory=dict)
    _count: int = 0

    def add(self, pod: objects.Pod) -> None:
        """Take a pod in."""
        self._count += 1
        if pods.is_sleeper(pod, self.namespace):
            self.sleepers[pod.meta.uid] = pods.sleeper(pod)
        elif pods.is_guest(pod):
            self.guests[pod.meta.uid] = (pods.guest(pod), pods.is_stamped(pod))

    def remove(self, pod: objects.Pod) -> None:
        """Give a pod up."""
        self._count -= 1
        self.sleepers.pop(pod.meta.uid, None)
        self.guests.pop(pod.meta.uid, None)

    def __len__(self) -> int:
        return self._count


@dataclass(slots=True)
class NodePods:
    """What pods take of one node that are bound there and have not ended."""

    used: Counter[str] = field(default_factory=Counter)
    guests: Counter[GroupType] = field(default_factory=Counter)
    """Guests by group and type."""

    def add(self, pod: objects.Pod) -> None:
        """Take a pod in."""
        self.used.update(pod.shape.requests)
        self.used[PODS] += 1
        self.guests.update(_guest_type(pod))

    def remove(self, pod: objects.Pod) -> None:
        """Give a pod up."""
        self.used.subtract(pod.shape.requests)
        self.used[PODS] -= 1
        self.guests.subtract(_guest_type(pod))

    def __len__(self) -> int:
        return self.used[PODS]


class Known:
    """What is known of every group and node."""

    def __init__(self, tables: Tables, namespace: str) -> None:
        self.groups: dict[str, None] = {}
        """Groups about which something changed, oldest first."""
        self.nodes: dict[str, None] = {}
        """Nodes that changed, or whose guests did."""
        self.owned: dict[str, None] = {}
        """Groups whose StatefulSets, Services or MachineNodePool are to be compared with what is wanted."""
        self.blocked: set[str] = set()
        """Groups for which something cannot be made, since an object that is not theirs has its name."""
        self.are_machines_new = True
        """Whether a Machine changed since this was last set to False."""
        self.by_group: incremental.IncrementalIndex[str, objects.Pod, GroupPods] = incremental.IncrementalIndex(
            tables.pods, groups_of=_group, make=lambda: GroupPods(namespace)
        )
        self.by_node: incremental.IncrementalIndex[str, objects.Pod, NodePods] = incremental.IncrementalIndex(
            tables.pods, groups_of=_node, make=NodePods
        )
        self._tables = tables
        self._unreadable = frozenset[str]()
        self._stir = asyncio.Event()
        tables.pods.listen(self._pod_changed)
        tables.nodes.listen(self._node_changed)
        tables.machines.listen(self._machine_changed)
        tables.namespaces.listen(self._namespace_changed)
        for table in (tables.stateful_sets, tables.services, tables.node_pools):
            table.listen(self._owned_changed)

    @property
    def is_dirty(self) -> bool:
        """Tell whether something changed that was not looked at yet."""
        return bool(self.groups or self.nodes or self.are_machines_new)

    @property
    def unreadable(self) -> frozenset[str]:
        """Return the groups whose Machine is there and makes no sense to us: nothing of theirs is changed."""
        return frozenset(key.name for key in self._tables.machines.unreadable)

    def note_unreadable(self) -> None:
        """Note groups whose Machine cannot be read any more, or is gone since: no change of another tells of that."""
        there = self.unreadable
        changed = dict.fromkeys(sorted(there ^ self._unreadable))
        self._unreadable = there
        if changed:
            self.are_machines_new = True
            self.groups.update(changed)
            self.owned.update(changed)

    async def stirred(self, seconds: float) -> None:
        """Wait until a guest or sleeper changes, and no longer than so."""
        self._stir.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stir.wait()

    def take_groups(self) -> list[str]:
        """Return the groups that changed, and begin anew."""
        taken = list(self.groups)
        self.groups.clear()
        return taken

    def guests(self, group: str) -> Iterator[Guest]:
        """Return the guests of a group: those in namespaces where machines are given, and those that we wrote on."""
        there = self.by_group.get(group)
        for guest, is_stamped in there.guests.values() if there is not None else ():
            if is_stamped or self._gives_machines(guest.key.namespace):
                yield guest

    def outsiders(self, group: str) -> Iterator[Guest]:
        """Return those who wait behind our gate in namespaces where no machines are given, or not any more."""
        there = self.by_group.get(group)
        for guest, is_stamped in there.guests.values() if there is not None else ():
            is_gated = guest.phase in {Phase.GATED, Phase.HELD}
            if is_gated and not is_stamped and not self._gives_machines(guest.key.namespace):
                yield guest

    def sleepers(self, group: str) -> Collection[Sleeper]:
        """Return the sleepers of a group."""
        there = self.by_group.get(group)
        return there.sleepers.values() if there is not None else ()

    def on_their_way(self, group: str) -> frozenset[GroupType]:
        """Return the types of open guests that the scheduler may bind in a moment."""
        return frozenset(
            GroupType(group, guest.type)
            for guest in self.guests(group)
            if guest.phase is Phase.OPEN and guest.unschedulable_since is None
        )

    def used(self, node: str) -> Counter[str]:
        """Return what pods take of a node."""
        there = self.by_node.get(node)
        return Counter(there.used) if there is not None else Counter()

    def bound(self, node: str) -> frozenset[GroupType]:
        """Return the types of guests that are bound to a node."""
        there = self.by_node.get(node)
        return frozenset(each for each, count in there.guests.items() if count > 0) if there else frozenset()

    def _gives_machines(self, namespace: str) -> bool:
        found = self._tables.namespaces.get(objects.Key("", namespace))
        return found is not None and found.meta.labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED

    def _pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        if _decided_on(old) != _decided_on(new):
            self._stir.set()
            for each in (old, new):
                group = pods.group_of(each) if each is not None else None
                if group is not None:
                    self.groups[group] = None
        if _held(old) != _held(new):
            for each in (old, new):
                if each is not None and each.node_name:
                    self.nodes[each.node_name] = None

    def _node_changed(self, old: objects.Node | None, new: objects.Node | None) -> None:
        for each in (old, new):
            if each is not None:
                self.nodes[each.meta.key.name] = None

    def _machine_changed(self, old: Machine | None, new: Machine | None) -> None:
        for each in (old, new):
            if each is not None:
                self.groups[each.meta.key.name] = None
        if old is None or new is None or _wanted(old) != _wanted(new):
            self.are_machines_new = True
            self.owned.update(dict.fromkeys(each.meta.key.name for each in (old, new) if each is not None))

    def _namespace_changed(self, old: objects.Simple | None, new: objects.Simple | None) -> None:
        said = [each.meta.labels.get(keys.INJECT_RESOURCE) if each is not None else None for each in (old, new)]
        if said[0] != said[1]:
            self.groups.update(dict.fromkeys(self.by_group))

    def _owned_changed(self, old: objects.Stored | None, new: objects.Stored | None) -> None:
        changed = [each.meta.labels.get(keys.MACHINE_GROUP) for each in (old, new) if each is not None]
        if new is None:
            changed += sorted(self.blocked)  # a name is free again
        for group in changed:
            if group is not None:
                self.owned[group] = None
                self.groups[group] = None


def _group(pod: objects.Pod) -> Collection[str]:
    group = pods.group_of(pod)
    return (group,) if group is not None else ()


def _node(pod: objects.Pod) -> Collection[str]:
    return (pod.node_name,) if pod.node_name and not pod.is_terminal else ()


def _held(pod: objects.Pod | None) -> tuple[str, object] | None:
    """Return what a pod takes of which node."""
    return (pod.node_name, pod.shape) if pod is not None and pod.node_name and not pod.is_terminal else None


def _decided_on(pod: objects.Pod | None) -> tuple[object, ...] | None:
    """Return all of a guest or sleeper that a decision may depend on; None: it is neither."""
    group = pods.group_of(pod) if pod is not None else None
    if pod is None or group is None:
        return None
    meta = pod.meta
    state = (pod.node_name, pod.gates, pod.unschedulable_since, pod.waiting_reasons, meta.deleted_at is None)
    return (group, meta.uid, meta.labels, meta.annotations, pod.shape, *state)


def _guest_type(pod: objects.Pod) -> Collection[GroupType]:
    group = pods.group_of(pod)
    is_guest = group is not None and pods.is_guest(pod)
    return (GroupType(group or "", pod.meta.labels[keys.MACHINE_TYPE]),) if is_guest else ()


def _wanted(machine: Machine) -> tuple[str, object, bool]:
    return machine.meta.uid, machine.resource.spec, machine.meta.deleted_at is not None
