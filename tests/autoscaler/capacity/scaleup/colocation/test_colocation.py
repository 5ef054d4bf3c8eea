"""Gangs go to one zone as a whole or not at all, whatever else is planned beside them."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.capacity import decide, messages
from autoscaler.capacity.model import Policy, Situation
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.scaleup import demand, supply
from autoscaler.capacity.scaleup.colocation import colocation, gangs
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.capacity.snapshot import Ceilings, Snapshot, Unavailable
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.members import member, opened

POLICY = Policy()
Where = dict[str, Counter[str]]
"""By owner, how many of its pods go to each zone."""


def members(count: int, owner: str = "train", **more: Any) -> list[objects.Pod]:
    return [member(f"{owner}-{number}", owner, **more) for number in range(count)]


def planned(pods: list[objects.Pod], **more: Any) -> Plan:
    groups = {"groups": tuple(seen.group(zone=zone) for zone in ("b", "a"))}
    return decide.decide(seen.snapshot(pods=pods, **{**groups, **more}), POLICY)


def grown(plan: Plan) -> dict[str, int]:
    """Return the new nodes by zone."""
    found: Counter[str] = Counter()
    for launch in plan.launches:
        found[launch.key.zone] += launch.after - launch.before
    return dict(found)


def told(plan: Plan) -> str:
    (refused,) = plan.unserved
    return messages.not_triggered(refused.rejections)


def test_a_party_gets_all_its_nodes_in_one_zone() -> None:
    plan = planned(members(7))
    assert grown(plan) == {"a": 3}
    assert sorted(pod.meta.key.name for launch in plan.launches for pod in launch.pods) == [
        f"train-{n}" for n in range(7)
    ]
    assert plan.openings == ()


def test_it_stays_where_its_instances_are_on_their_way() -> None:
    groups = (seen.group(zone="a"), seen.group(zone="b", desired=2))
    plan = planned(members(6), groups=groups)
    assert (plan.launches, plan.openings) == ((), ())


def test_it_goes_where_fewest_instances_are_missing() -> None:
    nodes = [seen.node("n", instance="i-1", zone="b")]
    plan = planned(members(6), nodes=nodes, groups=(seen.group(zone="a"), seen.group("i-1", zone="b")))
    assert grown(plan) == {"b": 1}
    assert plan.needed == {"n"}
    assert plan.openings == (), "all of them or none"
    assert plan.landed == {}, "nobody learns from pods that the scheduler does not look at"


def test_it_is_opened_when_there_is_room_for_all_on_nodes_that_are_ready() -> None:
    nodes = [seen.node(f"n-{number}", instance=f"i-{number}", zone="b") for number in range(2)]
    groups = (seen.group(zone="a"), seen.group("i-0", "i-1", zone="b"))
    plan = planned(members(6), nodes=nodes, groups=groups)
    assert [(each.pod.meta.key.name, each.zone) for each in plan.openings] == [(f"train-{n}", "b") for n in range(6)]
    assert plan.needed == {"n-0", "n-1"}
    unready = [nodes[0], seen.node("n-1", instance="i-1", zone="b", ready=False)]
    assert planned(members(6), nodes=unready, groups=groups).openings == ()


def test_it_goes_where_others_of_its_job_have_been_while_that_zone_takes_it() -> None:
    ended = opened("train-9", "b", status={"phase": "Succeeded"})
    assert grown(planned([ended, *members(6)])) == {"b": 2}
    assert grown(planned([ended, *members(6)], groups=(seen.group(zone="a"), seen.group(zone="b", maximum=1)))) == {
        "a": 2
    }


def test_a_zone_without_capacity_is_left_as_a_whole() -> None:
    short = Unavailable(until=seen.NOW + 60, reason="InsufficientCapacity")
    groups = (seen.group("i-1", zone="a"), seen.group(zone="b"))
    nodes = [seen.node("n", instance="i-1", zone="a")]
    plan = planned(members(6), nodes=nodes, groups=groups, unavailable={groups[0].key: short})
    assert grown(plan) == {"b": 2}
    assert plan.needed == frozenset(), "what is there of no use to it may go"


def test_where_no_zone_takes_all_nothing_is_started_and_all_are_told() -> None:
    plan = planned(members(6), groups=(seen.group(zone="a", maximum=1), seen.group(zone="b", maximum=1)))
    assert plan.launches == ()
    assert len(plan.unserved[0].pods) == 6
    want = "no zone takes all 6 pods of Job train: at most 3, with what would be started; the group has 1 of at most 1"
    assert want in told(plan)


def test_without_any_group_that_is_said() -> None:
    assert "no zone takes all 1 pods of Job train: at most 0, with what would be started" in told(
        planned(members(1), groups=())
    )


def test_a_party_that_is_not_whole_yet_waits_and_wakes_us() -> None:
    young = {"creationTimestamp": seen.STAMP}
    plan = planned(members(3, metadata=young), now=seen.NOW + 0.5)
    assert (plan.launches, plan.unserved) == ((), ())
    assert plan.wake_at == seen.NOW + gangs.SETTLE_SECONDS


def test_late_members_are_opened_at_once_into_the_zone_of_the_others() -> None:
    plan = planned([*members(2), opened("train-9", "c")])
    assert [each.zone for each in plan.openings] == ["c", "c"]
    assert [pod.meta.key.name for refused in plan.unserved for pod in refused.pods] == ["train-9"]


def test_a_late_member_that_selects_its_own_zone_keeps_it() -> None:
    (opening,) = planned([member("t", nodeSelector={keys.ZONE: "b"}), opened("train-9", "a")]).openings
    assert opening.zone == "b"


def test_parties_that_only_fit_one_after_the_other_are_taken_in_their_order() -> None:
    pods = [*members(6, "second"), *members(6, "first", priority=1)]
    plan = planned(pods, ceilings=Ceilings(nodes=3))
    assert grown(plan) == {"a": 2}
    assert {pod.meta.controller.name for launch in plan.launches for pod in launch.pods if pod.meta.controller} == {
        "first"
    }
    assert "the cluster has 3 of at most 3 nodes" in told(plan)


def test_a_limit_that_zones_share_is_spent_once() -> None:
    groups = (seen.group(zone="a", maximum=2), seen.group(zone="b", maximum=2))
    pods = [*members(6, "first"), *members(6, "second")]
    assert grown(planned(pods, groups=groups)) == {"a": 2, "b": 2}
    for ceilings in (Ceilings(nodes=3), Ceilings(cpu_millis=12_000)):
        plan = planned(pods, groups=groups, ceilings=ceilings)
        assert grown(plan) == {"a": 2}
        assert plan.wake_at is None, "nobody else is in its way"


def test_the_order_of_a_scopes_pools_comes_before_the_number_of_instances() -> None:
    groups = (seen.group(pool="big", zone="a", kind="m5.4xlarge"), seen.group(pool="own", zone="b"))
    scope = ScopeSpec.model_validate({"pools": [{"name": "own", "priority": 2}, {"name": "big", "priority": 1}]})
    plan = planned(
        members(6),
        groups=groups,
        pools={"own": seen.pool(), "big": seen.pool()},
        scopes={"research": scope},
        namespaces={"default": {keys.SCOPE: "research"}},
    )
    assert grown(plan) == {"b": 2}


@pytest.mark.parametrize("limits", [{"targetLatencySeconds": 86_400}, {"targetMaxSecondsPerMonth": 10**9}])
def test_pods_that_only_work_together_do_not_wait_for_one_another(limits: dict[str, Any]) -> None:
    scope = ScopeSpec.model_validate({"pools": [{"name": "workers", "limits": limits}]})
    plan = planned(members(6), scopes={"research": scope}, namespaces={"default": {keys.SCOPE: "research"}})
    assert grown(plan) == {"a": 2}


def test_a_scopes_budget_that_is_not_enough_for_all_holds_all_back() -> None:
    scope = ScopeSpec.model_validate(
        {"pools": [{"name": "workers", "limits": {"targetMaxSecondsPerMonth": 1}}]},
    )
    plan = planned(members(6), scopes={"research": scope}, namespaces={"default": {keys.SCOPE: "research"}})
    assert plan.launches == ()
    assert len(plan.unserved[0].pods) == 6
    assert " pods of Job train: at most " in told(plan)


def test_one_that_others_leave_too_little_for_is_left_out_as_a_whole_and_looked_at_again() -> None:
    plain = [seen.pod(f"p-{number}", cpu="3") for number in range(2)]
    plan = planned([*plain, *members(6)], groups=(seen.group(zone="a", maximum=3),))
    hoping = {pod.meta.key.name for launch in plan.launches for pod in launch.pods}
    assert hoping == {"p-0", "p-1"}
    assert len(plan.unserved[0].pods) == 6
    assert plan.wake_at == seen.NOW + colocation.AGAIN_SECONDS


# Whatever there is


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    zones = ["a", "b", "c"]
    pods: list[objects.Pod] = []
    for owner in draw(st.lists(st.sampled_from(["red", "green", "blue"]), unique=True)):
        cpus = draw(st.lists(st.sampled_from(["500m", "1", "2", "3"]), min_size=1, max_size=6))
        pods += [member(f"{owner}-{number}", owner, cpu=cpu) for number, cpu in enumerate(cpus)]
        pods += [opened(f"{owner}-o", draw(st.sampled_from(zones)), owner)] * draw(st.booleans())
    pods += [
        seen.pod(f"p-{n}", cpu=cpu) for n, cpu in enumerate(draw(st.lists(st.sampled_from(["1", "3"]), max_size=4)))
    ]
    nodes, groups, unavailable = [], [], {}
    for zone in zones:
        there = [f"i-{zone}{number}" for number in range(draw(st.integers(0, 2)))]
        nodes += [seen.node(f"n-{name}", instance=name, zone=zone, ready=draw(st.booleans())) for name in there]
        more = draw(st.integers(0, 2))
        groups.append(seen.group(*there, zone=zone, desired=len(there) + more, maximum=draw(st.integers(2, 5))))
        if draw(st.booleans()):
            unavailable[groups[-1].key] = Unavailable(until=seen.NOW + 60, reason="InsufficientCapacity")
    ceilings = Ceilings(nodes=draw(st.none() | st.integers(0, 8)))
    return seen.snapshot(pods=pods, nodes=nodes, groups=tuple(groups), unavailable=unavailable, ceilings=ceilings)


def where(snapshot: Snapshot) -> tuple[Where, Where]:
    """Return where each owner's gated pods are placed, and where those are that may go."""
    found = demand.waiting(snapshot.indexed)
    demands = demand.demands(snapshot, found)
    situation = Situation(
        demands=tuple(demands.values()),
        groups=offers.groups(snapshot),
        rooms=supply.rooms(snapshot),
        asked=supply.asked(snapshot),
        limits=offers.limits(snapshot),
    )
    pods = {made: tuple(found[like]) for like, made in demands.items()}
    together = gangs.gather(snapshot)
    settled = colocation.place(snapshot, situation, pods, policy=POLICY, together=together)
    zone_of = {room.name: room.labels[keys.ZONE] for room in situation.rooms}
    placed, rationed = Where(), settled.rationed
    shares = [(zone_of[each.room], share, 1) for each in rationed.placed.landings for share in each.shares]
    fillings = (*rationed.placed.expected, *rationed.placed.launches)
    shares += [(each.key.zone, share, each.nodes) for each in fillings for share in each.shares]
    for zone, share, nodes in shares:
        first = rationed.pods[share.demand][0]
        if first.gates and first.meta.controller is not None:
            placed.setdefault(first.meta.controller.name, Counter())[zone] += share.count * nodes
    going = Where()
    for opening in settled.openings:
        assert opening.pod.meta.controller is not None
        going.setdefault(opening.pod.meta.controller.name, Counter())[opening.zone] += 1
    return placed, going


