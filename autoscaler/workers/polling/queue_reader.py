"""Read a pool's queue with its Secret. It decides nothing: a number comes out, or QueueError.

Secrets are not watched: that would need the right to read all of a namespace's. One is read by name and kept for a
short while, and read again at once where a server no longer takes what it says; so a new key is used without delay.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.kube import objects, port
from autoscaler.kube.reading import secret_data
from autoscaler.queues import port as queues

KEEP_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 15.0
"""For a reading in all. Queues have limits of their own within it."""
_STALE: Final = frozenset({queues.Reason.UNAUTHORIZED, queues.Reason.UNTRUSTED, queues.Reason.BAD_SECRET})
"""What a Secret that was changed meanwhile looks like."""


@dataclass(frozen=True, slots=True)
class _Kept:
    data: queues.SecretData
    until: float

    def __repr__(self) -> str:
        return f"_Kept(until={self.until})"


class QueueReader:
    """Reads queues for all pools."""

    def __init__(self, api: port.Api, time: clock.Clock, kinds_of_queues: queues.Queues) -> None:
        self._api = api
        self._time = time
        self._queues = kinds_of_queues
        self._secrets: dict[objects.Key, _Kept] = {}

    async def read(self, source: QueueSource, namespace: str) -> int:
        """Return how many jobs wait; raise QueueError if that cannot be told in time."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._read(source, namespace)
        except TimeoutError as error:
            raise queues.QueueError(
                queues.Reason.TIMEOUT, f"the queue could not be read within {TIMEOUT_SECONDS:g} s"
            ) from error

    async def _read(self, source: QueueSource, namespace: str) -> int:
        if source.secret_name is None:
            return await self._queues.queue(source, namespace=namespace, secret=None).length()
        key = objects.Key(namespace, source.secret_name)
        kept = self._kept(key)
        if kept is not None:
            try:
                return await self._queues.queue(source, namespace=namespace, secret=kept).length()
            except queues.QueueError as error:
                if error.reason not in _STALE:
                    raise
        fresh = await self._fetch(key)
        return await self._queues.queue(source, namespace=namespace, secret=fresh).length()

    def _kept(self, key: objects.Key) -> queues.SecretData | None:
        now = self._time.monotonic()
        self._secrets = {each: kept for each, kept in self._secrets.items() if kept.until > now}
        kept = self._secrets.get(key)
        return kept.data if kept else None

    async def _fetch(self, key: objects.Key) -> queues.SecretData:
        self._secrets.pop(key, None)
        try:
            data = await secret_data.read(self._api, key, holding=f"key {queues.API_KEY}")
        except secret_data.SecretError as error:
            is_bad = isinstance(error, secret_data.MalformedSecretError)
            reason = queues.Reason.BAD_SECRET if is_bad else queues.Reason.MISSING_SECRET
            raise queues.QueueError(reason, f"the queue was not asked: {error}") from error
        self._secrets[key] = _Kept(data, self._time.monotonic() + KEEP_SECONDS)
        return data
