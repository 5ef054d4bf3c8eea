"""Amazon EC2 Auto Scaling: one account in one region, seen by one cluster.

Reads are paged by the hundred, whole or an error. Writes go to groups that the last reading showed to be ours, and
are sent once. It decides nothing and keeps nothing but what never changes: numbered versions of launch templates.
"""

import asyncio
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from autoscaler.api import keys
from autoscaler.cloud import catalogue, port, writes
from autoscaler.cloud.aws import ec2_accounts, ec2_calls, ec2_documents

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import type_defs as asg
    from mypy_boto3_ec2 import type_defs as ec2

T = TypeVar("T")
PAGE: Final = 100
"""AWS describes so many groups, activities or instances in one call."""
PAGES_MAX: Final = 100
"""More pages than any account has groups for: beyond them the paging itself is broken."""
ACTIVITY_PAGES_MAX: Final = 5


class Token(TypedDict, total=False):
    """The argument that asks for a further page."""

    NextToken: str


class Ec2AutoScaling:
    """The port on AWS. To be made within the event loop; close it when done."""

    def __init__(self, account: ec2_accounts.Account, *, cluster: str, calls: ec2_calls.Calls | None = None) -> None:
        self._clients = ec2_accounts.Clients(account)
        self._cluster = cluster
        self._calls = calls or ec2_calls.Calls()
        self._ours: dict[port.GroupName, frozenset[port.InstanceId]] = {}
        """The groups that were ours at the last reading, with their instances: nothing else is written to."""
        self._templates: dict[port.TemplateRef, port.Template] = {}

    async def groups(self, names: Collection[port.GroupName] | None = None) -> port.Listing:
        if names is None:
            found = await self._all_groups()
            self._ours = {}
        else:
            found = await self._named_groups(sorted(names))
            for name in names:
                self._ours.pop(name, None)
        read = [ec2_documents.node_group(group) for group in found if ec2_documents.is_owned(group, self._cluster)]
        groups = {group.name: group for group in read if isinstance(group, port.NodeGroup)}
        self._ours |= {name: frozenset(one.id for one in group.instances) for name, group in groups.items()}
        unusable = {one.name: one for one in read if isinstance(one, port.Unusable)}
        return port.Listing(groups=_in_order(groups), unusable=_in_order(unusable))

    async def set_desired(self, group: port.NodeGroup, desired: int) -> port.Outcome:
        def call() -> None:
            self._clients.autoscaling.set_desired_capacity(
                AutoScalingGroupName=group.name, DesiredCapacity=desired, HonorCooldown=False
            )

        async def send() -> None:
            self._check_ours(group.name)
            await self._calls.write(f"SetDesiredCapacity of {group.name} to {desired}", call)

        return await writes.set_desired(self, group, desired, send)

    async def terminate(self, group: port.NodeGroup, instance: port.InstanceId, *, decrement: bool) -> port.Outcome:
        def call() -> None:
            self._clients.autoscaling.terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=decrement
            )

        async def send() -> None:
            self._check_ours(group.name, instance)
            await self._calls.write(f"TerminateInstanceInAutoScalingGroup of {instance} in {group.name}", call)

        return await writes.terminate(self, group, instance, decrement=decrement, send=send)

    async def activities(self, group: port.GroupName, *, since: float) -> tuple[port.Activity, ...]:
        self._check_ours(group)
        found: list[port.Activity] = []
        token = Token()
        for _ in range(ACTIVITY_PAGES_MAX):
            page = await self._activity_page(group, token)
            read = [ec2_documents.activity(one) for one in page["Activities"]]
            found += [one for one in read if one.started_at >= since]
            token = _next(page)
            if not token or any(one.started_at < since for one in read):
                break
        return tuple(sorted(found, key=lambda one: (one.started_at, one.id), reverse=True))

    async def lives(self, instances: Collection[port.InstanceId]) -> Mapping[port.InstanceId, port.InstanceTimes]:
        found: dict[port.InstanceId, port.InstanceTimes] = {}
        for some in _by_the(PAGE, sorted(instances)):
            for one in await self._described(some):
                found[port.InstanceId(one["InstanceId"])] = ec2_documents.life(one)
        return found

    async def templates(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, port.Template]:
        wanted = sorted(set(templates))
        unknown = [ref for ref in wanted if ref not in self._templates]
        read = dict(zip(unknown, await asyncio.gather(*[self._template(ref) for ref in unknown]), strict=True))
        found = {ref: one for ref, one in read.items() if one is not None}
        self._templates |= {ref: one for ref, one in found.items() if ref.version.isdecimal()}
        return {ref: one for ref in wanted if (one := found.get(ref) or self._templates.get(ref)) is not None}

    async def images(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, str]:
        wanted = sorted(set(templates))
        read = zip(wanted, await asyncio.gather(*[self._template(ref, resolved=True) for ref in wanted]), strict=True)
        return {ref: one.image_id for ref, one in read if one is not None and one.image_id.startswith("ami-")}

    async def instance_types(self, names: Collection[str]) -> Mapping[str, catalogue.InstanceType]:
        """Return those of these types that EC2 has and nodes of ours can be; raise CloudError."""
        found: dict[str, catalogue.InstanceType] = {}
        for some in _by_the(PAGE, sorted(names)):
            for one in await self._described_types(some):
                kind = ec2_documents.instance_type(one)
                found |= {kind.name: kind} if kind is not None else {}
        return found

    async def aclose(self) -> None:
        self._clients.close()

    def _check_ours(self, name: port.GroupName, instance: port.InstanceId | None = None) -> None:
        """Raise CloudError for what the last reading did not show to be this cluster's."""
        if name not in self._ours:
            raise port.CloudError(
                port.Reason.NOT_FOUND,
                f"nothing was asked of {name}: it is not among the node groups tagged for cluster {self._cluster}",
            )
        if instance is not None and instance not in self._ours[name]:
            raise port.CloudError(
                port.Reason.NOT_FOUND,
                f"nothing was asked of {instance}: {name} had no such instance when it was last read; read it again",
            )

    async def _all_groups(self) -> "list[asg.AutoScalingGroupTypeDef]":
        def call(token: Token) -> "asg.AutoScalingGroupsTypeTypeDef":
            return self._clients.autoscaling.describe_auto_scaling_groups(
                Filters=[
                    {"Name": f"tag:{keys.cluster_tag(self._cluster)}", "Values": [ec2_documents.OWNED]},
                    {"Name": "tag-key", "Values": [keys.TAG_ENABLED]},
                ],
                MaxRecords=PAGE,
                **token,
            )

        what = f"DescribeAutoScalingGroups of cluster {self._cluster}"
        return [group for page in await self._pages(what, call) for group in page["AutoScalingGroups"]]

    async def _named_groups(self, names: Sequence[str]) -> "list[asg.AutoScalingGroupTypeDef]":
        found: list[asg.AutoScalingGroupTypeDef] = []
        for some in _by_the(PAGE, names):

            def call(some: Sequence[str] = some) -> "asg.AutoScalingGroupsTypeTypeDef":
                return self._clients.autoscaling.describe_auto_scaling_groups(
                    AutoScalingGroupNames=some, MaxRecords=PAGE
                )

            found += (await self._calls.read(f"DescribeAutoScalingGroups of {', '.join(some)}", call))[
                "AutoScalingGroups"
            ]
        return found

    async def _activity_page(self, group: port.GroupName, token: "Token") -> "asg.ActivitiesTypeTypeDef":
        def call() -> "asg.ActivitiesTypeTypeDef":
            return self._clients.autoscaling.describe_scaling_activities(
                AutoScalingGroupName=group, MaxRecords=PAGE, **token
            )

        return await self._calls.read(f"DescribeScalingActivities of {group}", call)

    async def _described(self, instances: Sequence[str]) -> "list[ec2.InstanceTypeDef]":
        """Ask by filter, for an unknown id would fail the whole call."""

        def call(token: Token) -> "ec2.DescribeInstancesResultTypeDef":
            return self._clients.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": instances}], **token)

        pages = await self._pages(f"DescribeInstances of {len(instances)} instances", call)
        return [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]

    async def _described_types(self, names: Sequence[str]) -> "list[ec2.InstanceTypeInfoTypeDef]":
        """Ask by filter, for an unknown name would fail the whole call."""

        def call(token: Token) -> "ec2.DescribeInstanceTypesResultTypeDef":
            return self._clients.ec2.describe_instance_types(
                Filters=[{"Name": "instance-type", "Values": names}], **token
            )

        pages = await self._pages(f"DescribeInstanceTypes of {len(names)} types", call)
        return [one for page in pages for one in page["InstanceTypes"]]

    async def _pages(self, what: str, call: "Callable[[Token], T]") -> list[T]:
        """Read page after page; if one cannot be read there is none."""
        pages: list[T] = []
        token = Token()
        for _ in range(PAGES_MAX):
            pages.append(await self._calls.read(what, functools.partial(call, token)))
            token = _next(pages[-1])
            if not token:
                return pages
        raise port.CloudError(port.Reason.UNREACHABLE, f"{what} has more than {PAGES_MAX} pages: it never ends")

    async def _template(self, ref: port.TemplateRef, *, resolved: bool = False) -> port.Template | None:
        def call() -> "ec2.DescribeLaunchTemplateVersionsResultTypeDef":
            return self._clients.ec2.describe_launch_template_versions(
                LaunchTemplateId=ref.id, Versions=[ref.version], ResolveAlias=resolved
            )

        try:
            answer = await self._calls.read(f"DescribeLaunchTemplateVersions of {ref.id} {ref.version}", call)
        except port.CloudError as error:
            if error.reason is port.Reason.NOT_FOUND:
                return None
            raise
        return next((ec2_documents.template(one) for one in answer["LaunchTemplateVersions"]), None)


def _next(page: Any) -> Token:  # noqa: ANN401 - a page of whatever
    """Return the argument that asks for the next page; empty if there is none."""
    token = page.get("NextToken")
    return Token(NextToken=token) if token else Token()


def _by_the(size: int, items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _in_order(found: Mapping[port.GroupName, T]) -> tuple[T, ...]:
    return tuple(one for _, one in sorted(found.items()))
