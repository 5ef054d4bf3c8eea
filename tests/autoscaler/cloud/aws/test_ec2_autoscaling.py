"""What the adapter asks of AWS: pages of a hundred, this cluster's groups alone, nothing twice; on a fake of boto."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_accounts, ec2_autoscaling, ec2_calls
from tests.autoscaler.cloud import documents
from tests.autoscaler.cloud.aws.test_ec2_errors import of_code

QUICK = ec2_calls.Patience(attempts=2, pause_seconds=0.0001)


@dataclass(kw_only=True)
class FakeAws:
    """Answers as told, remembers what it was asked, and fails once where an error stands in for an answer."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_closed: bool = False

    @property
    def autoscaling(self) -> "FakeAws":
        return self

    @property
    def ec2(self) -> "FakeAws":
        return self

    def close(self) -> None:
        self.is_closed = True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.asked.append((name, arguments))
            answer = self.answers[name].pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


def run(aws: FakeAws, test: Callable[[ec2_autoscaling.Ec2AutoScaling], Coroutine[Any, Any, None]]) -> None:
    async def act() -> None:
        cloud = ec2_autoscaling.Ec2AutoScaling(
            ec2_accounts.Account(region="eu-west-1"), cluster=documents.CLUSTER, calls=ec2_calls.Calls(QUICK)
        )
        cloud._clients = aws  # type: ignore[assignment]
        await test(cloud)

    asyncio.run(act())


def page(*groups: Any, token: str | None = None) -> dict[str, Any]:
    return {"AutoScalingGroups": list(groups), **({"NextToken": token} if token else {})}


def test_groups_are_asked_for_by_the_clusters_tags_a_hundred_at_a_time() -> None:
    aws = FakeAws(
        answers={"describe_auto_scaling_groups": [page(documents.group("b"), token="more"), page(documents.group("a"))]}
    )

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        listing = await cloud.groups()
        assert [group.name for group in listing.groups] == ["a", "b"]

    run(aws, test)
    filters = [
        {"Name": f"tag:{keys.cluster_tag(documents.CLUSTER)}", "Values": ["owned"]},
        {"Name": "tag-key", "Values": [keys.TAG_ENABLED]},
    ]
    assert aws.asked == [
        ("describe_auto_scaling_groups", {"Filters": filters, "MaxRecords": 100}),
        ("describe_auto_scaling_groups", {"Filters": filters, "MaxRecords": 100, "NextToken": "more"}),
    ]


@pytest.mark.accept("G16")
def test_a_list_of_which_a_page_fails_is_no_list() -> None:
    broken = of_code("InternalFailure", 500)
    aws = FakeAws(answers={"describe_auto_scaling_groups": [page(documents.group("a"), token="more"), broken, broken]})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        with pytest.raises(port.CloudError) as caught:
            await cloud.groups()
        assert caught.value.reason is port.Reason.UNREACHABLE

    run(aws, test)


def test_a_page_that_fails_once_is_asked_for_again_alone() -> None:
    aws = FakeAws(
        answers={
            "describe_auto_scaling_groups": [
                page(documents.group("a"), token="more"),
                of_code("Throttling"),
                page(documents.group("b")),
            ]
        }
    )

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        assert len((await cloud.groups()).groups) == 2

    run(aws, test)
    assert [arguments.get("NextToken") for _, arguments in aws.asked] == [None, "more", "more"]


def test_pages_that_never_end_are_an_error() -> None:
    endless = [page(token="more") for _ in range(ec2_autoscaling.PAGES_MAX + 1)]
    aws = FakeAws(answers={"describe_auto_scaling_groups": endless})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        with pytest.raises(port.CloudError, match="never ends"):
            await cloud.groups()

    run(aws, test)
    assert len(aws.asked) == ec2_autoscaling.PAGES_MAX


def test_what_a_filter_should_have_left_out_is_left_out() -> None:
    foreign = documents.group("foreign", tagged={keys.TAG_ENABLED: "true", keys.cluster_tag("another"): "owned"})
    bad = documents.group("bad", AvailabilityZones=["eu-west-1a", "eu-west-1b"])
    aws = FakeAws(answers={"describe_auto_scaling_groups": [page(foreign, bad, documents.group("good"))]})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        listing = await cloud.groups()
        assert [group.name for group in listing.groups] == ["good"]
        assert [one.name for one in listing.unusable] == ["bad"]

    run(aws, test)


def test_named_groups_are_asked_for_a_hundred_at_a_time() -> None:
    aws = FakeAws(answers={"describe_auto_scaling_groups": [page(), page()]})
    names = [port.GroupName(f"group-{number:03d}") for number in range(150)]

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        await cloud.groups(names)

    run(aws, test)
    assert [len(arguments["AutoScalingGroupNames"]) for _, arguments in aws.asked] == [100, 50]


def test_nothing_is_sent_to_a_group_or_instance_that_no_reading_showed_to_be_ours() -> None:
    aws = FakeAws(answers={"describe_auto_scaling_groups": [page(documents.group("ours")), page(), page(), page()]})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        [ours] = (await cloud.groups()).groups
        foreign = port.NodeGroup(name=port.GroupName("foreign"), key=ours.key, minimum=0, maximum=5, desired=1)
        stranger = port.InstanceId("i-00000000000000009")
        for outcome in (
            await cloud.set_desired(foreign, 2),
            await cloud.terminate(foreign, stranger, decrement=False),
            await cloud.terminate(ours, stranger, decrement=False),
        ):
            assert outcome.verdict is port.Verdict.NOT_DONE
            assert outcome.error is not None
            assert outcome.error.reason is port.Reason.NOT_FOUND
        with pytest.raises(port.CloudError):
            await cloud.activities(foreign.name, since=0.0)

    run(aws, test)
    assert set(aws.names()) == {"describe_auto_scaling_groups"}


