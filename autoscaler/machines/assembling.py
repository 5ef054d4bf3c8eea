"""Put together what is known of a group, as it is decided on. It decides nothing."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from autoscaler.api import machine_catalogue, names
from autoscaler.api.machine_catalogue import MachineResources
from autoscaler.kube import shapes
from autoscaler.kube.objects import Key
from autoscaler.machines import model, stateful_sets
from autoscaler.machines.known import Known, Machine, Tables
from autoscaler.machines.model import PODS, Group, Guest, MachineType, Sleeper
from autoscaler.machines.views import Views


class Assembling:
    """Makes groups of what the tables hold."""

    def __init__(
        self,
        tables: Tables,
        known: Known,
        views: Views,
        namespace: str,
        *,
        differing: Callable[[str], Collection[Key]] = lambda _: (),
    ) -> None:
        """Read from these; `differing` names the StatefulSets of a group that are not as they should be."""
        self._tables = tables
        self._differing = differing
        self._known = known
        self._views = views
        self._namespace = namespace
        self._types: dict[str, tuple[Machine, tuple[MachineType, ...]]] = {}
        """By group: the types, and the version of the Machine that they were read from."""

    def group(self, name: str) -> Group:
        """Return a group as it is now; one whose Machine is gone has no types."""
        machine = self._tables.machines.get(Key("", name))
        nodes = self._views.nodes(name)
        reach = _Reach(self._views, nodes)
        return Group(
            name=name,
            types=self._types_of(name, machine),
            nodes=nodes,
            guests=tuple(self._guests(name, reach)),
            sleepers=tuple(self._sleepers(name, reach)),
            outsiders=tuple(self._known.outsiders(name)),
            is_deleted=machine is None or machine.meta.deleted_at is not None,
        )

    def _types_of(self, name: str, machine: Machine | None) -> tuple[MachineType, ...]:
        if machine is None:
            self._types.pop(name, None)
            return ()
        known = self._types.get(name)
        if known is None or known[0].resource.spec is not machine.resource.spec:
            known = self._types[name] = (machine, machine_types(machine))
        return known[1]

    def _guests(self, name: str, reach: "_Reach") -> Iterator[Guest]:
        for guest in self._known.guests(name):
            barred = reach.barred(guest.type, self._shape(guest.key)) if guest.is_waiting else frozenset()
            yield dataclasses.replace(guest, barred=barred) if barred else guest

    def _sleepers(self, name: str, reach: "_Reach") -> Iterator[Sleeper]:
        revisions: dict[str, str | None] = {}
        for sleeper in self._known.sleepers(name):
            if sleeper.type not in revisions:
                revisions[sleeper.type] = self._revision(sleeper.type, name)
            pod = self._tables.pods.get(sleeper.key)
            if pod is None:
                continue
            is_outdated = stateful_sets.is_outdated(pod.meta, revisions[sleeper.type])
            barred = frozenset[str]()
            if sleeper.phase is not model.Phase.BOUND:
                barred = reach.barred(sleeper.type, pod.shape, pinned=sleeper.node)
            if is_outdated or barred:
                sleeper = dataclasses.replace(sleeper, is_outdated=is_outdated, barred=barred)  # noqa: PLW2901
            yield sleeper

    def _revision(self, machine_type: str, group: str) -> str | None:
        """Return which template sleepers should be of; None: not known now, for one since it is somebody else's."""
        key = Key(self._namespace, names.stateful_set(machine_type, group))
        found = self._tables.stateful_sets.get(key)
        return stateful_sets.revision(found) if found is not None and key not in self._differing(group) else None

    def _shape(self, key: Key) -> shapes.Shape | None:
        pod = self._tables.pods.get(key)
        return None if pod is None else pod.shape


class _Reach:
    """Which nodes of a group do not let in pods, found once for each shape."""

    def __init__(self, views: Views, nodes: tuple[model.Node, ...]) -> None:
        self._views = views
        self._by_type: dict[str, list[str]] = {}
        for node in nodes:
            for each in node.types if node.is_usable else ():
                self._by_type.setdefault(each, []).append(node.name)
        self._known: dict[tuple[str, shapes.Shape, str], frozenset[str]] = {}

    def barred(self, machine_type: str, shape: shapes.Shape | None, pinned: str = "") -> frozenset[str]:
        """Return the nodes of a type that do not let in a pod of a shape, or of these the one that it is pinned to."""
        if shape is None:
            return frozenset()
        key = (machine_type, shape, pinned)
        found = self._known.get(key)
        if found is None:
            there = self._by_type.get(machine_type, [])
            there = [name for name in there if name == pinned] if pinned else there
            found = self._known[key] = self._views.barred(shape, there)
        return found


def machine_types(machine: Machine) -> tuple[MachineType, ...]:
    """Return the types of a Machine, with what one machine of each has."""
    resolved = machine_catalogue.resolve(machine.resource.spec)
    return tuple(
        MachineType(name=each.name, maximum=each.available, requests=_requests(resolved[each.name]))
        for each in machine.resource.spec.machine_types
    )


def _requests(resources: MachineResources) -> Mapping[str, int]:
    return {**shapes.amounts(resources.requests()), PODS: 1}
