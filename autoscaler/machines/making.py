"""Make what belongs to each Machine as it should be: StatefulSets, Services and the MachineNodePool. Pure."""

from collections.abc import Collection, Iterator

from autoscaler.api import keys, machine_catalogue, names
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects
from autoscaler.kube.objects import Key
from autoscaler.machines import node_pools, owned, services, stateful_sets, writes
from autoscaler.machines.known import Machine, Tables
from autoscaler.machines.said import Said
from autoscaler.machines.writes import On, Write


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
        made, taken = self._wanted(machine), list[Said]()
        written: list[Write] = []
        for on, wanted, found, difference in made:
            if isinstance(difference, owned.Taken):
                taken.append(Said(holds=False, reason="NameTaken", message=difference.message))
            elif (write := writes.of_difference(on, difference, found, group)) is not None:
                written.append(write)
            del wanted
        kept = {_key(wanted) for _, wanted, _, _ in made}
        self._note_differing(
            group, frozenset(_key(wanted) for on, wanted, _, each in made if on is On.STATEFUL_SET and each is not None)
        )
        return [*written, *self._unwanted(group, kept)], taken

    def _note_differing(self, group: str, differing: frozenset[Key]) -> None:
        self._differing.pop(group, None)
        if differing:
            self._differing[group] = differing

    def _wanted(
        self, machine: Machine | None
    ) -> list[tuple[On, Manifest, objects.Stored | None, owned.Difference | None]]:
        if machine is None:
            return []
        return [*self._node_pool(machine), *self._of_types(machine)]

    def _of_types(
        self, machine: Machine
    ) -> Iterator[tuple[On, Manifest, objects.Stored | None, owned.Difference | None]]:
        resolved = machine_catalogue.resolve(machine.resource.spec)
        for offer in machine.resource.spec.machine_types:
            key = Key(self._namespace, names.stateful_set(offer.name, machine.meta.key.name))
            service, found = services.wanted(machine, offer.name, namespace=self._namespace), self._tables.services
            yield On.SERVICE, service, found.get(key), services.difference(service, found.get(key))
            sleepers = stateful_sets.wanted(
                machine, offer, resolved[offer.name], namespace=self._namespace, image=self._image
            )
            there = self._tables.stateful_sets.get(key)
            yield On.STATEFUL_SET, sleepers, there, stateful_sets.difference(sleepers, there)

    def _node_pool(
        self, machine: Machine
    ) -> Iterator[tuple[On, Manifest, objects.Stored | None, owned.Difference | None]]:
        found = self._tables.node_pools.get(Key("", names.machine_node_pool(machine.meta.key.name)))
        yield On.NODE_POOL, node_pools.wanted(machine), found, node_pools.difference(machine, found)

    def _unwanted(self, group: str, kept: Collection[Key]) -> Iterator[Write]:
        for on, index in ((On.STATEFUL_SET, self._sets), (On.SERVICE, self._services)):
            for found in owned.unwanted(index.get(group).values(), kept):
                why = f"machine group {group} has no such type any more"
                yield writes.delete(on, found, why=why, group=group)


def _group(found: owned.Owned) -> tuple[str, ...]:
    group = found.meta.labels.get(keys.MACHINE_GROUP)
    return (group,) if group is not None else ()


def _key(manifest: Manifest) -> Key:
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
