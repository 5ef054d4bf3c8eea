"""Instances have one object and one life each, and a status tells what is seen, whatever was written before."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.resources.instances import Phase
from autoscaler.api.resources.pools import CapacityType
from autoscaler.capacity.records import instance_records, instance_status
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import objects
from autoscaler.simulation.cluster import merging
from tests.autoscaler.capacity import books
from tests.autoscaler.capacity.books import START, Job, LaunchedInstance, World

RNG = random.Random(1)  # noqa: S311  # an order of writes, not a secret
MINUTE = 60.0
GROUP = books.group().key


def world(*instances: LaunchedInstance, jobs: tuple[Job, ...] = (), until: float = START) -> World:
    made = World(instances=list(instances), jobs=list(jobs))
    made.settle(until, RNG)
    return made


def names(plan: instance_records.Plan) -> tuple[list[str], list[str]]:
    return [each.name for each in plan.creates], [each.name for each in plan.changes]


# Names


def test_instances_are_numbered_from_one_in_the_order_they_began() -> None:
    made = world(LaunchedInstance(id="i-a", launched_at=START), LaunchedInstance(id="i-b", launched_at=START - 1))
    assert {name: one.resource.status.provider_id for name, one in made.stored.items()} == {
        "gpu-001": "aws:///a/i-b",
        "gpu-002": "aws:///a/i-a",
    }


def test_the_lowest_free_number_is_used_again() -> None:
    made = world(*(LaunchedInstance(id=f"i-{number}", launched_at=START) for number in range(3)))
    made.instances[1].ended_at = START + 100
    made.instances.append(LaunchedInstance(id="i-new", launched_at=START + 200))
    assert names(instance_records.decide(made.sight(START + 300))) == ([], ["gpu-001", "gpu-002", "gpu-003"])
    made.settle(START + 300, RNG)
    assert len(made.stored) == 3
    assert made.seconds() == {"2026-11": 100}
    assert made.status(2).provider_id == "aws:///a/i-new"


def test_pools_number_their_instances_apart() -> None:
    groups = (books.group(books.member("i-1")), books.group(books.member("i-2"), pool="cpu"))
    told = {cloud.InstanceId(name): cloud.InstanceTimes(launched_at=START, is_over=False) for name in ("i-1", "i-2")}
    plan = instance_records.decide(books.sight(START, groups=groups, lives=told))
    assert names(plan) == (["cpu-001", "gpu-001"], [])


def test_a_number_is_not_free_while_its_last_instance_is_listed() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START, listed_after_end=600))
    made.instances[0].ended_at = START + 100
    made.instances.append(LaunchedInstance(id="i-2", launched_at=START + 150))
    made.settle(START + 200, RNG)
    assert made.status(1).phase is Phase.TERMINATED
    assert made.status(2).provider_id == "aws:///a/i-2"
    assert made.seconds() == {"2026-11": 100}


def test_an_object_that_nobody_used_yet_is_taken_first() -> None:
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START)], stored={"gpu-001": books.instance(1)})
    assert names(instance_records.decide(made.sight(START))) == ([], ["gpu-001"])


def test_an_object_that_is_being_deleted_is_not_used() -> None:
    leaving = objects.Custom(meta=books.meta("gpu-001", deleted_at=START), resource=books.instance(1).resource)
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START)], stored={"gpu-001": leaving})
    assert names(instance_records.decide(made.sight(START))) == (["gpu-002"], [])


def test_an_object_to_make_says_whose_it_is() -> None:
    plan = instance_records.decide(World(instances=[LaunchedInstance(id="i-1", launched_at=START)]).sight(START))
    assert plan.creates[0].manifest() == {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Instance",
        "metadata": {"name": "gpu-001"},
        "spec": {"pool": "gpu", "number": 1},
    }


# The beginning


def test_a_life_begins_when_the_provider_says() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START - 30))
    status = made.status()
    assert status.phase is Phase.LAUNCHING
    assert (status.zone, status.instance_type, status.node_name) == ("a", "m5.xlarge", None)
    assert (status.instance_created_at, status.idle_since) == (books.date(START - 30), None)


def test_a_new_life_forgets_all_but_the_months_and_the_first_day() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 60, finished_at=START + 160),),
        until=START + 100,
    )
    registered = made.status().registered_at
    made.instances[0].ended_at = START + 200
    made.settle(START + 300, RNG)
    assert made.status().durations_by_scope == {"team": 25}
    made.instances.append(LaunchedInstance(id="i-2", launched_at=START + 400))
    made.settle(START + 500, RNG)
    status = made.status()
    assert (status.instance_created_at, status.registered_at) == (books.date(START + 400), registered)
    assert (status.durations_by_scope, status.conditions) == ({}, ())
    assert (status.months["2026-11"].seconds, status.months["2026-11"].scopes) == (200, {"team": 25})


def test_nothing_begins_before_the_provider_was_asked_when() -> None:
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START)])
    plan = instance_records.decide(made.sight(START, lives={}, asked=frozenset()))
    assert plan == instance_records.Plan(
        questions=(instance_records.Question(instance=cloud.InstanceId("i-1"), group=GROUP),)
    )


def test_an_instance_that_the_provider_does_not_know_began_when_its_node_did() -> None:
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START)], stored={"gpu-001": books.instance(1)})
    made.settle(START + 100, RNG, lives={})
    assert made.status().instance_created_at == books.date(START)


@pytest.mark.parametrize(("listed_before", "want"), [(START - 1, ["gpu-001"]), (START + 1, []), (None, [])])
def test_an_instance_about_to_go_is_taken_up_only_if_nobody_can_have_seen_it(
    listed_before: float | None, want: list[str]
) -> None:
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START, ended_at=START + 50, listed_after_end=100)])
    plan = instance_records.decide(made.sight(START + 60, listed_before=listed_before))
    assert names(plan) == (want, [])


def test_an_instance_seen_only_when_it_was_over_is_accounted_for_in_one_write() -> None:
    made = World(instances=[LaunchedInstance(id="i-1", launched_at=START, ended_at=START + 50, listed_after_end=100)])
    made.settle(START + 60, RNG, listed_before=START - 1)
    assert made.status().phase is Phase.TERMINATED
    assert made.seconds() == {"2026-11": 50}


# While it lives


def test_a_ready_node_makes_a_ready_instance_that_is_idle_since_then() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    status = made.status()
    assert (status.phase, status.node_name) == (Phase.READY, "i-1")
    assert status.idle_since == books.date(START + 60)


def test_an_instance_stays_ready_and_idle_when_its_node_is_lost_for_a_while() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    made.instances[0].ready_after = 200
    made.settle(START + 150, RNG)
    made.settle(START + 250, RNG)
    assert (made.status().phase, made.status().idle_since) == (Phase.READY, books.date(START + 60))


@pytest.mark.parametrize("effect", ["NoSchedule"])
def test_a_node_that_is_about_to_be_removed_makes_a_draining_instance(effect: str) -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    marked = books.node("i-1", "aws:///a/i-1", ready_at=START, taints=(objects.NodeTaint(keys.REMOVING, "", effect),))
    sight = books.sight(
        START + 91, groups=(books.group(books.member("i-1")),), nodes=[marked], instances=made.stored.values()
    )
    (change,) = instance_records.decide(sight).changes
    assert change.patch() == {"phase": "Draining"}
    made.write(change)
    made.settle(START + 92, RNG)
    assert made.status().phase is Phase.READY


def test_a_pod_at_work_is_recorded_with_its_scope_and_share() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 70, finished_at=START + 999),),
        until=START + 90,
    )
    (pod,) = made.status().running
    assert (pod.pod_uid, pod.scope, pod.started_at) == ("uid-job", "team", books.date(START + 70))
    assert (pod.share_millionths, made.status().idle_since) == (250_000, None)


def test_a_pod_that_ended_leaves_in_the_write_that_adds_its_time() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 70, finished_at=START + 470),),
        until=START + 90,
    )
    (change,) = instance_records.decide(made.sight(START + 500)).changes
    want = {
        "running": [],
        "durationsByScope": {"team": 100},
        "months": {"2026-11": {"seconds": 0, "scopes": {"team": 100}}},
        "idleSince": "2026-11-16T06:07:50Z",
    }
    assert change.patch() == want
    assert change.samples == (instance_status.Sample(scope="team", seconds=400),)


def test_a_pod_of_no_scope_keeps_its_instance_busy_and_is_charged_to_nobody() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 70, finished_at=START + 470, namespace="other"),),
        until=START + 90,
    )
    assert made.status().idle_since is None
    made.settle(START + 500, RNG)
    assert (made.status().idle_since, made.scope_seconds()) == (books.date(START + 470), {})


def test_a_pod_that_is_bound_but_has_not_started_makes_busy_and_costs_nothing() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    sight = books.sight(
        START + 100,
        groups=(books.group(books.member("i-1")),),
        nodes=[books.node("i-1", "aws:///a/i-1", ready_at=START + 60)],
        pods=[books.pod("job", "i-1", phase="Pending")],
        instances=made.stored.values(),
    )
    (change,) = instance_records.decide(sight).changes
    assert change.patch() == {"idleSince": None}


def test_a_pod_born_and_gone_unseen_is_charged_to_nobody_but_its_instance_was_not_idle() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    made.jobs.append(Job(name="job", instance="i-1", started_at=START + 100, finished_at=START + 150))
    made.settle(START + 200, RNG)
    assert (made.scope_seconds(), made.status().idle_since) == ({}, books.date(START + 150))


def test_daemons_are_no_work() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    daemon = books.pod("daemon", "i-1", started_at=START + 61, owners=books.owner("DaemonSet"))
    sight = books.sight(
        START + 100,
        groups=(books.group(books.member("i-1")),),
        nodes=[books.node("i-1", "aws:///a/i-1", ready_at=START + 60)],
        pods=[daemon],
        instances=made.stored.values(),
    )
    assert instance_records.decide(sight).changes == ()


@pytest.mark.parametrize(("unwatched_since", "want"), [(None, 400), (START + 250, 150), (START + 10, 0)])
def test_a_pod_gone_without_a_trace_is_charged_until_somebody_watched(unwatched_since: float | None, want: int) -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 100, finished_at=START + 999, cpu_millis=4000),),
        until=START + 110,
    )
    made.jobs.clear()
    made.settle(START + 500, RNG, unwatched_since=unwatched_since)
    assert made.scope_seconds().get("team", 0) == want


def test_a_pod_cannot_have_begun_before_its_instance() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START, ready_after=0),
        jobs=(Job(name="job", instance="i-1", started_at=START - 70, finished_at=START + 999),),
    )
    assert made.status().running[0].started_at == books.date(START)


def test_a_part_of_a_second_is_carried_over_to_the_next_life() -> None:
    jobs = tuple(
        Job(name=f"job-{n}", instance=f"i-{n}", started_at=START + n, finished_at=START + n + 2, cpu_millis=1500)
        for n in (100, 200, 300, 400)
    )
    instances = (
        LaunchedInstance(id=f"i-{n}", launched_at=START + n - 60, ended_at=START + n + 20) for n in (100, 200, 300, 400)
    )
    made = World(instances=list(instances), jobs=list(jobs))
    for seconds in range(50, 500):
        made.settle(START + seconds, RNG)
    assert (len(made.stored), made.scope_seconds()) == (1, {"team": 3})  # four times 0.75 s


# The end


@pytest.mark.parametrize(
    ("known", "want"),
    [
        ({}, (300, instance_status.EndReason.STATE_TRANSITION)),
        ({"lives": {}, "ends": {"i-1": START + 310}}, (310, instance_status.EndReason.SCALING_ACTIVITY)),
        ({"lives": {}, "listed_before": START + 290}, (290, instance_status.EndReason.LAST_SEEN)),
        ({"lives": {}, "unwatched_since": START + 200}, (200, instance_status.EndReason.LAST_SEEN)),
        ({"lives": {}}, (500, instance_status.EndReason.LAST_SEEN)),
    ],
)
def test_a_life_ends_when_the_best_witness_says(
    known: dict[str, Any], want: tuple[int, instance_status.EndReason]
) -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 10)
    made.instances[0].ended_at = START + 300
    made.settle(START + 500, RNG, **known)
    (condition,) = made.status().conditions
    assert (made.seconds()["2026-11"], condition.reason) == want
    assert instance_status.length_seconds(made.status()) == want[0]


def test_nobody_is_declared_dead_before_the_provider_was_asked() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 10)
    made.instances[0].ended_at = START + 300
    plan = instance_records.decide(made.sight(START + 500, lives={}, asked=frozenset()))
    assert names(plan) == ([], [])
    assert plan.questions == (instance_records.Question(instance=cloud.InstanceId("i-1"), group=GROUP),)


def test_an_instance_that_runs_without_its_group_lives_on() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 10)
    sight = made.sight(START + 500)
    plan = instance_records.decide(
        books.sight(START + 500, instances=made.stored.values(), lives=sight.lives, asked=sight.asked)
    )
    assert names(plan) == ([], [])
    assert plan.questions == (instance_records.Question(instance=cloud.InstanceId("i-1"), group=GROUP),)


def test_pods_end_with_their_instance_at_the_latest() -> None:
    made = world(
        LaunchedInstance(id="i-1", launched_at=START),
        jobs=(Job(name="job", instance="i-1", started_at=START + 100, finished_at=START + 900, cpu_millis=4000),),
        until=START + 110,
    )
    made.instances[0].ended_at = START + 300
    made.settle(START + 500, RNG)
    assert (made.seconds(), made.scope_seconds()) == ({"2026-11": 300}, {"team": 200})
    assert (made.status().running, made.status().node_name) == ((), None)


def test_a_life_has_its_cost_where_there_is_a_price() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 10)
    made.instances[0].ended_at = START + 1800
    prices = Prices(hourly_micros={("m5.xlarge", CapacityType.ON_DEMAND): 200_000})
    made.settle(START + 5000, RNG, prices=prices)
    assert made.status().months["2026-11"].cost_micros == 100_000


def test_of_two_objects_with_one_instance_the_lower_number_counts() -> None:
    made = world(LaunchedInstance(id="i-1", launched_at=START), until=START + 90)
    double = made.stored["gpu-001"].resource.status.model_dump(by_alias=True)
    made.stored["gpu-002"] = books.instance(2, **double)
    made.settle(START + 91, RNG)
    assert (made.status(1).phase, made.status(2).phase) == (Phase.READY, Phase.TERMINATED)
    assert instance_status.length_seconds(made.status(2)) is None
    made.instances.append(LaunchedInstance(id="i-2", launched_at=START + 92))
    made.settle(START + 93, RNG)
    assert made.status(2).provider_id == "aws:///a/i-2"
    made.instances[0].ended_at = START + 100
    made.settle(START + 200, RNG)
    assert made.seconds() == {"2026-11": 100}


JSON = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_a_patch_makes_of_what_was_what_should_be(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = instance_records.merge_patch(before, after)
    assert merging.merge(before, patch) == after
    assert (patch == {}) == (before == after)
