"""Targets and budgets of scopes: pools serve in order, the rest flows on, and who waits for a slot is told so."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.api.resources.types import Taint, TaintEffect
from autoscaler.capacity import decide
from autoscaler.capacity.model import Limit, LimitKind, Policy, Reason
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.records import accounting
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

WHOLE = "3"
"""A pod that asks for so much has an m5.xlarge to itself."""
BOOT_SECONDS = 120


def scope(**pools: dict[str, Any]) -> ScopeSpec:
    """A scope with these pools and their limits, the first one first."""
    entries = [
        {"name": name, "priority": -number, "limits": limits} for number, (name, limits) in enumerate(pools.items())
    ]
    return ScopeSpec.model_validate({"pools": entries})


def jobs(count: int, *, cpu: str = WHOLE, **spec: Any) -> list[objects.Pod]:
    return [seen.pod(f"job-{cpu}-{number:03d}", cpu=cpu, owner="Job", **spec) for number in range(count)]


def snapshot(spec: ScopeSpec, pods: list[objects.Pod], groups: tuple[Any, ...], **more: Any) -> Snapshot:
    pools = {group.key.pool: seen.pool() for group in groups}
    return seen.snapshot(
        **{
            "pods": pods,
            "groups": groups,
            "pools": pools,
            "scopes": {"team": spec},
            "namespaces": {"default": {keys.SCOPE: "team"}},
            **more,
        }
    )


def launched(plan: Plan) -> dict[str, int]:
    found: dict[str, int] = {}
    for launch in plan.launches:
        found[launch.key.pool] = found.get(launch.key.pool, 0) + launch.after - launch.before
    return found


def told(plan: Plan) -> dict[Reason, int]:
    found: dict[Reason, int] = {}
    for refused in plan.unserved:
        for reason in {each.reason for each in refused.rejections}:
            found[reason] = found.get(reason, 0) + len(refused.pods)
    return found


def plan(spec: ScopeSpec, pods: list[objects.Pod], groups: tuple[Any, ...], **more: Any) -> Plan:
    return decide.decide(snapshot(spec, pods, groups, **more), Policy())


TWO_EACH = {"targetLatencySeconds": BOOT_SECONDS + 600}
"""While no pod has ended: one at once, and one 600 seconds later."""


def test_half_the_instances_serve_pods_of_which_each_slot_serves_two() -> None:
    got = plan(scope(workers=TWO_EACH), jobs(20), (seen.group(maximum=100),))
    assert launched(got) == {"workers": 10}
    assert told(got) == {Reason.PATIENCE: 10}
    assert sum(len(launch.pods) for launch in got.launches) == 10


def test_a_second_look_starts_nothing() -> None:
    assert launched(plan(scope(workers=TWO_EACH), jobs(20), (seen.group(maximum=100, desired=10),))) == {}


def with_running(*ages: float, owner: str = "Job", waiting: int = 20) -> Plan:
    """Plan for pods that wait, beside pods that have run for so long, each on a node of its own."""
    names = range(len(ages))
    nodes = [seen.node(f"n-{each}", instance=f"i-{each}", labels={keys.INSTANCE_POOL: "workers"}) for each in names]
    began = [{"startTime": clock.to_rfc3339(seen.NOW - age)} for age in ages]
    running = [seen.pod(f"r-{each}", cpu=WHOLE, owner=owner, node=f"n-{each}", status=began[each]) for each in names]
    group = seen.group(*(f"i-{each}" for each in names), maximum=100)
    return plan(scope(workers=TWO_EACH), [*jobs(waiting), *running], (group,), nodes=nodes)


def test_busy_slots_count_from_when_their_pods_should_end() -> None:
    assert launched(with_running(480, 480, 480, 480)) == {"workers": 6}  # two pods each, in 120 and in 720 seconds
    assert launched(with_running(0, 0, 0, 0)) == {"workers": 8}  # one each, in 600 seconds
    assert launched(with_running(600, 5000, 0, 0)) == {"workers": 8}  # it has taken long, and may take as long again
    assert launched(with_running(480, 480, 480, 480, owner="ReplicaSet")) == {"workers": 10}


def test_it_looks_again_when_a_pod_that_others_wait_for_should_have_ended() -> None:
    got = with_running(100, waiting=1)
    assert launched(got) == {}
    assert got.wake_at == seen.NOW + 500
    assert told(got) == {Reason.PATIENCE: 1}


def test_pods_that_have_waited_for_long_get_a_slot_sooner() -> None:
    since = clock.to_rfc3339(seen.NOW - 200)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    old = [seen.pod(f"old-{each}", cpu=WHOLE, owner="Job", status={"conditions": [condition]}) for each in range(4)]
    got = plan(scope(workers=TWO_EACH), [*old, *jobs(4)], (seen.group(maximum=100),))
    assert launched(got) == {"workers": 4}  # for the old ones; each serves a younger one later


@pytest.mark.parametrize("owner", ["ReplicaSet", "RayCluster", ""])
def test_pods_that_may_never_end_do_not_wait(owner: str) -> None:
    pods = [seen.pod(f"p-{number}", cpu=WHOLE, owner=owner) for number in range(8)]
    assert launched(plan(scope(workers=TWO_EACH), pods, (seen.group(maximum=100),))) == {"workers": 8}


def test_what_a_pool_cannot_take_flows_on_to_the_next_with_its_own_target() -> None:
    spec = scope(first=TWO_EACH, second={"targetLatencySeconds": BOOT_SECONDS + 1200})
    groups = (seen.group(pool="first", maximum=20), seen.group(pool="second", maximum=100))
    got = plan(spec, jobs(100), groups)
    assert launched(got) == {"first": 20, "second": 20}  # 40 by the first; three a slot serve the other 60


def test_nothing_flows_on_from_a_pool_that_can_take_all_it_needs() -> None:
    groups = (seen.group(pool="first", maximum=100), seen.group(pool="second", maximum=100))
    assert launched(plan(scope(first=TWO_EACH, second={}), jobs(20), groups)) == {"first": 10}


def test_a_pool_that_takes_none_of_some_pods_does_not_count_them() -> None:
    selects = {"nodeSelector": {keys.INSTANCE_POOL: "second"}}
    groups = (
        seen.group(pool="first", maximum=100),
        seen.group(pool="second", maximum=100, node=cloud.NodeTemplate(labels={keys.INSTANCE_POOL: "second"})),
    )
    got = plan(
        scope(first={"targetLatencySeconds": 100_000}, second={}), [*jobs(2), *jobs(4, cpu="3100m", **selects)], groups
    )
    assert launched(got) == {"first": 1, "second": 4}


def test_what_a_pool_said_to_pods_is_forgotten_when_its_groups_say_something_else() -> None:
    spec, pods = scope(first=TWO_EACH, second=TWO_EACH), jobs(4)
    groups = (seen.group(pool="first"), seen.group(pool="second"))
    off = {"first": seen.pool(enabled=False), "second": seen.pool()}
    tainted = cloud.NodeTemplate(taints=(Taint(key="own", effect=TaintEffect.NO_SCHEDULE),))
    kept_free = (seen.group(pool="first", node=tainted), seen.group(pool="second"))
    assert launched(plan(spec, pods, groups, pools=off)) == {"second": 2}
    assert launched(plan(spec, pods, groups)) == {"first": 2}
    assert launched(plan(spec, pods, groups, pools=off)) == {"second": 2}
    assert launched(plan(spec, pods, kept_free)) == {"second": 2}
    assert launched(plan(spec, pods, groups)) == {"first": 2}


def test_others_are_planned_as_ever() -> None:
    other = [seen.pod(f"o-{number}", cpu=WHOLE, metadata={"namespace": "other"}) for number in range(3)]
    got = plan(scope(workers=TWO_EACH), [*jobs(4), *other], (seen.group(maximum=100),))
    assert launched(got) == {"workers": 5}


def test_a_scopes_budget_lets_it_start_so_many_instances_and_the_rest_flows_on() -> None:
    life = 600 + 3600  # a pod, and the time that an instance may be idle
    spec = scope(first={"targetMaxSecondsPerMonth": 3 * life + 1}, second={})
    groups = (seen.group(pool="first", maximum=100), seen.group(pool="second", maximum=4))
    got = plan(spec, jobs(10), groups)
    assert launched(got) == {"first": 3, "second": 4}
    assert told(got)[Reason.AT_MAXIMUM] == 3


def test_a_budget_that_is_committed_is_told_with_its_numbers() -> None:
    got = plan(scope(workers={"targetMaxSecondsPerMonth": 10}), jobs(2), (seen.group(),))
    assert launched(got) == {}
    (refused,) = got.unserved
    numbers = refused.rejections[0].numbers
    assert isinstance(numbers, Limit)
    assert (numbers.kind, numbers.scope, numbers.pool, numbers.most) == (LimitKind.SCOPE_SECONDS, "team", "workers", 10)


def test_a_budget_holds_for_pods_that_never_end_too() -> None:
    pods = [*jobs(5), *(seen.pod(f"d-{number}", cpu=WHOLE, owner="ReplicaSet") for number in range(5))]
    got = plan(scope(workers={"targetMaxSecondsPerMonth": 3 * 4200}), pods, (seen.group(maximum=100),))
    assert launched(got) == {"workers": 3}


def test_short_pods_need_fewer_slots() -> None:
    known = {accounting.ScopePool("team", "workers"): accounting.Durations(mean_seconds=60, samples=9)}
    got = plan(scope(workers=TWO_EACH), jobs(22), (seen.group(maximum=100),), durations=known)
    assert launched(got) == {"workers": 2}


def test_an_ephemeral_pool_has_a_slot_for_each() -> None:
    pools = {"workers": seen.pool(ephemeral=True)}
    assert launched(plan(scope(workers=TWO_EACH), jobs(6), (seen.group(maximum=100),), pools=pools)) == {"workers": 6}


LIMITS = st.fixed_dictionaries(
    {},
    optional={"targetLatencySeconds": st.integers(0, 5000), "targetMaxSecondsPerMonth": st.integers(0, 60_000)},
)


@given(
    st.lists(LIMITS, min_size=1, max_size=3),
    st.lists(st.sampled_from(["1", "2", "3", "64"]), max_size=25),
    st.lists(st.integers(0, 8), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_no_pod_vanishes_no_bound_is_passed_and_no_look_is_needed_twice(
    limits: list[dict[str, int]], cpus: list[str], sizes: list[int], urgent: int
) -> None:
    spec = scope(**{f"pool{number}": each for number, each in enumerate(limits)})
    pods = [seen.pod(f"p-{number:02d}", cpu=cpu, owner="Job") for number, cpu in enumerate(cpus)]
    pods += [seen.pod(f"u-{number:02d}", cpu="2", owner="ReplicaSet") for number in range(urgent)]
    groups = tuple(seen.group(pool=f"pool{number}", maximum=size) for number, size in enumerate(sizes))
    got = plan(spec, pods, groups)
    hoping = [pod.meta.uid for launch in got.launches for pod in launch.pods]
    despairing = [pod.meta.uid for refused in got.unserved for pod in refused.pods]
    assert sorted(hoping + despairing) == sorted(pod.meta.uid for pod in pods)
    assert all(refused.rejections for refused in got.unserved)
    assert all(launch.after <= launch.maximum for launch in got.launches)
    for number, each in enumerate(limits):
        budget = each.get("targetMaxSecondsPerMonth")
        assert budget is None or launched(got).get(f"pool{number}", 0) * (600 + 3600) <= budget
    grown = {launch.key.pool: launch.after for launch in got.launches}
    after = tuple(
        seen.group(pool=f"pool{number}", maximum=size, desired=grown.get(f"pool{number}", 0))
        for number, size in enumerate(sizes)
    )
    without_budgets = [{key: value for key, value in each.items() if "Month" not in key} for each in limits]
    if limits == without_budgets and len(set(cpus)) <= 1 and not urgent:  # slots are alike
        assert launched(plan(spec, pods, after)) == {}
