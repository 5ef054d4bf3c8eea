"""Which Auto Scaling groups are ours is read again and again: nobody restarts anything for a new one."""

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site, tag
from tools.local.groups import GROUP_LABEL

DESCRIBE = "DescribeAutoScalingGroups"
STRANGER = "somebody-else"


@pytest.mark.accept("G6")
def test_new_retagged_and_deleted_groups_are_known_with_the_next_reading_and_foreign_ones_are_left_alone(
    site: Site, start: conftest.Start
) -> None:
    pool, theirs = site.add_pool("found"), site.add_pool("theirs", limits__maxIdleSeconds=0)
    old, gone = site.add_group(pool), site.add_group(pool, zone="b")
    foreign = site.add_group(theirs, sizes=(0, 1, 5), cluster=STRANGER)
    site.wait_nodes(1)
    runtime = start()
    site.wait_known(old, gone)
    new = site.add_group(pool, zone="c", labels={"tier": "old"})
    site.autoscaling.create_or_update_tags(Tags=[tag(new, f"{keys.TAG_TEMPLATE_LABEL}tier", "new")])
    site.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=gone)
    site.autoscaling.create_or_update_tags(Tags=[tag(old, f"{keys.TAG_TEMPLATE_LABEL}tier", "retagged")])
    site.add_pod("wakes", nodeSelector={GROUP_LABEL: old})  # after a launch the account is read within seconds
    site.wait_known(new)
    assert site.group_status(pool, old)["labels"]["tier"] == "retagged"
    assert site.group_status(pool, new)["labels"]["tier"] == "new"
    assert not site.group_status(pool, gone), "one reading tells all three"
    site.add_pod("by-new-tag", nodeSelector={"tier": "new"})
    site.wait_bound("by-new-tag", "wakes")
    assert site.group_of("by-new-tag") == new
    give_away(site, old)
    site.delete_pods("wakes")  # idle, but no longer ours
    site.add_pod("wakes-again", nodeSelector={"tier": "new"})
    waiting.eventually(lambda: not site.group_status(pool, old), within_seconds=30)
    site.add_pod("not-there", nodeSelector={"tier": "retagged"}, cpu="1900m")
    site.wait_bound("wakes-again")
    assert site.desired() == {foreign: 1, old: 1, new: 2}
    assert not site.status(theirs).get("nodeGroups")
    assert runtime.process.poll() is None


def give_away(site: Site, group: str) -> None:
    site.autoscaling.create_or_update_tags(Tags=[tag(group, keys.cluster_tag(STRANGER), "owned")])
    site.autoscaling.delete_tags(Tags=[tag(group, keys.cluster_tag(site.cluster), "owned")])


@pytest.mark.accept("G6")
def test_a_reading_of_many_groups_takes_one_call_per_hundred(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("many")
    kinds = ["m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge", "c5.large", "c5.xlarge", "c5.2xlarge"]
    kinds += ["r5.large", "r5.xlarge", "r5.2xlarge", "c5.4xlarge", "r5.4xlarge"]
    made = [site.add_group(pool, zone=zone, kind=kind) for kind in kinds for zone in "abc"]
    for number in range(3):
        more = site.add_pool(f"more-{number}")
        made += [site.add_group(more, zone=zone, kind=kind) for kind in kinds for zone in "abc"]
    assert len(made) > 100
    before = site.asg_rules.calls[DESCRIBE]
    start()
    site.wait_known(*made)
    assert site.asg_rules.calls[DESCRIBE] - before == -(-len(made) // 100)
