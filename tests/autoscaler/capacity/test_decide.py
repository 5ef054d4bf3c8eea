"""The plan as a whole: the same for the same snapshot, within all bounds, and nothing vanishes."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity import decide
from autoscaler.capacity.model import Policy
from tests.autoscaler.capacity import seen

POLICY = Policy()


def test_waiting_pods_become_launches_and_each_pod_knows_its_group() -> None:
    pods = [seen.pod(f"p-{number}") for number in range(6)]
    plan = decide.decide(seen.snapshot(pods=pods, groups=(seen.group(),)), POLICY)
    (launch,) = plan.launches
    assert (launch.before, launch.after, launch.maximum) == (0, 2, 10)
    assert sum(len(launch.pods) for launch in plan.launches) == 6


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    pods = [seen.pod(f"p-{number}") for number in range(6)]
    assert decide.decide(seen.snapshot(pods=pods, groups=(seen.group(desired=2),)), POLICY).launches == ()


def test_a_free_node_that_pods_will_use_is_needed() -> None:
    plan = decide.decide(seen.snapshot(pods=[seen.pod()], nodes=[seen.node()], groups=(seen.group("i-1"),)), POLICY)
    assert not plan.launches
    assert plan.needed == {"node"}


@given(
    st.lists(st.sampled_from(["500m", "1", "2", "3", "8"]), max_size=40),
    st.integers(0, 6),
    st.integers(0, 4),
    st.permutations(["a", "b", "c"]),
)
def test_no_pod_vanishes_and_no_bound_is_passed(cpus: list[str], maximum: int, most: int, zones: list[str]) -> None:
    pods = [seen.pod(f"p-{number:02d}", cpu=cpu) for number, cpu in enumerate(cpus)]
    groups = tuple(seen.group(zone=zone, maximum=maximum) for zone in zones)
    pools = {"workers": seen.pool(limits={"maxActiveInstances": most})}
    plan = decide.decide(seen.snapshot(pods=pods, groups=groups, pools=pools), POLICY)
    hoping = [pod.meta.uid for launch in plan.launches for pod in launch.pods]
    despairing = [pod.meta.uid for refused in plan.unserved for pod in refused.pods]
    assert sorted(hoping + despairing) == sorted(pod.meta.uid for pod in pods)
    assert all(launch.after <= launch.maximum for launch in plan.launches)
    assert sum(launch.after - launch.before for launch in plan.launches) <= most
    again = decide.decide(seen.snapshot(pods=reversed(pods), groups=tuple(reversed(groups)), pools=pools), POLICY)
    assert again.launches == plan.launches
