"""A batch goes no further than the first refusal that is everybody's, and a busy moment does not end it."""

import asyncio
from collections.abc import Callable

import pytest

from autoscaler.kube import port
from autoscaler.kube.writing import batch, writer
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated

FORBIDDEN = port.ApiError(403, "Forbidden", "no")
CONFLICT = port.ConflictError(409, "Conflict", "changed")
GONE = port.NotFoundError(404, "NotFound", "gone")
BUSY = port.TooManyRequestsError(429, "TooManyRequests", "later")


class Calls:
    """Remembers what was done to whom, and refuses what it is told to."""

    def __init__(self, refuse: Callable[[int, int], Exception | None] = lambda _thing, _call: None) -> None:
        self.things: list[int] = []
        self.under_way = self.most = 0
        self._refuse = refuse

    async def do(self, thing: int) -> None:
        self.things.append(thing)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        call = len(self.things)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        error = self._refuse(thing, call)
        if error is not None:
            raise error


@simulated
async def test_everything_is_done_several_at_once() -> None:
    calls = Calls()
    outcome = await batch.each(range(100), calls.do)
    assert (outcome.done, outcome.failure) == (100, None)
    assert sorted(calls.things) == list(range(100))
    assert calls.most == batch.AT_ONCE


@simulated
async def test_what_is_refused_to_all_is_asked_for_once() -> None:
    calls = Calls(lambda _thing, _call: FORBIDDEN)
    outcome = await batch.each(range(1000), calls.do)
    assert (outcome.done, outcome.failure) == (0, FORBIDDEN)
    assert calls.things == [0]


@simulated
async def test_a_refusal_in_the_midst_stops_the_rest() -> None:
    calls = Calls(lambda _thing, call: FORBIDDEN if call > 50 else None)
    outcome = await batch.each(range(1000), calls.do)
    assert (outcome.done, outcome.failure) == (50, FORBIDDEN)
    assert len(calls.things) <= 50 + batch.AT_ONCE


@simulated
async def test_one_object_that_is_gone_does_not_stop_the_others() -> None:
    calls = Calls(lambda thing, _call: GONE if thing in {0, 7} else None)
    outcome = await batch.each(range(100), calls.do)
    assert (outcome.done, outcome.failures) == (98, (GONE, GONE))
    assert outcome.failure is GONE


@simulated
async def test_some_that_changed_side_by_side_do_not_stop_the_others() -> None:
    calls = Calls(lambda thing, _call: CONFLICT if thing % 10 in {3, 4, 5} else None)
    outcome = await batch.each(range(1000), calls.do)
    assert (outcome.done, len(outcome.failures)) == (700, 300)


@pytest.mark.parametrize("well", [0, 50])
def test_what_has_changed_of_all_is_not_asked_for_a_thousand_times(well: int) -> None:
    calls = Calls(lambda _thing, call: CONFLICT if call > well else None)
    outcome = virtual_time.run(batch.each(range(1000), calls.do))
    assert (outcome.done, outcome.failure) == (well, CONFLICT)
    assert len(calls.things) <= (well + 2 * batch.AT_ONCE if well else batch.IN_A_ROW)


@simulated
async def test_a_server_that_is_busy_for_a_moment_is_asked_again_for_what_is_left() -> None:
    calls = Calls(lambda _thing, call: BUSY if 40 < call <= 45 else None)
    outcome = await batch.each(range(100), calls.do)
    assert (outcome.done, outcome.failure) == (100, None)


@pytest.mark.parametrize("error", [BUSY, port.UnreachableError("silence"), port.ApiError(500, "InternalError", "")])
def test_a_server_that_stays_busy_is_asked_once_more_and_no_more(error: port.KubeError) -> None:
    calls = Calls(lambda _thing, call: error if call > 40 else None)
    outcome = virtual_time.run(batch.each(range(1000), calls.do))
    assert (outcome.done, outcome.failure) == (40, error)
    assert len(calls.things) <= 40 + batch.AT_ONCE + 1


@simulated
async def test_nothing_is_begun_any_more_once_it_is_not_wanted() -> None:
    calls = Calls()
    outcome = await batch.each(range(100), calls.do, go_on=lambda: len(calls.things) < 10)
    assert outcome.done == len(calls.things) == 10


@simulated
async def test_who_may_not_act_any_more_is_told_at_once() -> None:
    calls = Calls(lambda _thing, call: writer.FencedError("not leading") if call > 20 else None)
    with pytest.raises(writer.FencedError):
        await batch.each(range(1000), calls.do)
    assert len(calls.things) <= 20 + batch.AT_ONCE


@simulated
async def test_all_of_a_batch_must_be_done_or_gone() -> None:
    done = Calls()
    await batch.all_of(range(3), done.do)
    await batch.all_of(range(3), Calls(lambda thing, _: GONE if thing == 1 else None).do)
    with pytest.raises(port.ConflictError):
        await batch.all_of(range(3), Calls(lambda thing, _: CONFLICT if thing == 1 else None).do)
    assert done.things == [0, 1, 2]
