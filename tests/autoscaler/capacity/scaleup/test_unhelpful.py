"""Kinds of pods for which no instance is started: when it is noted, for whom it holds, and when it is over."""

import dataclasses
from typing import Any

from autoscaler import clock
from autoscaler.api.resources.pools import UNHELPFUL_MAX, InstancePool
from autoscaler.capacity.scaleup import unhelpful
from autoscaler.capacity.scaleup.missed_placements import MissedPlacement, Waiting
from autoscaler.capacity.snapshot import Snapshot, Unhelpful
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.stored import claim, stored, volume

TEMPLATE = cloud.TemplateRef(id="lt-1", version="1")
A, B = (seen.group(zone=zone, template=TEMPLATE) for zone in "ab")
POD = seen.pod("waits")
LIKE = Waiting(POD.shape, "default")


def snapshot(**more: Any) -> Snapshot:
    return seen.snapshot(groups=(A, B), **more)


def noted(snap: Snapshot | None = None, like: Waiting = LIKE) -> dict[str, Unhelpful]:
    lessons = {like: MissedPlacement(refused_by=A.key)}
    return unhelpful.learn({}, lessons, {}, snap or snapshot())


def written(known: dict[str, Unhelpful]) -> InstancePool:
    """Return the pool as its status says it."""
    said = unhelpful.written(snapshot(unhelpful=known), "workers")
    return InstancePool.model_validate(
        {
            "metadata": {"name": "workers"},
            "spec": {"providerAccount": "aws"},
            "status": {"unhelpfulLaunches": said},
        }
    )


def test_one_empty_node_that_refused_a_pod_ends_launches_for_its_kind_in_all_groups_and_for_no_other() -> None:
    after = snapshot(unhelpful=noted())
    assert unhelpful.refused(after, LIKE).keys() == {A.key, B.key}
    assert unhelpful.refused(after, Waiting(seen.pod("other", cpu="2").shape, "default")) == {}
    assert unhelpful.refused(after, LIKE._replace(namespace="elsewhere")) == {}
    assert unhelpful.learn({}, {LIKE: MissedPlacement(avoid=frozenset({"n"}))}, {}, snapshot()) == {}


def test_what_a_pool_wrote_down_is_what_was_known() -> None:
    known = noted()
    assert unhelpful.recall({}, [written(known)], (A, B), seen.NOW) == known
    many = {f"{number:032d}": next(iter(known.values())) for number in range(UNHELPFUL_MAX + 1)}
    assert len(written(many).status.unhelpful_launches) == UNHELPFUL_MAX


def test_it_is_over_after_an_hour_with_the_template_and_with_the_group() -> None:
    known = noted()
    assert unhelpful.next_end(known) == seen.NOW + 3600
    assert unhelpful.recall(known, (), (A, B), seen.NOW + 3599) == known
    assert unhelpful.recall(known, (), (A, B), seen.NOW + 3600) == {}
    assert unhelpful.recall(known, (), (A, B), seen.NOW - 1) == {}  # the clock was set back
    newer = dataclasses.replace(A, template=cloud.TemplateRef(id="lt-1", version="2"))
    assert unhelpful.recall(known, (), (newer, B), seen.NOW) == {}
    assert unhelpful.recall(known, (), (B,), seen.NOW) == {}


def test_pods_whose_volume_claims_changed_are_another_kind() -> None:
    claimed = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    like = Waiting(seen.pod("claims", volumes=[claimed]).shape, "default")
    unbound = noted(like=like)
    bound = snapshot(unhelpful=unbound, storage=stored(claim("data", "pv"), volume()))
    assert unhelpful.refused(snapshot(unhelpful=unbound), like)
    assert unhelpful.refused(bound, like) == {}


def test_a_kind_that_a_node_takes_after_all_is_helped_again_whatever_the_status_still_says() -> None:
    known = noted()
    taken = unhelpful.learn(known, {LIKE: MissedPlacement()}, {POD.shape: frozenset({A.key})}, snapshot())
    recalled = unhelpful.recall(taken, [written(known)], (A, B), seen.NOW)
    assert unhelpful.refused(snapshot(unhelpful=recalled), LIKE) == {}
    assert unhelpful.written(snapshot(unhelpful=recalled), "workers") == []
    assert unhelpful.next_end(recalled) is None
    again = unhelpful.learn(recalled, {LIKE: MissedPlacement(refused_by=B.key)}, {}, snapshot(now=seen.NOW + 60))
    assert unhelpful.refused(snapshot(unhelpful=again), LIKE)


def test_the_time_is_written_in_whole_seconds() -> None:
    known = noted(snapshot(now=seen.NOW + 0.7))
    (said,) = unhelpful.written(snapshot(unhelpful=known), "workers")
    assert said["at"] == clock.to_rfc3339(seen.NOW)


def test_what_is_known_keeps_its_time_and_goes_with_a_group_that_had_no_template() -> None:
    known = noted()
    later = unhelpful.learn(known, {LIKE: MissedPlacement(refused_by=B.key)}, {}, snapshot(now=seen.NOW + 60))
    assert later == known
    bare = {shape: dataclasses.replace(each, template_hash=None) for shape, each in known.items()}
    assert unhelpful.recall(bare, (), (dataclasses.replace(A, template=None), B), seen.NOW) == bare
    assert unhelpful.recall(bare, (), (B,), seen.NOW) == {}


def test_each_pool_writes_its_own_and_of_too_many_the_newest() -> None:
    (one,) = noted().values()
    assert unhelpful.written(snapshot(unhelpful=noted()), "others") == []
    many = {f"{n:032d}": dataclasses.replace(one, at=one.at + n) for n in range(UNHELPFUL_MAX + 1)}
    assert f"{0:032d}" not in [each["shape"] for each in unhelpful.written(snapshot(unhelpful=many), "workers")]
