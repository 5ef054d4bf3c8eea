"""Reading a queue with its Secret: what is sent, how soon a new key is used, and what is said where there is none."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest

from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.kube import port
from autoscaler.queues import port as queues
from autoscaler.simulation import virtual_time
from autoscaler.workers.polling import queue_reader
from tests.autoscaler.kube.cluster import simulated


class Secrets:
    """An API server that has one Secret, or says why not."""

    def __init__(self) -> None:
        self.key = "first"
        self.status = 200
        self.asked = 0

    async def send(self, request: port.Request) -> port.Response:
        assert request.path == "/api/v1/namespaces/jobs/secrets/api"
        self.asked += 1
        data = {"ApiKey": base64.b64encode(self.key.encode()).decode()}
        body = {"data": data} if self.status == 200 else {"reason": "No", "message": "no"}
        return port.Response(status=self.status, body=json.dumps(body).encode())

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        raise NotImplementedError(path, query)


class Door:
    """A queue that takes one key."""

    def __init__(self) -> None:
        self.takes = "first"
        self.seen: list[str | None] = []
        self.seconds = 0.0

    def queue(self, source: QueueSource, *, namespace: str, secret: queues.SecretData | None) -> queues.Queue:
        assert (source.endpoint, namespace) == ("https://web/queue", "jobs")
        return _Asked(self, None if secret is None else secret["ApiKey"].decode())

    async def aclose(self) -> None:
        """Close nothing."""


class _Asked:
    def __init__(self, door: Door, key: str | None) -> None:
        self._door = door
        self._key = key

    async def length(self) -> int:
        self._door.seen.append(self._key)
        await asyncio.sleep(self._door.seconds)
        if self._key not in {None, self._door.takes}:
            raise queues.QueueError(queues.Reason.UNAUTHORIZED, "401")
        return 7


OPEN = QueueSource(endpoint="https://web/queue")
LOCKED = QueueSource(endpoint="https://web/queue", secret_name="api")


def made() -> tuple[queue_reader.QueueReader, Secrets, Door]:
    api, door = Secrets(), Door()
    return queue_reader.QueueReader(api, virtual_time.clock(), door), api, door


@simulated
async def test_without_a_secret_none_is_read() -> None:
    reader, api, door = made()
    assert await reader.read(OPEN, "jobs") == 7
    assert (api.asked, door.seen) == (0, [None])


@simulated
async def test_a_secret_is_kept_for_a_short_while() -> None:
    reader, api, _ = made()
    for _ in range(20):
        assert await reader.read(LOCKED, "jobs") == 7
        await asyncio.sleep(10)
    assert 6 <= api.asked <= 8


@simulated
async def test_a_new_key_is_used_at_once_where_the_old_one_is_refused() -> None:
    reader, api, door = made()
    await reader.read(LOCKED, "jobs")
    api.key = door.takes = "second"
    assert await reader.read(LOCKED, "jobs") == 7
    assert door.seen == ["first", "first", "second"]


@simulated
async def test_a_new_key_is_used_within_half_a_minute_where_the_old_one_still_works() -> None:
    reader, api, door = made()
    await reader.read(LOCKED, "jobs")
    api.key, door.takes = "second", "second"
    await asyncio.sleep(queue_reader.KEEP_SECONDS + 1)
    await reader.read(LOCKED, "jobs")
    assert door.seen == ["first", "second"]


@simulated
async def test_a_key_that_is_refused_is_asked_for_once_and_no_more() -> None:
    reader, api, door = made()
    door.takes = "other"
    with pytest.raises(queues.QueueError) as caught:
        await reader.read(LOCKED, "jobs")
    assert caught.value.reason is queues.Reason.UNAUTHORIZED
    assert (api.asked, len(door.seen)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "want"),
    [(404, "is not there: create it with key ApiKey"), (403, "RoleBinding"), (500, "could not be read")],
)
def test_a_secret_that_cannot_be_read_is_named_with_what_to_do(status: int, want: str) -> None:
    async def act() -> None:
        reader, api, door = made()
        api.status = status
        with pytest.raises(queues.QueueError, match="Secret api in namespace jobs") as caught:
            await reader.read(LOCKED, "jobs")
        assert caught.value.reason is queues.Reason.MISSING_SECRET
        assert want in caught.value.message
        assert door.seen == []

    virtual_time.run(act())


@simulated
async def test_a_reading_ends_in_time_whatever_the_queue_does() -> None:
    reader, _, door = made()
    door.seconds = 1e9
    with pytest.raises(queues.QueueError) as caught:
        await reader.read(OPEN, "jobs")
    assert caught.value.reason is queues.Reason.TIMEOUT


@simulated
async def test_what_is_kept_of_a_secret_is_never_shown() -> None:
    reader, api, _ = made()
    api.key = door_key = "hunter2"
    with pytest.raises(queues.QueueError) as caught:
        await reader.read(LOCKED, "jobs")
    assert door_key not in repr(vars(reader)) + repr(caught.value) + repr(caught.value.__cause__)
