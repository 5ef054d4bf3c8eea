"""What moto is told and what its answers become, so that clients see AWS's documented rules. One call at a time.

moto does what it is told, so it is told only what AWS would really do: the desired capacity is kept here, launches
happen as capacity allows, ends as protection allows, and activities are answered for. All else goes through.
"""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping
from xml.etree import ElementTree as ET

import aiohttp
from aiohttp import web

from tools.local.asg import asg_orders, asg_wire, group_rules
from tools.local.asg.asg_wire import Answer, Call
from tools.local.asg.group_rules import Group, Launched, Watched

TICK_SECONDS = 0.1
_HOP_BY_HOP = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive", "date", "server"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take."""

    pending_seconds: float = 0.5
    """From a launch to InService."""
    terminating_seconds: float = 0.5
    """How long an ended instance is still listed."""
    retry_seconds: float = 1.0
    """From a failed launch to the next attempt."""
    hang_seconds: float = 60.0


class Moto:
    """The server behind the ASG rules."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def forward(self, request: web.Request, body: bytes) -> Answer:
        """Hand a request through as it is."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        return await self._send(request.method, str(request.rel_url), headers, body)

    async def ask(self, service: str, region: str, action: str, parameters: Mapping[str, str | int]) -> Answer:
        """Ask for something on our own account."""
        headers = {
            "Authorization": asg_wire.authorization(region, service),
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
            "Accept-Encoding": "identity",
        }
        body = asg_wire.form(action, parameters)
        if service == "ec2":
            body = body.replace(b"Version=2011-01-01", b"Version=2016-11-15")
        return await self._send("POST", "/", headers, body)

    async def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        async with self._session.request(method, self._url + path, headers=headers, data=body) as response:
            content_type = response.headers.get("Content-Type", asg_wire.XML_TYPE)
            return Answer(status=response.status, body=await response.read(), content_type=content_type)


