"""Everything that is watched for machines, found by group and by node: kept current by each change.

It notes which groups and which nodes changed, so that a step costs what changed; nothing is decided here.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.kube import incremental, kinds, objects, store
from autoscaler.machines.model import PODS, Guest, Phase, Sleeper
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.objects import owned, pods, stateful_sets

Machine = objects.Custom[resources.Machine]
Made = owned.Owned | objects.Custom[resources.MachineNodePool]


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
    opened: dict[str, None] = field(default_factory=dict)
    """Of the guests, those that the scheduler may bind in a moment."""
    _count: int = 0

    def add(self, pod: objects.Pod) -> None:
        """Take a pod in."""
        self._count += 1
        if pods.is_sleeper(pod, self.namespace):
            self.sleepers[pod.meta.uid] = pods.sleeper(pod)
        elif pods.is_guest(pod):
            guest = pods.guest(pod)
            self.guests[pod.meta.uid] = (guest, pods.is_stamped(pod))
            if guest.phase is Phase.OPEN and guest.unschedulable_since is None:
                self.opened[pod.meta.uid] = None

    def remove(self, pod: objects.Pod) -> None:
        """Give a pod up."""
        self._count -= 1
        self.sleepers.pop(pod.meta.uid, None)
        self.guests.pop(pod.meta.uid, None)
        self.opened.pop(pod.meta.uid, None)

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
        self.pods: dict[str, dict[str, None]] = {}
        """The UIDs of guests and sleepers that changed, by group."""
        self.owned: dict[str, None] = {}
        """Groups whose StatefulSets, Services or MachineNodePool are to be compared with what is wanted."""
        self.blocked: set[str] = set()
        """Groups for which something cannot be made, since an object that is not theirs has its name."""
        self.revised: dict[str, None] = {}
        """Groups of which a StatefulSet has a new template."""
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
        tables.stateful_sets.listen(self._set_changed)
        tables.node_pools.listen(self._node_pool_changed)
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

    def all_pods(self, group: str) -> list[str]:
        """Return the UIDs of all guests and sleepers of a group."""
        there = self.by_group.get(group)
        return [*there.guests, *there.sleepers] if there is not None else []

    def guest(self, group: str, uid: str) -> Guest | None:
        """Return a guest: one in a namespace where machines are given, or that we wrote on."""
        found = self._says_guest(group, uid)
        return found[0] if found is not None and self._is_guest(*found) else None

    def outsider(self, group: str, uid: str) -> Guest | None:
        """Return one who waits behind our gate in a namespace where no machines are given, or not any more."""
        found = self._says_guest(group, uid)
        is_out = found is not None and found[0].phase in {Phase.GATED, Phase.HELD} and not self._is_guest(*found)
        return found[0] if found is not None and is_out else None

    def sleeper(self, group: str, uid: str) -> Sleeper | None:
        """Return a sleeper."""
        there = self.by_group.get(group)
        return there.sleepers.get(uid) if there is not None else None

    def on_their_way(self, group: str) -> frozenset[GroupType]:
        """Return the types of open guests that the scheduler may bind in a moment."""
        there = self.by_group.get(group)
        found = (self.guest(group, uid) for uid in there.opened) if there is not None else ()
        return frozenset(GroupType(group, guest.type) for guest in found if guest is not None)

    def used(self, node: str) -> Counter[str]:
        """Return what pods take of a node."""
        there = self.by_node.get(node)
        return Counter(there.used) if there is not None else Counter()

    def bound(self, node: str) -> frozenset[GroupType]:
        """Return the types of guests that are bound to a node."""
        there = self.by_node.get(node)
        return frozenset(each for each, count in there.guests.items() if count > 0) if there else frozenset()

    def _says_guest(self, group: str, uid: str) -> tuple[Guest, bool] | None:
        there = self.by_group.get(group)
        return there.guests.get(uid) if there is not None else None

    def _is_guest(self, guest: Guest, is_stamped: bool) -> bool:  # noqa: FBT001  # as the index has both
        found = self._tables.namespaces.get(objects.Key("", guest.key.namespace))
        gives = found is not None and found.meta.labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED
        return is_stamped or gives

    def _pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        is_decided_on = _decided_on(old) != _decided_on(new)
        if is_decided_on:
            self._stir.set()
        for each in (old, new):
            group = pods.group_of(each) if each is not None else None
            if each is not None and group is not None:
                self.pods.setdefault(group, {})[each.meta.uid] = None
                if is_decided_on:
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
            for group in self.by_group:
                self.pods.setdefault(group, {}).update(dict.fromkeys(self.all_pods(group)))

    def _owned_changed(self, old: Made | None, new: Made | None) -> None:
        changed = _groups_of(old, new) if _made(old) != _made(new) else []
        if new is None:
            changed += sorted(self.blocked)  # a name is free again
        for group in changed:
            self.owned[group] = None
            self.groups[group] = None

    def _node_pool_changed(self, old: Made | None, new: Made | None) -> None:
        self.groups.update(dict.fromkeys(_groups_of(old, new)))  # somebody may have changed what it says

    def _set_changed(self, old: owned.Owned | None, new: owned.Owned | None) -> None:
        if _revision(old) != _revision(new):
            for group in _groups_of(old, new):
                self.revised[group] = None
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


def _groups_of(*changed: Made | None) -> list[str]:
    found = (each.meta.labels.get(keys.MACHINE_GROUP) for each in changed if each is not None)
    return [group for group in found if group is not None]


def _made(found: Made | None) -> tuple[object, ...] | None:
    """Return all that may differ from what is wanted of an object: what others report in its status does not."""
    if found is None:
        return None
    meta, is_kept = found.meta, found.meta.deleted_at is None
    if not isinstance(found, owned.Owned):
        return meta.uid, meta.labels, is_kept, meta.owners, found.resource.spec
    owners = found.manifest["metadata"].get("ownerReferences")
    return meta.uid, meta.labels, is_kept, owners, found.manifest.get("spec")


def _revision(found: owned.Owned | None) -> str | None:
    return stateful_sets.revision(found) if found is not None else None


def _guest_type(pod: objects.Pod) -> Collection[GroupType]:
    group = pods.group_of(pod)
    is_guest = group is not None and pods.is_guest(pod)
    return (GroupType(group or "", pod.meta.labels[keys.MACHINE_TYPE]),) if is_guest else ()


def _wanted(machine: Machine) -> tuple[str, object, bool]:
    return machine.meta.uid, machine.resource.spec, machine.meta.deleted_at is not None
