"""Compare what belongs to each Machine with what is wanted: StatefulSets, Services and the MachineNodePool.

It decides what is created, patched or deleted, and which names somebody else has taken. What each object should be is
its own module's to say. It must not touch objects that no Machine of ours owns, and sends nothing.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from autoscaler.api import keys, machine_catalogue, names
from autoscaler.kube import objects
from autoscaler.kube.objects import Key
from autoscaler.machines.objects import node_pools, owned, services, stateful_sets, writes
from autoscaler.machines.objects.writes import On, Write
from autoscaler.machines.state.known import Machine, Tables
from autoscaler.machines.wanted_condition import Said


class _Compared(NamedTuple):
    """An object that belongs to a Machine: as it is, and what is to be done about it."""

    on: On
    key: Key
    found: objects.Stored | None
    difference: owned.Difference | None


class Making:
    """Compares what belongs to a Machine with what is wanted of it."""

    def __init__(self, tables: Tables, *, namespace: str, image: str) -> None:
        self._tables = tables
        self._namespace = namespace
        self._image = image
        self._sets = tables.stateful_sets.index(_group)
        self._services = tables.services.index(_group)
        self._differing: dict[str, frozenset[Key]] = {}

    def differing(self, group: str) -> frozenset[Key]:
        """Return the StatefulSets of a group that were not as they should be when they were last compared."""
        return self._differing.get(group, frozenset())

    def of_group(self, group: str) -> tuple[list[Write], list[Said]]:
        """Return what is to be written for a group, and what keeps it from being made."""
        machine = self._tables.machines.get(Key("", group))
        if machine is not None and machine.meta.deleted_at is not None:
            machine = None
        compared = [] if machine is None else [self._node_pool(machine), *self._of_types(machine)]
        taken = [
            Said(holds=False, reason="NameTaken", message=each.difference.message)
            for each in compared
            if isinstance(each.difference, owned.Taken)
        ]
        written = [writes.of_difference(each.on, each.difference, each.found, group) for each in compared]
        differing = (each for each in compared if each.on is On.STATEFUL_SET and each.difference is not None)
        self._note_differing(group, frozenset(each.key for each in differing))
        unwanted = self._unwanted(group, {each.key for each in compared})
        return [*(write for write in written if write is not None), *unwanted], taken

    def _note_differing(self, group: str, differing: frozenset[Key]) -> None:
        self._differing.pop(group, None)
        if differing:
            self._differing[group] = differing

    def _of_types(self, machine: Machine) -> Iterator[_Compared]:
        resolved = machine_catalogue.resolve(machine.resource.spec)
        for offer in machine.resource.spec.machine_types:
            key = Key(self._namespace, names.stateful_set(offer.name, machine.meta.key.name))
            service, found = services.wanted(machine, offer.name, namespace=self._namespace), self._tables.services
            yield _Compared(On.SERVICE, key, found.get(key), services.difference(service, found.get(key)))
            sleepers = stateful_sets.wanted(
                machine, offer, resolved[offer.name], namespace=self._namespace, image=self._image
            )
            there = self._tables.stateful_sets.get(key)
            yield _Compared(On.STATEFUL_SET, key, there, stateful_sets.difference(sleepers, there))

    def _node_pool(self, machine: Machine) -> _Compared:
        key = Key("", names.machine_node_pool(machine.meta.key.name))
        found = self._tables.node_pools.get(key)
        return _Compared(On.NODE_POOL, key, found, node_pools.difference(machine, found))

    def _unwanted(self, group: str, kept: Collection[Key]) -> Iterator[Write]:
        for on, index in ((On.STATEFUL_SET, self._sets), (On.SERVICE, self._services)):
            for found in owned.unwanted(index.get(group).values(), kept):
                why = f"machine group {group} has no such type any more"
                yield writes.delete(on, found, why=why, group=group)


def _group(found: owned.Owned) -> tuple[str, ...]:
    group = found.meta.labels.get(keys.MACHINE_GROUP)
    return (group,) if group is not None else ()
