"""A cloud whose calls are counted, by what came of them: what the provider is asked, refuses and throttles.

It decides nothing, and asks nothing of its own.
"""

from collections import Counter
from collections.abc import Awaitable, Collection, Mapping
from typing import Final, TypeVar

from autoscaler.cloud import port

R = TypeVar("R")
DONE: Final = "Done"
Calls = Counter[tuple[str, str]]
"""How often each call had each outcome: Done, or a `port.Reason`."""


class CountedCloud:
    """The port on another one."""

    def __init__(self, cloud: port.Cloud, calls: Calls) -> None:
        self._cloud = cloud
        self._calls = calls

    async def groups(self, names: Collection[port.GroupName] | None = None) -> port.Listing:
        return await self._count("groups", self._cloud.groups(names))

    async def set_desired(self, group: port.NodeGroup, desired: int) -> port.Outcome:
        return await self._count("set_desired", self._cloud.set_desired(group, desired))

    async def terminate(self, group: port.NodeGroup, instance: port.InstanceId, *, decrement: bool) -> port.Outcome:
        return await self._count("terminate", self._cloud.terminate(group, instance, decrement=decrement))

    async def activities(self, group: port.GroupName, *, since: float) -> tuple[port.Activity, ...]:
        return await self._count("activities", self._cloud.activities(group, since=since))

    async def lives(self, instances: Collection[port.InstanceId]) -> Mapping[port.InstanceId, port.InstanceTimes]:
        return await self._count("lives", self._cloud.lives(instances))

    async def templates(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, port.Template]:
        return await self._count("templates", self._cloud.templates(templates))

    async def images(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, str]:
        return await self._count("images", self._cloud.images(templates))

    async def aclose(self) -> None:
        await self._cloud.aclose()

    async def _count(self, call: str, answer: Awaitable[R]) -> R:
        try:
            told = await answer
        except port.CloudError as error:
            self._calls[call, error.reason] += 1
            raise
        refused = told.error if isinstance(told, port.Outcome) else None
        self._calls[call, DONE if refused is None else refused.reason] += 1
        return told