@given(snapshots())
def test_a_party_is_never_split_over_zones_nor_placed_or_opened_in_part(snapshot: Snapshot) -> None:
    placed, going = where(snapshot)
    for gang in gangs.gather(snapshot):
        owner = gang.name.removeprefix("Job ")
        for found in (placed.get(owner), going.get(owner)):
            assert found is None or list(found.values()) == [len(gang.pods)]
        if gang.zone is not None:
            assert going[owner] == {gang.zone: len(gang.pods)}
        elif owner in going:
            assert going[owner] == placed[owner]


@given(snapshots())
def test_no_pod_vanishes_and_the_same_picture_gives_the_same_plan(snapshot: Snapshot) -> None:
    plan = decide.decide(snapshot, POLICY)
    despairing = Counter(pod.meta.uid for refused in plan.unserved for pod in refused.pods)
    hoping = Counter(pod.meta.uid for launch in plan.launches for pod in launch.pods)
    assert max((despairing + hoping).values(), default=1) == 1
    for gang in gangs.gather(snapshot):
        uids = {pod.meta.uid for pod in gang.pods}
        assert len(uids & despairing.keys()) in {0, len(uids)}
        assert not (uids & despairing.keys() and uids & hoping.keys())
    backwards = seen.snapshot(
        pods=reversed(list(snapshot.pods.values())),
        nodes=reversed(list(snapshot.nodes.values())),
        groups=tuple(reversed(snapshot.groups)),
        unavailable=snapshot.unavailable,
        ceilings=snapshot.ceilings,
    )
    again = decide.decide(backwards, POLICY)
    assert again.launches == plan.launches
    assert [(each.pod.meta.uid, each.zone) for each in again.openings] == [
        (each.pod.meta.uid, each.zone) for each in plan.openings
    ]
