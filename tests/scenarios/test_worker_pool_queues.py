"""Worker pools on real adapters of queues, whose servers answer what they should not: that is never an empty queue."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
import yarl

from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.queues import port, sources, sqs, wire
from tests.autoscaler.kube.cluster import simulated
from tests.autoscaler.queues import contract
from tests.scenarios.worker_world import Lines, World, runtime, smallest_gap

HANG: Final = None
"""A server that never answers."""
FAIL: Final = port.QueueError(port.Reason.FAILED, "GET of something was answered with 503: see the server's own log")
BAD: Final[dict[str, dict[str, bytes | port.QueueError | None]]] = {
    "http": {
        "NotANumber": b"<html>0</html>",
        "Negative": b"-3",
        "TooLarge": b"99999999999",
        "Failed": FAIL,
        "Timeout": HANG,
    },
    "prometheus": {
        "NotANumber": contract.body_of("prometheus", "NaN"),
        "Negative": contract.body_of("prometheus", -3),
        "NotOneValue": b'{"data":{"resultType":"vector","result":[]}}',
        "Failed": FAIL,
        "Timeout": HANG,
    },
    "sqs": {"NotANumber": b"many", "Negative": b"-3", "TooLarge": b"99999999999", "Failed": FAIL, "Timeout": HANG},
}
"""What each kind of server answers, by the reason that the pool gives."""
GOOD: Final = {"http": b"3", "prometheus": contract.body_of("prometheus", 3), "sqs": b"3"}
ENDPOINTS: Final = {
    "http": "https://web.example/",
    "prometheus": "https://prometheus.example/",
    "sqs": "https://sqs.eu-west-1.amazonaws.com/123456789012/",
}
WELL: Final = "https://well.example/"


@dataclass
class Servers:
    """What every server answers, by the first part of its URL; it stands in for the network below the adapters."""

    answers: dict[str, bytes | port.QueueError | None] = field(default_factory=dict)
    asked_at: dict[str, list[float]] = field(default_factory=dict)

    async def get(
        self, url: yarl.URL, headers: Mapping[str, str], *, namespace: str, authority: bytes | None = None
    ) -> wire.Page:
        del headers, namespace, authority
        known = next(each for each in self.answers if str(url).startswith(each))
        return wire.Page(status=200, body=await self._answer(known))

    async def count(self, account: sqs.Account, queue_url: str) -> str:
        del account
        return (await self._answer(queue_url)).decode()

    async def _answer(self, server: str) -> bytes:
        self.asked_at.setdefault(server, []).append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)
        match self.answers[server]:
            case bytes() as body:
                return body
            case port.QueueError() as error:
                raise port.QueueError(error.reason, error.message)
            case None:
                return await asyncio.Future()

    async def aclose(self) -> None:
        pass


class Adapted(Lines):
    """Queues as the product makes them, on servers of a test's own."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self._sources = sources.Sources(getter=servers, reader=servers)

    def queue(self, source: QueueSource, *, namespace: str, secret: port.SecretData | None) -> port.Queue:
        return self._sources.queue(source, namespace=namespace, secret=secret)


def pools() -> dict[str, tuple[str, str, str]]:
    """Return kind, server and reason of each bad pool."""
    return {
        f"{kind}-{reason.lower()}": (kind, f"{ENDPOINTS[kind]}{reason.lower()}", reason)
        for kind, bad in BAD.items()
        for reason in bad
    }


@pytest.mark.accept("W19")
@simulated
async def test_an_answer_that_is_no_number_keeps_the_last_one_and_slows_nobody_but_its_pool() -> None:
    servers = Servers({WELL: b"0", **{server: GOOD[kind] for kind, server, _ in pools().values()}})
    world = World(job_seconds=7200)
    world.lines = Adapted(servers)
    for name, (kind, server, _) in pools().items():
        query = {"queue__source__query": "jobs"} if kind == "prometheus" else {}
        world.add(name, queue__source__type=kind, queue__source__endpoint=server, queue__interval="00:00:10", **query)
    world.add("well", queue__source__endpoint=WELL, queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(5)
        assert {world.status(name)["queueSize"] for name in pools()} == {3}
        assert {world.made[name] for name in pools()} == {3}

        servers.answers.update({server: BAD[kind][reason] for kind, server, reason in pools().values()})
        servers.asked_at.clear()
        await asyncio.sleep(3600)
        for name, (_, server, reason) in pools().items():
            ready = world.condition("Ready", name)
            assert (ready["status"], ready["reason"]) == ("False", reason), name
            assert (world.status(name)["queueSize"], world.made[name], len(world.pods(name))) == (3, 3, 3), name
            assert 10 <= len(servers.asked_at[server]) < 30, f"{name} backs off, and never gives up"
        well = servers.asked_at[WELL]
        assert len(well) >= 3599
        assert smallest_gap(well) > 0.99

        servers.answers.update({server: GOOD[kind] for kind, server, _ in pools().values()})
        await asyncio.sleep(330)
        assert {world.condition("Ready", name)["status"] for name in pools()} == {"True"}
        assert all(world.made[name] > 3 for name in pools()), "3 jobs wait, and those who run are busy"


@pytest.mark.accept("W19")
@simulated
async def test_a_queue_that_never_told_a_number_has_none() -> None:
    servers = Servers({server: BAD[kind][reason] for kind, server, reason in pools().values()})
    world = World()
    world.lines = Adapted(servers)
    for name, (kind, server, _) in pools().items():
        query = {"queue__source__query": "jobs"} if kind == "prometheus" else {}
        world.add(name, queue__source__type=kind, queue__source__endpoint=server, **query)
    async with runtime(world):
        await asyncio.sleep(60)
        for name, (_, _, reason) in pools().items():
            assert world.condition("Ready", name)["reason"] == reason
            assert "queueSize" not in world.status(name), name
            assert world.made[name] == 0
            assert "FailedToReconcile" in world.events(name)
