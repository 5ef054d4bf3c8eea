"""Which Instance objects may have to say something else: those whose instance, node, pods or own words have changed.

It decides nothing; what they should say is decided in `instance_records`. An object of which nothing of this has
changed says what it should: time alone changes none, but for months that are forgotten, so that a look at all of them
can wait.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from autoscaler.api import resources
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.records import accounting, instance_records
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, store

Record = objects.Custom[resources.Instance]
Q = TypeVar("Q")


class RecordChanges:
    """Follows all that Instance objects are made from."""

    def __init__(
        self, records: store.Table[Record], *, pods: store.Table[objects.Pod], nodes: store.Table[objects.Node]
    ) -> None:
        self._records = records
        self._nodes = nodes
        self._by_instance = records.index(_instance_ids)
        self._by_node = records.index(_node_names)
        self._by_pool = records.index(_pools)
        self._lifeless = records.index(_lifeless_pools)
        self._changed: set[objects.Key] = set()
        self._groups: dict[cloud.GroupName, cloud.NodeGroup] = {}
        self._listed: dict[cloud.InstanceId, tuple[cloud.GroupName, cloud.Instance]] = {}
        self._unrecorded: set[cloud.InstanceId] = set()
        self._lives: Mapping[cloud.InstanceId, cloud.InstanceTimes] = {}
        self._promised: frozenset[tuple[str, str]] = frozenset()
        records.listen(self._note_record)
        pods.listen(self._note_pod)
        nodes.listen(self._note_node)

    def note(self, record: str) -> None:
        """Have an Instance object looked at again: what it should say was not written."""
        self._changed.add(objects.Key("", record))

    def note_instance(self, instance: cloud.InstanceId) -> None:
        """Have the objects of an instance looked at again: something changed, or there is an open question about it."""
        self._changed.update(self._by_instance.get(instance))

    def take(self, snapshot: Snapshot, told: Mapping[cloud.InstanceId, cloud.InstanceTimes]) -> tuple[Record, ...]:
        """Return the objects to look at since the last time, given what is listed and told of instances.

        Where several have the same instance, all of them are among these or none is. Where an instance has no object,
        those of its pool that have no life are among them: it may get one of these.
        """
        self._compare_listing(snapshot.groups)
        if told is not self._lives:
            for one, _ in self._lives.items() ^ told.items():
                self.note_instance(one)
            self._lives = told
        nominated = [pod for pod in snapshot.indexed.unbound.values() if pod.nominated_node]
        promised = frozenset((pod.nominated_node, pod.meta.uid) for pod in nominated)
        for name, _ in promised ^ self._promised:
            self._note_node_name(name)
        self._promised = promised
        for record in self._existing():
            for one in _instance_ids(record):
                self.note_instance(one)
        taken, self._changed = self._existing(), set()
        free = {key: record for pool in self._short_pools() for key, record in self._lifeless.get(pool).items()}
        return (*taken, *(free[key] for key in free.keys() - {record.meta.key for record in taken}))

    def unasked(
        self, questions: Mapping[cloud.InstanceId, Q], looked_at: Iterable[Record]
    ) -> dict[cloud.InstanceId, Q]:
        """Return the questions that nobody asks anew now: about instances that have objects, and not these."""
        asked_anew = {one for record in looked_at for one in _instance_ids(record)}
        return {one: about for one, about in questions.items() if one not in asked_anew and self._by_instance.get(one)}

    def same(self, record: Record) -> Mapping[objects.Key, Record]:
        """Return an object with all that have the same instance."""
        others = [self._by_instance.get(one) for one in _instance_ids(record)]
        return {record.meta.key: record, **{key: each for found in others for key, each in found.items()}}

    def taken_numbers(self) -> dict[str, frozenset[int]]:
        """Return the numbers that have a life, of pools with instances that no object tells of."""
        specs = {pool: [each.resource for each in self._by_pool.get(pool).values()] for pool in self._short_pools()}
        return {
            pool: frozenset(each.spec.number for each in found if each.status.phase in accounting.LIVING)
            for pool, found in specs.items()
        }

    def _short_pools(self) -> set[str]:
        """Return the pools of instances that are listed and that no object tells of."""
        return {self._groups[self._listed[one][0]].key.pool for one in self._unrecorded}

    def _existing(self) -> tuple[Record, ...]:
        return tuple(record for key in self._changed if (record := self._records.get(key)) is not None)

    def narrowed(self, snapshot: Snapshot, records: Iterable[Record]) -> Snapshot:
        """Return a snapshot in which the groups have no other instances than those of these objects, and of none."""
        members: dict[cloud.GroupName, list[cloud.Instance]] = {}
        for one in self._unrecorded.union(*map(_instance_ids, records)):
            if one in self._listed:
                name, instance = self._listed[one]
                members.setdefault(name, []).append(instance)
        groups = [
            dataclasses.replace(group, instances=tuple(members[group.name]))
            for group in snapshot.groups
            if group.name in members
        ]
        return dataclasses.replace(snapshot, groups=tuple(groups))

    def _compare_listing(self, groups: Iterable[cloud.NodeGroup]) -> None:
        now = {group.name: group for group in groups}
        for name in self._groups.keys() | now.keys():
            old, new = self._groups.get(name), now.get(name)
            if old is not new:
                self._compare(name, old.instances if old else (), new.instances if new else ())
        self._groups = now

    def _compare(
        self, group: cloud.GroupName, old: Collection[cloud.Instance], new: Collection[cloud.Instance]
    ) -> None:
        if old == new:
            return
        for one in set(old) - set(new):
            self.note_instance(one.id)
            if self._listed.get(one.id, (group,))[0] == group:
                self._listed.pop(one.id, None)
            self._look_for_record(one.id)
        for one in set(new) - set(old):
            self.note_instance(one.id)
            self._listed[one.id] = (group, one)
            self._look_for_record(one.id)

    def _note_record(self, old: Record | None, new: Record | None) -> None:
        for record in (old, new):
            if record is not None:
                self._changed.add(record.meta.key)
                for one in _instance_ids(record):
                    self.note_instance(one)
                    self._look_for_record(one)

    def _look_for_record(self, one: cloud.InstanceId) -> None:
        if one in self._listed and not self._by_instance.get(one):
            self._unrecorded.add(one)
        else:
            self._unrecorded.discard(one)
        if not self._unrecorded:
            self._unrecorded = set()  # one that held much takes long to go through, though it is empty

    def _note_pod(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        for name in {pod_index.node_of(pod) for pod in (old, new) if pod is not None}:
            self._note_node_name(name)

    def _note_node(self, old: objects.Node | None, new: objects.Node | None) -> None:
        for node in (old, new):
            if node is not None:
                self._changed.update(self._by_node.get(node.meta.key.name))
                self.note_instance(instance_records.instance_id(node.provider_id))

    def _note_node_name(self, name: str) -> None:
        """Have the objects looked at that name a node, and those of its instance."""
        self._changed.update(self._by_node.get(name))
        node = self._nodes.get(objects.Key("", name))
        if node is not None:
            self.note_instance(instance_records.instance_id(node.provider_id))


def _instance_ids(record: Record) -> Collection[cloud.InstanceId]:
    provider_id = record.resource.status.provider_id
    return (instance_records.instance_id(provider_id),) if provider_id else ()


def _pools(record: Record) -> Collection[str]:
    return (record.resource.spec.pool,)


def _lifeless_pools(record: Record) -> Collection[str]:
    return () if record.resource.status.phase in accounting.LIVING else _pools(record)


def _node_names(record: Record) -> Collection[str]:
    name = record.resource.status.node_name
    return (name,) if name else ()
