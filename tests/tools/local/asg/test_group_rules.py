"""The ASG rules are those that AWS documents and moto does not keep."""

from xml.etree import ElementTree as ET

import pytest

from tools.local.asg import asg_wire, group_rules
from tools.local.asg.group_rules import Group, Launched, Member, Watched

PENDING_SECONDS = 10.0


def group(*members: Member, minimum: int = 1, maximum: int = 3) -> Group:
    return Group(
        name="g",
        minimum=minimum,
        maximum=maximum,
        desired=len(members),
        zone="eu-west-1b",
        template_id="lt-1",
        template_version="1",
        members=members,
        suspended=frozenset(),
    )


def member(identifier: str, *, is_protected: bool = False) -> Member:
    return Member(identifier=identifier, is_protected=is_protected)


@pytest.mark.parametrize(("desired", "word"), [(0, "below min value 1"), (4, "above max value 3")])
def test_desired_stays_within_the_bounds(desired: int, word: str) -> None:
    said = group_rules.check_desired(group(), desired)
    assert said is not None
    assert (said.code, said.status) == ("ValidationError", 400)
    assert word in said.message


@pytest.mark.parametrize("desired", [1, 2, 3])
def test_the_bounds_themselves_are_within(desired: int) -> None:
    assert group_rules.check_desired(group(), desired) is None


@pytest.mark.parametrize(("minimum", "maximum", "desired"), [(2, 1, None), (0, 2, 3), (1, 2, 0)])
def test_contradicting_bounds_are_refused(minimum: int, maximum: int, desired: int | None) -> None:
    assert group_rules.check_bounds(minimum, maximum, desired) is not None


def test_a_decrement_below_the_minimum_is_refused_and_a_replacement_is_not() -> None:
    said = group_rules.check_end(group(), 1, decrement=True)
    assert said is not None
    assert "minSize (1)" in said.message
    assert group_rules.check_end(group(), 1, decrement=False) is None
    assert group_rules.check_end(group(), 2, decrement=True) is None


def test_protection_holds_from_being_in_service_on() -> None:
    members = (member("old", is_protected=True), member("new", is_protected=True), member("open"))
    watched = Watched(desired=0, launched={"new": Launched(95.0, "1"), "old": Launched(5.0, "1")})
    chosen = group_rules.victims(group(*members), watched, now=100.0, pending_seconds=PENDING_SECONDS)
    assert chosen == ("new", "open")


def test_no_more_end_than_are_too_many() -> None:
    watched = Watched(desired=2)
    chosen = group_rules.victims(
        group(member("a"), member("b"), member("c")), watched, now=0.0, pending_seconds=PENDING_SECONDS
    )
    assert chosen == ("a",)


DESCRIBED = """
<member>
  <AutoScalingGroupName>g</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>5</MaxSize>
  <DesiredCapacity>1</DesiredCapacity><AvailabilityZones><member>eu-west-1b</member></AvailabilityZones>
  <LaunchTemplate><LaunchTemplateId>lt-1</LaunchTemplateId><Version>4</Version></LaunchTemplate>
  <SuspendedProcesses><member><ProcessName>Launch</ProcessName></member></SuspendedProcesses>
  <Instances><member>
    <InstanceId>i-1</InstanceId><AvailabilityZone>eu-west-1a</AvailabilityZone>
    <LifecycleState>InService</LifecycleState><ProtectedFromScaleIn>true</ProtectedFromScaleIn>
    <LaunchTemplate><LaunchTemplateId>lt-1</LaunchTemplateId><Version>9</Version></LaunchTemplate>
  </member></Instances>
</member>
"""


def judged(now: float) -> ET.Element:
    found = ET.fromstring(DESCRIBED)  # noqa: S314 - it stands above
    watched = Watched(desired=3, launched={"i-1": Launched(100.0, "3")}, leaving={"i-0": 105.0})
    group_rules.judged(found, watched, now=now, pending_seconds=PENDING_SECONDS)
    return found


def test_a_group_is_read() -> None:
    read = Group.of(ET.fromstring(DESCRIBED))  # noqa: S314
    assert (read.minimum, read.maximum, read.desired, read.zone) == (0, 5, 1, "eu-west-1b")
    assert (read.template_id, read.template_version) == ("lt-1", "4")
    assert read.members == (member("i-1", is_protected=True),)
    assert read.suspended == {"Launch"}


@pytest.mark.parametrize(
    ("now", "want"),
    [(102.0, {"i-1": "Pending", "i-0": "Terminating"}), (107.0, {"i-1": "Pending"}), (111.0, {"i-1": "InService"})],
)
def test_motos_description_is_corrected(now: float, want: dict[str, str]) -> None:
    found = judged(now)
    text = asg_wire.text
    instances = found.findall("Instances/member")
    assert {text(one, "InstanceId"): text(one, "LifecycleState") for one in instances} == want
    assert text(found, "DesiredCapacity") == "3"
    assert text(instances[0], "AvailabilityZone") == "eu-west-1b"
    assert text(instances[0], "LaunchTemplate/Version") == "3", "the version it was launched from"


def test_activities_are_written_newest_first_with_their_state() -> None:
    activities = [
        ("g", group_rules.failed_launch("no capacity", now=100.0)),
        ("g", group_rules.launch("i-1", now=101.0, seconds=10.0)),
    ]
    for now, want in ((105.0, ["InProgress", "Failed"]), (111.0, ["Successful", "Failed"])):
        written = group_rules.described(activities, now=now).findall("Activities/member")
        assert [asg_wire.text(one, "StatusCode") for one in written] == want
    assert asg_wire.text(written[1], "StatusMessage") == "no capacity"
    assert asg_wire.text(written[1], "EndTime").startswith("1970-01-01T00:01:40")
