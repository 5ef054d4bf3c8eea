"""Looking at what changed alone writes what a look at everything would."""

import dataclasses
import random
from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.records import instance_records, record_changes
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, store
from tests.autoscaler.capacity import books
from tests.autoscaler.capacity.books import START, Job, LaunchedInstance, World

NAMES = ("i-1", "i-2", "i-3")
TIMES = st.integers(0, 600)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    instances = [
        LaunchedInstance(
            id=name,
            launched_at=START + draw(TIMES),
            ended_at=draw(st.none() | TIMES.map(lambda after: START + 600 + after)),
            listed_after_end=draw(st.sampled_from([0.0, 120.0])),
        )
        for name in NAMES
    ]
    jobs = []
    for number in range(draw(st.integers(0, 5))):
        started_at = START + draw(TIMES)
        finished_at = started_at + draw(st.integers(1, 600))
        node, namespace = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["team", "other"]))
        jobs.append(
            Job(
                name=f"j{number}",
                instance=node,
                started_at=started_at,
                finished_at=finished_at,
                namespace=namespace,
            )
        )
    return World(instances=instances, jobs=jobs)


class Followed:
    """A world whose objects come into tables as they change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pods: store.Table[objects.Pod] = store.Table()
        self.nodes: store.Table[objects.Node] = store.Table()
        self.records: store.Table[record_changes.Record] = store.Table()
        self.changes = record_changes.RecordChanges(self.records, pods=self.pods, nodes=self.nodes)
        self._version = 0

    def see(self, now: float) -> instance_records.Sight:
        """Take over what is different now; an instance of which the cloud was not asked is not told of."""
        sight = self.world.sight(now)
        self._follow(self.pods, sight.snapshot.pods.values())
        self._follow(self.nodes, sight.snapshot.nodes.values())
        self.see_records()
        return sight

    def see_records(self) -> None:
        for record in self.world.stored.values():
            self.records.seen(record)

    def narrowed(self, sight: instance_records.Sight) -> instance_records.Sight:
        taken = self.changes.take(sight.snapshot, sight.lives)
        snapshot = self.changes.narrowed(sight.snapshot, taken)
        return dataclasses.replace(sight, snapshot=snapshot, instances=taken, taken=self.changes.taken_numbers())

    def _follow(self, table: store.Table[Any], there: Iterable[Any]) -> None:
        seen = {each.meta.key: each for each in there}
        self._version += 1
        for key, each in seen.items():
            known = table.get(key)
            if known is None or _versioned(known, 1) != each:
                table.seen(_versioned(each, self._version))
        for gone in [each for each in table if each.meta.key not in seen]:
            table.gone(_versioned(gone, self._version).meta)


def _versioned(one: Any, version: int) -> Any:
    return msgspec.structs.replace(one, meta=msgspec.structs.replace(one.meta, resource_version=version))


@given(worlds(), st.lists(TIMES, min_size=3, max_size=12), st.integers(0, 9))
def test_a_look_at_what_changed_writes_what_a_look_at_everything_would(
    world: World, steps: list[int], seed: int
) -> None:
    followed, rng, now = Followed(world), random.Random(seed), START  # noqa: S311
    for step in steps:
        now += step / 2
        sight = followed.see(now)
        want, narrow = instance_records.decide(sight), followed.narrowed(sight)
        assert instance_records.decide(narrow) == want
        world.carry_out(want, rng)
        followed.see_records()


def test_what_was_not_written_or_not_answered_is_looked_at_again_and_nothing_else_is() -> None:
    world = World(instances=[LaunchedInstance(id=name, launched_at=START) for name in NAMES])
    world.settle(START + 100, random.Random(0))  # noqa: S311
    followed = Followed(world)
    followed.narrowed(followed.see(START + 100))
    assert followed.narrowed(followed.see(START + 200)).instances == ()
    followed.changes.note("gpu-001")
    followed.changes.note_instance(cloud.InstanceId("i-2"))
    names = {record.meta.key.name for record in followed.narrowed(followed.see(START + 200)).instances}
    assert names == {"gpu-001", "gpu-002"}


def test_objects_that_have_the_same_instance_are_looked_at_together() -> None:
    world, followed = World(), Followed(World())
    same = "aws:///a/i-1"
    world.stored = {f"gpu-00{number}": books.instance(number, phase="Ready", providerID=same) for number in (1, 2)}
    followed.world = world
    followed.narrowed(followed.see(START))
    followed.changes.note("gpu-002")
    assert len(followed.narrowed(followed.see(START)).instances) == 2


def test_an_instance_that_a_pod_is_promised_is_looked_at_when_it_is_and_when_it_is_not_any_more() -> None:
    world = World(instances=[LaunchedInstance(id=name, launched_at=START) for name in NAMES])
    world.settle(START + 100, random.Random(0))  # noqa: S311
    followed = Followed(world)
    followed.narrowed(followed.see(START + 100))
    sight = followed.see(START + 200)
    pod = books.pod("waits", nominated_node="i-3", phase="Pending")
    promised = dataclasses.replace(sight.snapshot, indexed=sight.snapshot.indexed.nominated([pod]))
    for snapshot in (promised, sight.snapshot):
        (record,) = followed.narrowed(dataclasses.replace(sight, snapshot=snapshot)).instances
        assert record.resource.status.node_name == "i-3"


def test_an_object_that_somebody_changed_is_looked_at_and_one_that_is_gone_is_missed() -> None:
    world = World(instances=[LaunchedInstance(id=name, launched_at=START) for name in NAMES])
    world.settle(START + 100, random.Random(0))  # noqa: S311
    followed = Followed(world)
    followed.narrowed(followed.see(START + 100))
    before = world.stored["gpu-002"]
    meta = msgspec.structs.replace(before.meta, resource_version=before.meta.resource_version + 1)
    world.stored["gpu-002"] = objects.Custom(meta=meta, resource=before.resource)
    (record,) = followed.narrowed(followed.see(START + 200)).instances
    assert record.meta.key.name == "gpu-002"
    assert not followed.changes.taken_numbers()
    followed.records.gone(meta)
    assert followed.changes.taken_numbers() == {"gpu": {1, 3}}