def test_a_landed_write_costs_one_call() -> None:
    aws = FakeAws(
        answers={"describe_auto_scaling_groups": [page(documents.group("ours"))], "set_desired_capacity": [{}]}
    )

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        [ours] = (await cloud.groups()).groups
        outcome = await cloud.set_desired(ours, 2)
        assert outcome == port.Outcome(verdict=port.Verdict.LANDED, group=ours.with_desired(2))

    run(aws, test)
    want = {"AutoScalingGroupName": "ours", "DesiredCapacity": 2, "HonorCooldown": False}
    assert aws.asked[1:] == [("set_desired_capacity", want)]


def test_a_number_outside_of_the_bounds_is_not_even_sent() -> None:
    aws = FakeAws(answers={"describe_auto_scaling_groups": [page(documents.group("ours"))] * 2})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        [ours] = (await cloud.groups()).groups
        outcome = await cloud.set_desired(ours, 6)
        assert outcome.verdict is port.Verdict.NOT_DONE

    run(aws, test)
    assert "set_desired_capacity" not in aws.names()


def test_a_write_without_answer_whose_group_cannot_be_read_either_is_unanswered() -> None:
    broken = of_code("InternalFailure", 500)
    aws = FakeAws(
        answers={
            "describe_auto_scaling_groups": [page(documents.group("ours")), broken, broken],
            "set_desired_capacity": [broken],
        }
    )

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        [ours] = (await cloud.groups()).groups
        outcome = await cloud.set_desired(ours, 2)
        assert (outcome.verdict, outcome.group) == (port.Verdict.UNANSWERED, None)

    run(aws, test)
    assert aws.names().count("set_desired_capacity") == 1


def test_activities_are_read_as_far_back_as_asked() -> None:
    noon = documents.NOON.timestamp()
    old = documents.activity(StartTime=documents.NOON.replace(hour=9))
    aws = FakeAws(
        answers={
            "describe_auto_scaling_groups": [page(documents.group("ours"))],
            "describe_scaling_activities": [
                {"Activities": [documents.activity(ActivityId="2")], "NextToken": "more"},
                {"Activities": [documents.activity(ActivityId="1"), old], "NextToken": "further"},
            ],
        }
    )

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        await cloud.groups()
        found = await cloud.activities(port.GroupName("ours"), since=noon - 60)
        assert [one.id for one in found] == ["2", "1"]

    run(aws, test)
    assert aws.names().count("describe_scaling_activities") == 2


def test_a_numbered_version_of_a_template_is_read_once() -> None:
    version = {"LaunchTemplateData": {"ImageId": "ami-1", "UserData": "eA=="}}
    aws = FakeAws(
        answers={
            "describe_launch_template_versions": [
                {"LaunchTemplateVersions": [version]},
                {"LaunchTemplateVersions": [version]},
                of_code("InvalidLaunchTemplateId.VersionNotFound"),
                {"LaunchTemplateVersions": [version]},
                of_code("InvalidLaunchTemplateId.VersionNotFound"),
            ]
        }
    )
    refs = [port.TemplateRef(id="lt-1", version=version) for version in ("$Latest", "1", "7")]

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        for _ in range(2):
            assert set(await cloud.templates(refs)) == {refs[0], refs[1]}

    run(aws, test)
    asked = [arguments["Versions"] for _, arguments in aws.asked]
    assert sorted(asked) == [["$Latest"], ["$Latest"], ["1"], ["7"], ["7"]]


def test_the_image_behind_a_parameter_is_asked_for_each_time() -> None:
    resolved = {"LaunchTemplateVersions": [{"LaunchTemplateData": {"ImageId": "ami-1"}}]}
    unresolved = {"LaunchTemplateVersions": [{"LaunchTemplateData": {"ImageId": "resolve:ssm:/images/builder"}}]}
    aws = FakeAws(answers={"describe_launch_template_versions": [unresolved, resolved, unresolved]})
    ref = port.TemplateRef(id="lt-1", version="1")

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        assert (await cloud.templates([ref]))[ref].image_id == "resolve:ssm:/images/builder"
        assert await cloud.images([ref]) == {ref: "ami-1"}
        assert await cloud.images([ref]) == {}  # nobody says

    run(aws, test)
    assert [arguments["ResolveAlias"] for _, arguments in aws.asked] == [False, True, True]


def test_lives_are_asked_for_by_filter_so_that_an_unknown_one_spoils_nothing() -> None:
    life = {"InstanceId": "i-1", "LaunchTime": documents.NOON, "State": {"Name": "running"}}
    aws = FakeAws(answers={"describe_instances": [{"Reservations": [{"Instances": [life]}]}]})

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        assert set(await cloud.lives([port.InstanceId("i-1"), port.InstanceId("i-2")])) == {"i-1"}
        assert await cloud.lives([]) == {}

    run(aws, test)
    assert aws.asked == [("describe_instances", {"Filters": [{"Name": "instance-id", "Values": ["i-1", "i-2"]}]})]


def test_closing_closes_the_clients() -> None:
    aws = FakeAws()

    async def test(cloud: ec2_autoscaling.Ec2AutoScaling) -> None:
        await cloud.aclose()

    run(aws, test)
    assert aws.is_closed