class Judge:
    """Knows what moto does not, and decides what moto is told. One call at a time."""

    def __init__(self, moto: Moto, orders: asg_orders.Orders, pace: Pace) -> None:
        self._moto = moto
        self._orders = orders
        self._pace = pace
        self._lock = asyncio.Lock()
        self._watched: dict[tuple[str, str], Watched] = {}
        self._types: dict[tuple[str, str], str] = {}
        self._rules: Mapping[str, Callable[[Call, web.Request, bytes], Awaitable[Answer]]] = {
            "DescribeAutoScalingGroups": self._describe,
            "DescribeScalingActivities": self._activities,
            "SetDesiredCapacity": self._set_desired,
            "TerminateInstanceInAutoScalingGroup": self._terminate,
            "CreateAutoScalingGroup": self._create,
            "UpdateAutoScalingGroup": self._update,
            "DeleteAutoScalingGroup": self._delete,
        }

    async def answer(self, call: Call, request: web.Request, body: bytes) -> Answer:
        rule = self._rules.get(call.action) if call.service == "autoscaling" else None
        if rule is None:
            return await self._moto.forward(request, body)
        async with self._lock:
            return await rule(call, request, body)

    async def keep_trying(self) -> None:
        """Try failed launches again, as groups do by themselves."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            due = [key for key, one in self._watched.items() if one.retry_at is not None and one.retry_at <= _now()]
            for region, name in due:
                async with self._lock:
                    await self._settle_named(region, name)

    # The rules

    async def _describe(self, call: Call, request: web.Request, body: bytes) -> Answer:
        answer = await self._moto.forward(request, body)
        if answer.status != 200:
            return answer
        root = asg_wire.parse(answer.body)
        for found in asg_wire.groups_of(root):
            watched = self._watch(call.region, Group.of(found))
            group_rules.judged(found, watched, now=_now(), pending_seconds=self._pace.pending_seconds)
        return dataclasses.replace(answer, body=asg_wire.written(root))

    async def _activities(self, call: Call, request: web.Request, body: bytes) -> Answer:  # noqa: ARG002
        name = call.get("AutoScalingGroupName")
        found = [
            (group, one)
            for (region, group), watched in self._watched.items()
            if region == call.region and name in {None, group}
            for one in watched.activities
        ]
        newest = sorted(found, key=lambda one: one[1].started_at, reverse=True)[: call.number("MaxRecords") or 100]
        return asg_wire.answer(call.action, group_rules.described(newest, now=_now()))

    async def _set_desired(self, call: Call, request: web.Request, body: bytes) -> Answer:  # noqa: ARG002
        name, desired = call.get("AutoScalingGroupName") or "", call.number("DesiredCapacity") or 0
        group = await self._group(call.region, name)
        said = group_rules.no_group(name) if group is None else group_rules.check_desired(group, desired)
        if said is not None or group is None:
            return asg_wire.refusal(call.service, said or group_rules.no_group(name))
        self._watch(call.region, group).desired = desired
        await self._settle(call.region, group)
        return asg_wire.answer(call.action)

    async def _terminate(self, call: Call, request: web.Request, body: bytes) -> Answer:  # noqa: ARG002
        instance, decrement = call.get("InstanceId") or "", call.flag("ShouldDecrementDesiredCapacity")
        group = await self._group_with(call.region, instance)
        if group is None:
            return asg_wire.refusal(call.service, group_rules.no_instance(instance))
        watched = self._watch(call.region, group)
        said = group_rules.check_end(group, watched.desired, decrement=decrement)
        if said is not None:
            return asg_wire.refusal(call.service, said)
        watched.desired -= 1 if decrement else 0
        await self._end(call.region, watched, instance)
        await self._settle_named(call.region, group.name)
        result = ET.Element(f"{call.action}Result")
        written = group_rules.described([(group.name, watched.activities[-1])], now=_now())
        activity = written.find("Activities/member")
        if activity is not None:
            activity.tag = "Activity"
            result.append(activity)
        return asg_wire.answer(call.action, result)

    async def _create(self, call: Call, request: web.Request, body: bytes) -> Answer:  # noqa: ARG002
        minimum, maximum = call.number("MinSize") or 0, call.number("MaxSize") or 0
        desired = call.number("DesiredCapacity")
        said = group_rules.check_bounds(minimum, maximum, desired)
        if said is not None:
            return asg_wire.refusal(call.service, said)
        # Empty at first: launches are ours to judge.
        answer = await self._moto.ask(call.service, call.region, call.action, {**_asked(call), "DesiredCapacity": 0})
        name = call.get("AutoScalingGroupName") or ""
        if answer.status == 200:
            self._watched[call.region, name] = Watched(desired=minimum if desired is None else desired)
            await self._settle_named(call.region, name)
        return answer

    async def _update(self, call: Call, request: web.Request, body: bytes) -> Answer:  # noqa: ARG002
        name = call.get("AutoScalingGroupName") or ""
        group = await self._group(call.region, name)
        if group is None:
            return asg_wire.refusal(call.service, group_rules.no_group(name))
        minimum, maximum, asked = (call.number(one) for one in ("MinSize", "MaxSize", "DesiredCapacity"))
        minimum = group.minimum if minimum is None else minimum
        maximum = group.maximum if maximum is None else maximum
        said = group_rules.check_bounds(minimum, maximum, asked)
        if said is not None:
            return asg_wire.refusal(call.service, said)
        watched = self._watch(call.region, group)
        # As many as it has: growing and shrinking are ours to judge.
        answer = await self._moto.ask(
            call.service, call.region, call.action, {**_asked(call), "DesiredCapacity": len(group.members)}
        )
        if answer.status == 200:
            watched.desired = max(minimum, min(maximum, watched.desired)) if asked is None else asked
            await self._settle_named(call.region, name)
        return answer

    async def _delete(self, call: Call, request: web.Request, body: bytes) -> Answer:
        name = call.get("AutoScalingGroupName") or ""
        group = await self._group(call.region, name)
        if group is not None and group.members and not call.flag("ForceDelete"):
            return asg_wire.refusal(call.service, group_rules.in_use())
        if group is not None:
            watched = self._watch(call.region, group)
            for one in group.members:
                await self._end(call.region, watched, one.identifier)
        self._watched.pop((call.region, name), None)
        return await self._moto.forward(request, body)

    # What a group does by itself

    async def _settle_named(self, region: str, name: str) -> None:
        group = await self._group(region, name)
        if group is None:
            self._watched.pop((region, name), None)
        else:
            await self._settle(region, group)

    async def _settle(self, region: str, group: Group) -> None:
        """Bring a group nearer to what is desired of it."""
        watched = self._watch(region, group)
        watched.retry_at = None
        missing = watched.desired - len(group.members)
        if missing > 0 and "Launch" not in group.suspended:
            await self._launch(region, group, watched, missing)
        elif missing < 0:
            await self._shrink(region, group, watched)

    async def _launch(self, region: str, group: Group, watched: Watched, count: int) -> None:
        obstacle = self._orders.obstacle(group.zone, await self._type(region, group))
        if obstacle is not None:
            watched.activities.append(group_rules.failed_launch(obstacle, now=_now()))
            watched.retry_at = _now() + self._pace.retry_seconds
            return
        wanted = len(group.members) + count
        await self._moto.ask(
            "autoscaling", region, "SetDesiredCapacity", {"AutoScalingGroupName": group.name, "DesiredCapacity": wanted}
        )
        after = await self._group(region, group.name)
        if after is not None:
            for one in after.members:
                if one.identifier not in watched.launched:
                    self._launched(watched, one.identifier, after.template_version)

    def _launched(self, watched: Watched, instance: str, version: str) -> None:
        now = _now()
        watched.launched[instance] = Launched(now, version)
        watched.activities.append(group_rules.launch(instance, now=now, seconds=self._pace.pending_seconds))

    async def _shrink(self, region: str, group: Group, watched: Watched) -> None:
        surplus = len(group.members) - watched.desired
        chosen = group_rules.victims(group, watched, now=_now(), pending_seconds=self._pace.pending_seconds)
        for instance in chosen:
            await self._end(region, watched, instance)
        if len(chosen) < surplus:
            watched.activities.append(group_rules.held_back(now=_now()))

    async def _end(self, region: str, watched: Watched, instance: str) -> None:
        await self._moto.ask(
            "autoscaling",
            region,
            "TerminateInstanceInAutoScalingGroup",
            {"InstanceId": instance, "ShouldDecrementDesiredCapacity": "true"},
        )
        now = _now()
        watched.launched.pop(instance, None)
        watched.leaving = {one: until for one, until in watched.leaving.items() if now < until}
        watched.leaving[instance] = now + self._pace.terminating_seconds
        watched.activities.append(group_rules.end(instance, now=now, seconds=self._pace.terminating_seconds))

    # What moto has

    def _watch(self, region: str, group: Group) -> Watched:
        """Return what is known of a group; one that was made behind our back is taken as moto has it."""
        watched = self._watched.get((region, group.name))
        if watched is None:
            watched = self._watched[region, group.name] = Watched(desired=group.desired)
            for one in group.members:
                watched.launched[one.identifier] = Launched(0.0, group.template_version)
        return watched

    async def _group(self, region: str, name: str) -> Group | None:
        return next(iter(await self._groups(region, {"AutoScalingGroupNames.member.1": name})), None)

    async def _group_with(self, region: str, instance: str) -> Group | None:
        answer = await self._moto.ask(
            "autoscaling", region, "DescribeAutoScalingInstances", {"InstanceIds.member.1": instance}
        )
        root = asg_wire.parse(answer.body)
        name = asg_wire.text(root, ".//AutoScalingInstances/member/AutoScalingGroupName")
        return await self._group(region, name) if name else None

    async def _groups(self, region: str, parameters: Mapping[str, str | int]) -> list[Group]:
        answer = await self._moto.ask("autoscaling", region, "DescribeAutoScalingGroups", parameters)
        return [Group.of(found) for found in asg_wire.groups_of(asg_wire.parse(answer.body))]

    async def _type(self, region: str, group: Group) -> str:
        key = (group.template_id, group.template_version)
        if key not in self._types:
            parameters = {"LaunchTemplateId": group.template_id, "LaunchTemplateVersion.1": group.template_version}
            answer = await self._moto.ask("ec2", region, "DescribeLaunchTemplateVersions", parameters)
            kind = asg_wire.text(asg_wire.parse(answer.body), ".//instanceType")
            if not group.template_version.isdecimal():
                return kind
            self._types[key] = kind
        return self._types[key]


def _asked(call: Call) -> dict[str, str | int]:
    return {name: value for name, value in call.parameters.items() if name not in {"Action", "Version"}}


def _now() -> float:
    return time.time()
