"""Put together what is known of a group, as it is decided on: what changed since it was last. It decides nothing."""

import dataclasses
from collections.abc import Callable, Mapping

from autoscaler.api import machine_catalogue, names
from autoscaler.api.machine_catalogue import MachineResources
from autoscaler.kube import shapes
from autoscaler.kube.objects import Key
from autoscaler.machines.model import PODS, Guest, MachineType, Phase, Sleeper
from autoscaler.machines.objects import stateful_sets
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.state.known import Known, Machine, Tables
from autoscaler.machines.state.views import Barred, Views


class Assembling:
    """Keeps the states of groups as the tables are."""

    def __init__(
        self,
        tables: Tables,
        known: Known,
        views: Views,
        namespace: str,
        *,
        differing: Callable[[str], frozenset[Key]] = lambda _: frozenset(),
    ) -> None:
        """Read from these; `differing` names the StatefulSets of a group that are not as they should be."""
        self._tables = tables
        self._differing = differing
        self._known = known
        self._views = views
        self._namespace = namespace
        self._states: dict[str, GroupState] = {}
        self._types: dict[str, tuple[tuple[str, int], tuple[MachineType, ...]]] = {}
        """By group: the types, and the Machine and the generation of its spec that they were read from."""
        self._differed: dict[str, frozenset[Key]] = {}
        """By group: the StatefulSets that were not as they should be when sleepers were last compared with them."""

    def group(self, name: str) -> GroupState:
        """Return a group as it is now; one whose Machine is gone has no types."""
        machine = self._tables.machines.get(Key("", name))
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = GroupState(name)
            self._known.pods.setdefault(name, {}).update(dict.fromkeys(self._known.all_pods(name)))
            self._views.changed[name].update(dict.fromkeys(self._views.names(name)))
        is_deleted = machine is None or machine.meta.deleted_at is not None
        state.set_types(self._types_of(name, machine), is_deleted=is_deleted)
        self._note_revised(state)
        for uid in self._known.pods.pop(name, ()):
            self._take_pod(state, uid)
        for node in self._views.changed.pop(name, ()):
            state.put_node(node, self._views.node(node, name))
        if machine is None and state.is_empty:
            self.forget(name)
        return state

    def forget(self, name: str) -> None:
        """Forget what is known of a group; it is put together afresh if it is asked for again."""
        self._states.pop(name, None)
        self._types.pop(name, None)
        self._differed.pop(name, None)
        self._known.pods.pop(name, None)
        self._views.changed.pop(name, None)

    def _types_of(self, name: str, machine: Machine | None) -> tuple[MachineType, ...]:
        if machine is None:
            return ()
        spec = (machine.meta.uid, machine.meta.generation)
        known = self._types.get(name)
        if known is None or known[0] != spec:
            known = self._types[name] = (spec, machine_types(machine))
        return known[1]

    def _note_revised(self, state: GroupState) -> None:
        """Have all sleepers of a group looked at again if the templates changed that they should be of."""
        differing = self._differing(state.name)
        if state.name not in self._known.revised and differing == self._differed.get(state.name, frozenset()):
            return
        self._known.revised.pop(state.name, None)
        self._differed[state.name] = differing
        self._known.pods.setdefault(state.name, {}).update(dict.fromkeys(state.sleepers))

    def _take_pod(self, state: GroupState, uid: str) -> None:
        """Take a guest or a sleeper over as it is now, or is no longer."""
        guest, sleeper = self._known.guest(state.name, uid), self._known.sleeper(state.name, uid)
        state.put_guest(uid, guest and self._guest(guest))
        state.put_sleeper(uid, sleeper and self._sleeper(sleeper, state.name))
        state.put_outsider(uid, self._known.outsider(state.name, uid))

    def _guest(self, guest: Guest) -> Guest:
        shape = self._shape(guest.key) if guest.is_waiting else None
        return guest if shape is None else dataclasses.replace(guest, barred=Barred(shape, self._views))

    def _sleeper(self, sleeper: Sleeper, group: str) -> Sleeper:
        pod = self._tables.pods.get(sleeper.key)
        if pod is None:
            return sleeper
        if stateful_sets.is_outdated(pod.meta, self._revision(sleeper.type, group)):
            return dataclasses.replace(sleeper, is_outdated=True)
        is_bound = sleeper.phase is Phase.BOUND
        return sleeper if is_bound else dataclasses.replace(sleeper, barred=Barred(pod.shape, self._views))

    def _revision(self, machine_type: str, group: str) -> str | None:
        """Return which template sleepers should be of; None: not known now, for one since it is somebody else's."""
        key = Key(self._namespace, names.stateful_set(machine_type, group))
        found = self._tables.stateful_sets.get(key)
        return stateful_sets.revision(found) if found is not None and key not in self._differing(group) else None

    def _shape(self, key: Key) -> shapes.Shape | None:
        pod = self._tables.pods.get(key)
        return None if pod is None else pod.shape


def machine_types(machine: Machine) -> tuple[MachineType, ...]:
    """Return the types of a Machine, with what one machine of each has."""
    resolved = machine_catalogue.resolve(machine.resource.spec)
    return tuple(
        MachineType(name=each.name, maximum=each.available, requests=_requests(resolved[each.name]))
        for each in machine.resource.spec.machine_types
    )


def _requests(resources: MachineResources) -> Mapping[str, int]:
    return {**shapes.amounts(resources.requests()), PODS: 1}
