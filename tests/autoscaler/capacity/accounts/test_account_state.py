"""What an account is asked about its instances, and how often."""

import asyncio
from collections.abc import Collection
from typing import Any, cast

from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.capacity.accounts import account_state
from autoscaler.cloud import catalogue, port, view
from tests.autoscaler.capacity import seen

GONE = port.InstanceId("i-gone")


class Forgetful:
    """A cloud that tells nothing of any instance."""

    def __init__(self) -> None:
        self.asked: list[list[port.InstanceId]] = []

    async def lives(self, instances: Collection[port.InstanceId]) -> dict[port.InstanceId, port.InstanceTimes]:
        self.asked.append(list(instances))
        return {}

    async def activities(self, name: port.GroupName, *, since: float) -> tuple[port.Activity, ...]:
        del name, since
        return ()


def test_an_instance_that_the_provider_has_forgotten_is_over_and_asked_about_once() -> None:
    forgetful, group = Forgetful(), seen.group()
    known = account_state.AccountState(
        spec=ProviderAccountSpec(provider="aws", region="eu-west-1"),
        view=view.View(cast("port.Cloud", forgetful), cast("Any", None)),
        types=cast("catalogue.Catalogue", None),
        lives={GONE: port.InstanceTimes(launched_at=1.0, is_over=False)},
        homes={GONE: group.key},
    )
    reading = view.Reading(read_at=seen.NOW, groups={group.name: group})
    for _ in range(3):
        asyncio.run(account_state.ask_lives(known, reading, {}, seen.NOW))
    assert known.lives[GONE].is_over
    assert forgetful.asked == [[GONE]]
