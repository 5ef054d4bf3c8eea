"""How many volumes nodes attach, as an amount like cpu or memory. Pure.

A node that is there has what its CSINode says, less the volumes of its pods. What a new one will have is learned from
nodes of its instance type; before there was one, EBS's limit is taken from the catalogue, and other drivers have none.
It is looked at only while a pod with volumes waits. As to the scheduler, a driver that says nothing has no limit.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping

from autoscaler.api import keys
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.model import Room, Situation, Template
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage.volume_objects import EBS, AttachLimits
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects, shapes


def limited(situation: Situation, snapshot: Snapshot, pods: Iterable[shapes.Shape]) -> Situation:
    """Add to nodes and groups how many more volumes they attach, of drivers that any of these pods need."""
    claiming = [(shape, shape.namespace) for shape in pods if shape.claims]
    needs = [storage.needs(snapshot.storage, *each).attachments for each in claiming]
    drivers = _same(frozenset(resource for each in needs for resource in each))
    if not drivers:
        return situation
    known = snapshot.storage
    learned = _by_type(known.attach_limits, snapshot.nodes)
    there, nobody = snapshot.indexed.by_node, ()
    rooms = _rooms(
        (
            room.name,
            room,
            there.get(room.name, nobody),
            known.attach_limits.get(objects.Key("", room.name)),
            known,
            drivers,
        )
        for room in situation.rooms
    )
    expected = functools.partial(_expected, snapshot, learned, drivers)
    return dataclasses.replace(
        situation,
        rooms=rooms,
        groups=tuple(dataclasses.replace(each, template=expected(each.template)) for each in situation.groups),
        asked=tuple(dataclasses.replace(each, template=expected(each.template)) for each in situation.asked),
    )


@functools.lru_cache(maxsize=16)
def _same(drivers: frozenset[str]) -> frozenset[str]:
    """Return the same object for equal sets: what is remembered is compared by identity."""
    return drivers


@remembered.RememberedEach
def _rooms(
    name: str,
    room: Room,
    pods: Iterable[objects.Pod],
    limits: AttachLimits | None,
    known: storage.Storage,
    drivers: frozenset[str],
) -> Room:
    """Return a room with how many more volumes it attaches, where it has limits."""
    del name
    bounded = {storage.resource(driver): limit for driver, limit in limits.limits.items()} if limits else {}
    if not room.free or drivers.isdisjoint(bounded):
        return room
    used = Counter(driver for driver, _ in _attached(known, pods))
    left = {driver: max(0, limit - used[driver]) for driver, limit in bounded.items() if driver in drivers}
    return dataclasses.replace(room, free={**room.free, **left})


def _attached(known: storage.Storage, pods: Iterable[objects.Pod]) -> set[tuple[str, str]]:
    """Return the volumes of pods that are on a node; one that several use is attached once."""
    return {
        attached
        for pod in pods
        if pod.shape.claims and not pod.is_terminal
        for claim in pod.shape.claims
        if (attached := storage.attached(known, objects.Key(pod.meta.key.namespace, claim))) is not None
    }


def _expected(
    snapshot: Snapshot, learned: Mapping[tuple[str, str], int], drivers: frozenset[str], template: Template
) -> Template:
    """Return what a node will be, with how many volumes it will attach."""
    kind = snapshot.types.get(template.labels.get(keys.INSTANCE_TYPE, ""))
    found = {storage.resource(EBS): kind.attachable_volumes} if kind is not None else {}
    if kind is not None:
        found |= {driver: learned[kind.name, driver] for driver in drivers if (kind.name, driver) in learned}
    amounts = {driver: amount for driver, amount in found.items() if driver in drivers}
    return dataclasses.replace(template, allocatable={**template.allocatable, **amounts}) if amounts else template


@remembered.Remembered
def _by_type(
    limits: Mapping[objects.Key, AttachLimits], nodes: Mapping[objects.Key, objects.Node]
) -> dict[tuple[str, str], int]:
    """Return the least that nodes of each instance type attach, by resource."""
    found: dict[tuple[str, str], int] = {}
    for key, each in limits.items():
        node = nodes.get(key)
        kind = node.meta.labels.get(keys.INSTANCE_TYPE, "") if node is not None else ""
        for driver, limit in each.limits.items() if kind else ():
            named = (kind, storage.resource(driver))
            found[named] = min(limit, found.get(named, limit))
    return found
