"""AWS has no capacity, is throttled or breaks down: pods get instances elsewhere or later, and never two for one."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.e2e import waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site
from tools.local.asg.asg_orders import Trouble

SET = "SetDesiredCapacity"


@contextlib.contextmanager
def counted(site: Site) -> Iterator[dict[str, int]]:
    """Count calls of the block."""
    before, made = dict(site.asg_rules.calls), dict[str, int]()
    yield made
    made |= {action: count - before.get(action, 0) for action, count in site.asg_rules.calls.items()}


def test_a_shortage_sends_pods_to_the_next_offering_and_leaves_nothing_behind(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("short")
    a, b, c = (site.add_group(pool, zone=zone) for zone in "abc")
    site.asg_rules.orders.withhold(zone=site.zone("a"), instance_type="m5.large")
    site.asg_rules.orders.stop_offering(zone=site.zone("b"), instance_type="m5.large")
    start()
    site.wait_known(a, b, c)
    for number in range(3):
        site.add_pod(f"pod-{number}")
    site.wait_bound()
    assert {site.group_of(f"pod-{number}") for number in range(3)} == {c}
    assert site.desired() == {c: 3}, "what the others were asked for was taken back"
    assert site.instances() == {"running": 3}
    told = {group: site.group_status(pool, group) for group in (a, b)}
    asked = {group for group, status in told.items() if status.get("unavailableUntil")}
    assert asked, "one of them was tried first"
    for group, words in ((a, "do not have sufficient m5.large capacity"), (b, "not supported")):
        assert group not in asked or words in told[group]["reason"]


def test_with_a_shortage_everywhere_pods_learn_it_and_nothing_stays_asked_for(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("dry")
    made = [site.add_group(pool, zone=zone) for zone in "ab"]
    for zone in "ab":
        site.asg_rules.orders.withhold(zone=site.zone(zone), instance_type="m5.large")
    start()
    site.wait_known(*made)
    site.add_pod("waits")
    site.wait_told("waits", "NotTriggerScaleUp", "m5.large")
    waiting.eventually(lambda: site.desired() == {})
    assert not site.instances()
    assert all(site.group_status(pool, group)["reason"] for group in made)


def test_a_launch_that_goes_wrong_on_the_way_ends_in_one_instance(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("wrong")
    group = site.add_group(pool)
    start()
    site.wait_known(group)
    for number, trouble in enumerate((Trouble.THROTTLE, Trouble.LOSE_ANSWER), 1):
        site.asg_rules.orders.add(trouble, SET, times=1)
        with counted(site) as calls:
            site.add_pod(f"pod-{number}")
            site.wait_bound(f"pod-{number}")
        assert site.desired() == {group: number}
        assert site.instances() == {"running": number}
        assert calls[SET] <= 2, trouble


@pytest.mark.accept("R4")
def test_an_aws_that_answers_nothing_whole_is_asked_seldom_and_all_goes_on_when_it_is_back(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("outage", limits__maxIdleSeconds=0)
    group = site.add_group(pool, sizes=(0, 2, 5))
    works, idle = site.wait_nodes(2)
    site.add_pod("stays", nodeName=works)
    runtime = start()
    waiting.eventually(lambda: site.marked() == {idle})
    for trouble in (Trouble.UNAVAILABLE, Trouble.THROTTLE, Trouble.TRUNCATE, Trouble.LOSE_REQUEST):
        site.asg_rules.orders.add(trouble, times=2)
    with counted(site) as calls:
        site.add_pod("pod", cpu="1")
        site.wait_bound("pod")
        waiting.eventually(lambda: site.asg_rules.orders.next("nothing") is None)  # all orders are done
    assert sum(calls.values()) <= 40, calls
    assert runtime.is_ready()
    waiting.eventually(lambda: not site.marked(), within_seconds=30)
    assert site.bound()["stays"] == works
    assert site.desired() == {group: 2}
    assert site.instances()["running"] == 2


@pytest.mark.accept("G27")
def test_capacity_that_never_comes_is_given_up_and_what_cannot_be_read_is_told(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("mute", registrationTimeoutSeconds=30)
    a, b = (site.add_group(pool, zone=zone) for zone in "ab")
    for zone in "ab":
        site.asg_rules.orders.withhold(zone=site.zone(zone), instance_type="m5.large")
    for action in ("DescribeScalingActivities", "DescribeLaunchTemplateVersions"):
        site.asg_rules.orders.add(Trouble.DENY, action, times=None)
    runtime = start()
    site.wait_known(a, b)
    site.add_pod("pod")
    waiting.eventually(lambda: len(site.desired()) == 1)
    (first,) = site.desired()
    told = "why it lacks instances cannot be read: DescribeScalingActivities"
    waiting.eventually(lambda: told in _ready(site, pool)["message"])
    assert site.desired() == {first: 1}, "nobody says yet that it will not come"
    site.asg_rules.orders.relieve()
    site.asg_rules.orders.withhold(zone=site.zone("a" if first == a else "b"), instance_type="m5.large")
    site.wait_bound("pod")
    (second,) = {a, b} - {first}
    assert site.desired() == {second: 1}, "what never came was taken back"
    (overdue,) = runtime.entries("launch_overdue")
    assert overdue["group"] == first
    assert f"{first}: 1 instances did not come within 30 s" in _ready(site, pool)["message"]
    assert _ready(site, pool)["status"] == "True"
    site.asg_rules.orders.clear()
    assert site.instances() == {"running": 1}


def _ready(site: Site, pool: str) -> dict[str, str]:
    conditions = site.status(pool)["conditions"]
    return next(each for each in conditions if each["type"] == "Ready")
