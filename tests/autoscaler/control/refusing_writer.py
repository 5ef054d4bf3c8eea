"""A writer that refuses what a test says."""

import asyncio
from typing import Any

from autoscaler.kube import objects, port
from tests.autoscaler.admission.manual_clock import ManualClock


class RefusingWriter:
    """A writer that remembers what it is told, and refuses what a test says."""

    def __init__(self, clock: ManualClock) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self.refusals: dict[str, Exception] = {}
        """By the object's name."""
        self.seconds = 0.0
        """How long a refusal takes."""
        self.at_once = 0
        self._under_way = 0
        self._clock = clock

    async def create(self, _: Any, body: Any, **more: Any) -> None:
        assert more == {"attempts": 1}
        await self._do("create", body["metadata"]["name"], body)

    async def patch(self, _: Any, key: objects.Key, body: Any, **more: Any) -> None:
        assert more["attempts"] == 1
        await self._do(f"patch {more.get('subresource', '')}".strip(), key.name, (body, more["only_if"]))

    async def delete(self, _: Any, key: objects.Key, **more: Any) -> None:
        assert more["attempts"] == 1
        await self._do("delete", key.name, more["only_if"])

    async def _do(self, verb: str, name: str, what: Any) -> None:
        self.told.append((verb, name, what))
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        if name in self.refusals:
            self._clock.seconds += self.seconds
            raise self.refusals[name]


def refusal(status: int) -> port.ApiError:
    return port.ApiError(status, "Refused", "no")
