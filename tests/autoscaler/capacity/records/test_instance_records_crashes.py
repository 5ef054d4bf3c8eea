"""Whoever dies between two writes, and whoever writes twice, the books are the same: nothing twice, nothing lost."""

import dataclasses
import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.records import accounting, instance_records
from tests.autoscaler.capacity.books import ALLOCATABLE, START, Job, LaunchedInstance, World

HORIZON = 20 * 86400
"""Long enough for a month to end in between."""
STEP = 86400


@st.composite
def histories(draw: st.DrawFn) -> World:
    """Draw instances and pods, every one of them there for longer than it takes to look."""
    world = World()
    for number in range(draw(st.integers(1, 4))):
        begin = START + draw(st.integers(0, HORIZON // 2))
        length = draw(st.integers(2 * STEP, HORIZON // 2))
        instance = LaunchedInstance(
            id=f"i-{number}",
            launched_at=begin,
            ended_at=begin + length,
            listed_after_end=draw(st.sampled_from([0, STEP, 3 * STEP])),
        )
        world.instances.append(instance)
        for job in range(draw(st.integers(0, 3))):
            start = draw(st.integers(int(begin) + 60, int(begin) + length - STEP))
            took = draw(st.integers(STEP, HORIZON // 2))
            world.jobs.append(
                Job(
                    name=f"job-{number}-{job}",
                    instance=instance.id,
                    started_at=start,
                    finished_at=start + took,
                    cpu_millis=draw(st.integers(1, 5000)),
                    namespace=draw(st.sampled_from(["team", "lab", "other"])),
                )
            )
    return world


def rounds() -> list[float]:
    return [START + seconds for seconds in range(0, HORIZON + 4 * STEP, STEP // 2)]


def undisturbed(history: World) -> World:
    world = dataclasses.replace(history, stored={}, samples=[])
    for now in rounds():
        world.settle(now, random.Random(0))  # noqa: S311  # an order, not a secret
    return world


def books_of(world: World) -> tuple[dict[str, int], dict[str, int], list[tuple[str, int]]]:
    return world.seconds(), world.scope_seconds(), sorted(world.samples)


@given(histories())
def test_months_add_up_to_the_lives_and_scopes_to_their_pods(history: World) -> None:
    world = undisturbed(history)
    lives_seconds: dict[str, int] = {}
    for instance in history.instances:
        assert instance.ended_at is not None
        for part in accounting.by_month(instance.launched_at, instance.ended_at):
            lives_seconds[part.month] = lives_seconds.get(part.month, 0) + part.seconds
    assert world.seconds() == lives_seconds
    for scope in ("team", "lab"):
        true = _true_seconds(history, scope)
        charged = world.scope_seconds().get(scope, 0)
        assert true - len(world.stored) < charged <= true


@given(histories(), st.randoms(use_true_random=False))
def test_a_crash_after_any_write_changes_nothing_in_the_end(history: World, rng: random.Random) -> None:
    want = books_of(undisturbed(history))[:2]
    world = dataclasses.replace(history, stored={}, samples=[])
    for now in rounds():
        for _ in range(rng.randint(0, 2)):
            world.carry_out(instance_records.decide(world.sight(now)), rng, crash_after=rng.randint(0, 3))
        world.settle(now, rng)
    assert books_of(world)[:2] == want


@given(histories(), st.randoms(use_true_random=False))
def test_two_who_write_at_once_write_as_one(history: World, rng: random.Random) -> None:
    want = books_of(undisturbed(history))
    world = dataclasses.replace(history, stored={}, samples=[])
    for now in rounds():
        one, other = instance_records.decide(world.sight(now)), instance_records.decide(world.sight(now))
        world.carry_out(one, rng, crash_after=rng.randint(0, 3))
        world.carry_out(other, rng)
        world.settle(now, rng)
    assert books_of(world) == want


@given(histories(), st.randoms(use_true_random=False))
def test_one_who_writes_what_it_saw_long_ago_changes_nothing(history: World, rng: random.Random) -> None:
    want = books_of(undisturbed(history))
    world = dataclasses.replace(history, stored={}, samples=[])
    old = instance_records.Plan()
    for now in rounds():
        fresh = instance_records.decide(world.sight(now))
        world.settle(now, rng)
        for change in old.changes:
            world.write(change)
        old = fresh
    assert books_of(world) == want


@given(histories(), st.integers(0, HORIZON), st.randoms(use_true_random=False))
def test_the_order_of_what_is_seen_does_not_matter(history: World, after: int, rng: random.Random) -> None:
    world = dataclasses.replace(history, stored={})
    for now in rounds():
        if now <= START + after - STEP:
            world.settle(now, rng)
    want = instance_records.decide(world.sight(START + after))
    rng.shuffle(world.instances)
    rng.shuffle(world.jobs)
    stored = list(world.stored.items())
    rng.shuffle(stored)
    world.stored = dict(stored)
    assert instance_records.decide(world.sight(START + after)) == want


@given(histories())
def test_no_two_that_live_share_a_name_and_names_are_the_lowest(history: World) -> None:
    world = dataclasses.replace(history, stored={})
    most = 0
    for now in rounds():
        world.settle(now, random.Random(0))  # noqa: S311  # an order, not a secret
        most = max(
            most, sum(instance.launched_at <= now for instance in history.instances if _is_listed(instance, now))
        )
        living = [
            one.resource.status for one in world.stored.values() if one.resource.status.phase in accounting.LIVING
        ]
        assert len({status.provider_id for status in living}) == len(living)
    assert len(world.stored) == most


def _is_listed(instance: LaunchedInstance, now: float) -> bool:
    assert instance.ended_at is not None
    return instance.launched_at <= now < instance.ended_at + instance.listed_after_end


def _true_seconds(history: World, scope: str) -> Fraction:
    ends = {instance.id: instance.ended_at or 0.0 for instance in history.instances}
    total = Fraction(0)
    for job in history.jobs:
        if job.namespace == scope:
            share = max(Fraction(job.cpu_millis, ALLOCATABLE["cpu"]), Fraction(1, 16))  # 1 of 16 GiB
            total += min(Fraction(1), share) * int(min(job.finished_at, ends[job.instance]) - job.started_at)
    return total
