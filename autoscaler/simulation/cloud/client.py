"""The simulated cloud as one cluster sees it through the port: with latency, with faults, and nothing of others."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from autoscaler.cloud import port, writes
from autoscaler.simulation.cloud.faults import Call, Effect, Faults
from autoscaler.simulation.cloud.model import Group

if TYPE_CHECKING:
    from autoscaler.simulation.cloud.cloud import SimulatedCloud

T = TypeVar("T")
PAGE: Final = 100
"""AWS describes so many groups in one call."""


class SimulatedClient:
    """The port."""

    def __init__(self, cloud: "SimulatedCloud", cluster: str) -> None:
        self._cloud = cloud
        self._cluster = cluster
        self.calls: Counter[Call] = Counter()
        """How often each was asked, pages counted one by one."""
        self.faults = Faults()
        """Those of this client alone; they come before the cloud's."""

    async def groups(self, names: Collection[port.GroupName] | None = None) -> port.Listing:
        found = await self._ask(Call.GROUPS, lambda: self._listed(names))
        self.calls[Call.GROUPS] += max(0, math.ceil(len(found) / PAGE) - 1)
        return port.Listing(groups=tuple(found))

    async def set_desired(self, group: port.NodeGroup, desired: int) -> port.Outcome:
        async def send() -> None:
            await self._ask(Call.SET_DESIRED, lambda: self._cloud.set_desired(self._own(group.name), desired))

        return await writes.set_desired(self, group, desired, send)

    async def terminate(self, group: port.NodeGroup, instance: port.InstanceId, *, decrement: bool) -> port.Outcome:
        def do() -> None:
            self._cloud.terminate(self._own(group.name), instance, decrement=decrement)

        async def send() -> None:
            await self._ask(Call.TERMINATE, do)

        return await writes.terminate(self, group, instance, decrement=decrement, send=send)

    async def activities(self, group: port.GroupName, *, since: float) -> tuple[port.Activity, ...]:
        found = await self._ask(Call.ACTIVITIES, lambda: list(self._own(group).activities))
        return tuple(one for one in reversed(found) if one.started_at >= since)

    async def lives(self, instances: Collection[port.InstanceId]) -> Mapping[port.InstanceId, port.InstanceTimes]:
        return await self._ask(Call.LIVES, lambda: self._cloud.describe(instances))

    async def templates(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, port.Template]:
        known = self._cloud.templates
        return await self._ask(Call.TEMPLATES, lambda: {ref: known[ref] for ref in templates if ref in known})

    async def images(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, str]:
        return await self._ask(Call.TEMPLATES, lambda: {ref: self._cloud.image(ref) for ref in templates})

    async def aclose(self) -> None:
        """Nothing is open."""

    def _listed(self, names: Collection[port.GroupName] | None) -> list[port.NodeGroup]:
        return [
            group.as_node_group()
            for name, group in sorted(self._cloud.groups.items())
            if group.cluster == self._cluster and (names is None or name in names)
        ]

    def _own(self, name: port.GroupName) -> Group:
        group = self._cloud.groups.get(name)
        if group is None or group.cluster != self._cluster:
            raise port.CloudError(
                port.Reason.NOT_FOUND, f"cluster {self._cluster} has no node group {name}: see its tags, read again"
            )
        return group

    async def _ask(self, call: Call, do: Callable[[], T]) -> T:
        self.calls[call] += 1
        await asyncio.sleep(self._cloud.latency_seconds)
        effect = self.faults.next(call) or self._cloud.faults.next(call)
        match effect:
            case None:
                return do()
            case Effect.LOSE_ANSWER:
                do()
            case Effect.THROTTLE | Effect.REFUSE | Effect.LOSE_REQUEST | Effect.DENY:
                pass
        raise _error(call, effect)


def _error(call: Call, effect: Effect) -> port.CloudError:
    match effect:
        case Effect.THROTTLE:
            return port.CloudError(port.Reason.THROTTLED, f"{call} was throttled: ask less often, or later")
        case Effect.DENY:
            return port.CloudError(port.Reason.DENIED, f"{call} was denied: see the account's credentials and rights")
        case Effect.REFUSE:
            return port.CloudError(port.Reason.UNREACHABLE, f"{call} found nobody: see whether AWS can be reached")
        case Effect.LOSE_ANSWER | Effect.LOSE_REQUEST:
            return port.CloudError(
                port.Reason.UNREACHABLE,
                f"{call} got no answer: see whether AWS can be reached",
                may_have_landed=call in {Call.SET_DESIRED, Call.TERMINATE},
            )
