"""An account with thousands of instances that answers at once: moto takes a minute to read 10,000 of them.

Nobody starts anything: an instance that is asked for is pending for ever. Each SetDesiredCapacity is written to a file
with its time, on the clock that all processes of a computer share.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port as cloud

POOL: Final = "large"
TYPE: Final = "m5.4xlarge"
ZONES: Final = ("a", "b", "c")
LATENCY_SECONDS: Final = 0.05
MORE: Final = 1000
"""So many instances may be asked for beside those that are there."""


def instance(number: int) -> cloud.Instance:
    """Return an instance; its node is on it by this name."""
    name, zone = cloud.InstanceId(f"i-{number:017x}"), ZONES[number % len(ZONES)]
    return cloud.Instance(id=name, zone=zone, lifecycle=cloud.Lifecycle.IN_SERVICE)


def labels(zone: str) -> dict[str, str]:
    """Return the labels of a node."""
    return {keys.INSTANCE_POOL: POOL, keys.ZONE: zone, keys.INSTANCE_TYPE: TYPE}


class LargeCloud:
    """One group in each zone."""

    def __init__(self, instances: int, calls: Path) -> None:
        self._calls = calls
        self._number = instances
        self._began = time.time()
        self._groups: dict[cloud.GroupName, cloud.NodeGroup] = {}
        for zone in ZONES:
            there = tuple(one for one in map(instance, range(instances)) if one.zone == zone)
            name, key = cloud.GroupName(f"{POOL}-{zone}"), NodeGroupKey(pool=POOL, zone=zone, instance_type=TYPE)
            self._groups[name] = cloud.NodeGroup(
                name=name,
                key=key,
                minimum=0,
                maximum=len(there) + MORE,
                desired=len(there),
                instances=there,
                node=cloud.NodeTemplate(labels=labels(zone)),
            )

    async def groups(self, names: Collection[cloud.GroupName] | None = None) -> cloud.Listing:
        await asyncio.sleep(LATENCY_SECONDS)
        return cloud.Listing(
            groups=tuple(each for each in self._groups.values() if names is None or each.name in names)
        )

    async def set_desired(self, group: cloud.NodeGroup, desired: int) -> cloud.Outcome:
        with self._calls.open("a") as calls:
            calls.write(f"{time.monotonic()}\n")
        await asyncio.sleep(LATENCY_SECONDS)
        known = self._groups[group.name]
        self._number += 1
        came = [
            cloud.Instance(
                id=cloud.InstanceId(f"i-{self._number:08x}{number:09x}"),
                zone=group.key.zone,
                lifecycle=cloud.Lifecycle.PENDING,
            )
            for number in range(desired - known.desired)
        ]
        there = tuple(sorted((*known.instances, *came), key=lambda one: one.id))
        self._groups[group.name] = cloud.NodeGroup(
            name=known.name,
            key=known.key,
            minimum=known.minimum,
            maximum=known.maximum,
            desired=desired,
            instances=there,
            node=known.node,
        )
        return cloud.Outcome(verdict=cloud.Verdict.LANDED, group=self._groups[group.name])

    async def terminate(self, group: cloud.NodeGroup, instance: cloud.InstanceId, *, decrement: bool) -> cloud.Outcome:
        raise NotImplementedError(f"{instance} of {group.name} has work (decrement: {decrement})")

    async def activities(self, group: cloud.GroupName, *, since: float) -> tuple[cloud.Activity, ...]:
        del group, since
        return ()

    async def lives(self, instances: Collection[cloud.InstanceId]) -> Mapping[cloud.InstanceId, cloud.InstanceTimes]:
        await asyncio.sleep(LATENCY_SECONDS)
        return {one: cloud.InstanceTimes(launched_at=self._began, is_over=False) for one in instances}

    async def templates(self, templates: Collection[cloud.TemplateRef]) -> Mapping[cloud.TemplateRef, cloud.Template]:
        del templates
        return {}

    async def images(self, templates: Collection[cloud.TemplateRef]) -> Mapping[cloud.TemplateRef, str]:
        del templates
        return {}

    async def aclose(self) -> None:
        pass
