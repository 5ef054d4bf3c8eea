"""At any moment at most one replica may act, whatever is frozen, cut off or lost; and somebody does, soon."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import kinds, port
from autoscaler.kube.leases import election
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests.autoscaler.kube.cluster import simulated

pytestmark = [pytest.mark.simulated, pytest.mark.accept("R2")]
TERMS = election.Terms()


def elector(cluster: SimulatedCluster, identity: str) -> election.Elector:
    return election.Elector(
        cluster.client(identity),
        virtual_time.clock(),
        namespace="default",
        name="sluice",
        identity=identity,
        terms=TERMS,
    )


@contextlib.asynccontextmanager
async def running(*electors: election.Elector) -> AsyncGenerator[None, None]:
    tasks = [asyncio.create_task(one.run()) for one in electors]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def leaders(*electors: election.Elector) -> list[str]:
    return [one.identity for one in electors if one.remaining() > 0]


@simulated
async def test_the_first_leads_and_goes_on_leading() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(a, b):
        await asyncio.sleep(1)
        assert leaders(a, b) == ["a"]
        await asyncio.sleep(3600)
        assert leaders(a, b) == ["a"]
        assert b.holder == "a"


@simulated
async def test_a_dead_leader_is_followed_within_the_lease_time() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(b):
        async with running(a):
            await asyncio.sleep(10)
        while not leaders(b):
            assert not leaders(a, b) or leaders(a, b) == ["a"]
            await asyncio.sleep(0.1)
        assert asyncio.get_running_loop().time() < 10 + TERMS.lease_seconds + 3


@simulated
async def test_a_leader_that_is_cut_off_stops_before_the_next_one_starts() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(a, b):
        await asyncio.sleep(10)
        cluster.faults.partition("a")
        assert leaders(a, b) == ["a"]
        lost = await _moment(lambda: not leaders(a, b))
        started = await _moment(lambda: leaders(a, b) == ["b"])
        assert started - lost > TERMS.margin_seconds / 2
        cluster.faults.clear()
        await asyncio.sleep(60)
        assert leaders(a, b) == ["b"]


@simulated
async def test_a_frozen_leader_knows_on_waking_that_its_time_is_up() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(a, b):
        await asyncio.sleep(10)
        cluster.faults.freeze("a")
        await asyncio.sleep(TERMS.hold_seconds + 0.1)
        assert a.remaining() == 0
        await asyncio.sleep(60)
        cluster.faults.thaw("a")
        await asyncio.sleep(10)
        assert leaders(a, b) == ["b"]


@simulated
async def test_a_released_lease_is_taken_at_once() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(b):
        async with running(a):
            await asyncio.sleep(10)
        await a.release()
        assert a.remaining() == 0
        await asyncio.sleep(2)
        assert leaders(a, b) == ["b"]


@simulated
async def test_a_renewal_whose_answer_was_lost_does_not_lose_the_lease() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a = elector(cluster, "a")
    async with running(a):
        await asyncio.sleep(1)
        cluster.faults.add(faults.LoseAnswer(), faults.Matching(method="PATCH", username="a"), times=2)
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert a.remaining() > 0


@simulated
async def test_a_deleted_lease_is_made_anew() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a = elector(cluster, "a")
    async with running(a):
        await asyncio.sleep(1)
        path = kinds.LEASES.path("sluice", "default")
        port.required(await cluster.client().send(port.Request(method="DELETE", path=path)))
        await asyncio.sleep(60)
        assert leaders(a) == ["a"]


FAULTS = st.lists(
    st.tuples(
        st.floats(0.1, 20.0),
        st.sampled_from(["freeze", "thaw", "partition", "clear", "lose", "slow"]),
        st.sampled_from("abc"),
    ),
    max_size=15,
)


@given(FAULTS)
def test_there_are_never_two_leaders(history: list[tuple[float, str, str]]) -> None:
    async def scenario() -> None:
        cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.05)
        replicas = [elector(cluster, identity) for identity in "abc"]
        async with running(*replicas):
            for pause, what, whom in history:
                await _watch_for(pause, replicas)
                mine = faults.Matching(username=whom)
                match what:
                    case "freeze":
                        cluster.faults.freeze(whom)
                    case "thaw":
                        cluster.faults.thaw(whom)
                    case "partition":
                        cluster.faults.partition(whom)
                    case "lose":
                        cluster.faults.add(faults.LoseAnswer(), mine, times=3)
                    case "slow":
                        cluster.faults.add(faults.Delay(seconds=3.0), mine, times=3)
                    case _:
                        cluster.faults.clear()
            cluster.faults.clear()
            for identity in "abc":
                cluster.faults.thaw(identity)
            await _watch_for(60, replicas)
            assert len(leaders(*replicas)) == 1

    virtual_time.run(scenario())


async def _watch_for(seconds: float, replicas: list[election.Elector]) -> None:
    for _ in range(int(seconds * 10)):
        assert len(leaders(*replicas)) <= 1
        await asyncio.sleep(0.1)


@simulated
async def test_a_lease_deleted_under_a_leader_does_not_make_two() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    a, b = elector(cluster, "a"), elector(cluster, "b")
    async with running(a, b):
        await asyncio.sleep(4.5)
        path = kinds.LEASES.path("sluice", "default")
        port.required(await cluster.client().send(port.Request(method="DELETE", path=path)))
        await _watch_for(60, [a, b])
        assert len(leaders(a, b)) == 1


@simulated
async def test_a_claim_whose_answer_was_lost_is_known_to_be_ours() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.01)
    cluster.faults.add(faults.LoseAnswer(), faults.Matching(method="POST", username="a"))
    a = elector(cluster, "a")
    async with running(a):
        await asyncio.sleep(3)
        assert leaders(a) == ["a"]


async def _moment(holds: Callable[[], bool]) -> float:
    """Return when something becomes true, to a tenth of a second."""
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110  # the clock is virtual
            await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time()
