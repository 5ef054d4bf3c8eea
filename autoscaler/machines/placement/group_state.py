"""What is known of a group, kept current by each change: counts, free room, and sleepers in order.

A change costs what it touches: a guest its type's counts, a sleeper or a node what is on that node. What is said here
is what a state made afresh of the same nodes, guests and sleepers would say. Nothing is decided here.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator

from autoscaler.machines.model import Group, Guest, MachineType, Node, Phase, Sleeper
from autoscaler.machines.placement import doomed, sharing
from autoscaler.machines.placement.counts import Count
from autoscaler.machines.placement.doomed import Doomed
from autoscaler.machines.placement.ordered import Ordered
from autoscaler.machines.placement.places import Place, Places
from autoscaler.machines.placement.sharing import Share


class GroupState:
    """A Machine with everything that belongs to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: tuple[MachineType, ...] = ()
        self.is_deleted = False
        """The Machine is being deleted, or is gone: nothing is opened any more."""
        self.nodes: dict[str, Node] = {}
        self.guests: dict[str, Guest] = {}
        """By UID."""
        self.sleepers: dict[str, Sleeper] = {}
        self.outsiders: dict[str, Guest] = {}
        """Those who wait behind our gate in namespaces where no machines are given."""
        self.places = Places()
        self._unbound: dict[str, dict[str, Guest]] = defaultdict(dict)
        """Guests without a node, by type and UID."""
        self._counts: dict[str, Count] = defaultdict(Count)
        self._reserved: set[str] = set()
        """The sleepers that are bound to ready nodes."""
        self._doomed: dict[str, Doomed] = {}
        self._open: dict[str, Ordered] = defaultdict(Ordered)
        self._asleep: dict[str, Ordered] = defaultdict(Ordered)
        self._there: dict[str, dict[str, Sleeper]] = defaultdict(dict)
        """Open sleepers by node and UID."""
        self._stale: dict[str, None] = {}
        """Nodes that changed, or whose sleepers did."""
        self._shares: list[Share] | None = None
        self._share_of: dict[str, Share] = {}

    @classmethod
    def of(cls, group: Group) -> "GroupState":
        """Make the state of a group afresh."""
        made = cls(group.name)
        made.set_types(group.types, is_deleted=group.is_deleted)
        for node in group.nodes:
            made.put_node(node.name, node)
        for guest in group.guests:
            made.put_guest(guest.uid, guest)
        for sleeper in group.sleepers:
            made.put_sleeper(sleeper.uid, sleeper)
        for guest in group.outsiders:
            made.put_outsider(guest.uid, guest)
        return made

    # What changes

    def set_types(self, types: tuple[MachineType, ...], *, is_deleted: bool) -> None:
        """Take over what the Machine says."""
        if types != self.types:
            self._shares = None
        self.types, self.is_deleted = types, is_deleted

    def put_node(self, name: str, node: Node | None) -> None:
        """Take a node over as it is now; None: it is not in the group any more."""
        before = self.nodes.pop(name, None)
        old, new = (each.types if each is not None else frozenset[str]() for each in (before, node))
        if node is not None:
            self.nodes[name] = node
        if old != new:
            self._shares = None
        self._touch(new)
        self._stale[name] = None

    def put_guest(self, uid: str, guest: Guest | None) -> None:
        """Take a guest over as it is now; None: it is gone."""
        for each, by in ((self.guests.pop(uid, None), -1), (guest, 1)):
            if each is not None:
                self._counts[each.type].count_guest(each, by)
                self._unbound[each.type].pop(uid, None)
                self._touch((each.type,))
        if guest is not None:
            self.guests[uid] = guest
            if guest.phase is not Phase.BOUND:
                self._unbound[guest.type][uid] = guest

    def put_sleeper(self, uid: str, sleeper: Sleeper | None) -> None:
        """Take a sleeper over as it is now; None: it is gone."""
        before = self.sleepers.pop(uid, None)
        if before is not None:
            self._forget(before)
        if sleeper is None:
            return
        self.sleepers[uid] = sleeper
        self._counts[sleeper.type].count_sleeper(sleeper, 1)
        if sleeper.is_open:
            self._there[sleeper.node][uid] = sleeper
            self._stale[sleeper.node] = None
        else:
            self._judge(sleeper, None)

    def put_outsider(self, uid: str, guest: Guest | None) -> None:
        """Take over one who waits where no machines are given; None: it is none, or not any more."""
        self.outsiders.pop(uid, None)
        if guest is not None:
            self.outsiders[uid] = guest

    def refresh(self) -> None:
        """Look again at nodes that changed; what is said below is of what was there then."""
        stale, self._stale = self._stale, {}
        for name in stale:
            self._look_again(name)

    # What is there

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing of it."""
        return not (self.nodes or self.guests or self.sleepers or self.outsiders)

    @property
    def unbound(self) -> Iterator[Guest]:
        """Return the guests that have no node."""
        for guests in self._unbound.values():
            yield from guests.values()

    @property
    def doomed(self) -> list[Doomed]:
        """Return the sleepers that must go, whoever waits."""
        return sorted(self._doomed.values(), key=lambda each: each.sleeper.key)

    @property
    def shares(self) -> list[Share]:
        """Return the types that share nodes."""
        if self._shares is None:
            served = {node.types for node in self.nodes.values()}
            self._shares = sharing.shares(self.types, sorted(served, key=sorted))
            self._share_of = {each.name: share for share in self._shares for each in share.types}
        return self._shares

    def waiting(self, types: Iterable[MachineType]) -> list[Guest]:
        """Return the guests of types that are looked at and have no node."""
        unbound = (self._unbound.get(each.name, {}).values() for each in types)
        return [guest for guests in unbound for guest in guests if guest.is_waiting]

    def counts(self, types: Iterable[MachineType]) -> dict[str, Count]:
        """Return what there is of each type, to be counted on in a plan."""
        nothing = Count()
        return {
            each.name: dataclasses.replace(self._counts.get(each.name, nothing), maximum=each.maximum) for each in types
        }

    def open_sleepers(self, machine_type: str) -> Ordered:
        """Return the open sleepers of a type that do not go: unbound ones, then those on nodes not ready, then any."""
        return self._open[machine_type]

    def asleep(self, machine_type: str) -> Ordered:
        """Return the sleepers of a type that may be opened, by ordinal."""
        return self._asleep[machine_type]

    # How it is kept current

    def _look_again(self, name: str) -> None:
        """Look at a node that changed, or whose sleepers did."""
        node, there = self.nodes.get(name), self._there.get(name, {})
        for sleeper in there.values():
            self._judge(sleeper, node)
        is_usable = node is not None and node.is_usable
        self.places.put(name, Place.of(node, there.values(), self._doomed) if node and is_usable else None)

    def _forget(self, sleeper: Sleeper) -> None:
        there = self._there.get(sleeper.node, {})
        if there.pop(sleeper.uid, None) is not None:
            self._stale[sleeper.node] = None
            if not there:
                del self._there[sleeper.node]
        self._counts[sleeper.type].count_sleeper(sleeper, -1)
        self._doomed.pop(sleeper.uid, None)
        self._open[sleeper.type].put(sleeper.uid, None)
        self._asleep[sleeper.type].put(sleeper.uid, None)
        self._reserve(sleeper, is_reserved=False)
        self._touch((sleeper.type,))

    def _judge(self, sleeper: Sleeper, node: Node | None) -> None:
        """Tell whether a sleeper must go, and where it stands among the others of its type."""
        self._doomed.pop(sleeper.uid, None)
        why = None if sleeper.is_terminating else doomed.why(sleeper, node)
        if why is not None:
            self._doomed[sleeper.uid] = Doomed(sleeper=sleeper, why=why)
        stays, phase = why is None and not sleeper.is_terminating, sleeper.phase
        is_bound, is_ready = phase is Phase.BOUND, node is not None and node.is_ready
        uid, ordinal = sleeper.uid, sleeper.ordinal
        in_line = (is_bound, is_ready, -ordinal, uid) if stays and sleeper.is_open else None
        self._open[sleeper.type].put(uid, in_line)
        self._asleep[sleeper.type].put(uid, (ordinal, uid) if stays and phase is Phase.GATED else None)
        self._reserve(sleeper, is_reserved=is_bound and is_ready)
        self._touch((sleeper.type,))

    def _reserve(self, sleeper: Sleeper, *, is_reserved: bool) -> None:
        if is_reserved != (sleeper.uid in self._reserved):
            self._counts[sleeper.type].reserved += 1 if is_reserved else -1
            (self._reserved.add if is_reserved else self._reserved.discard)(sleeper.uid)

    def _touch(self, types: Iterable[str]) -> None:
        """Have types decided about again."""
        for name in types:
            share = self._share_of.get(name)
            if share is not None:
                share.settled = None
