"""Whatever the API server refuses admission, in whatever way: it is asked less and less often, and others go on.

Every kind of call is refused for one job, with every kind of answer and by silence. What is counted is what the API
server would see: of each object and kind of call at most 20 refused ones in the first minute, and 2 a minute after
that. When the refusal ends, everything ends well.
"""

import asyncio
import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.scenarios.admission_world import CLUSTER_QUEUES, World, cycles, runtime

pytestmark = pytest.mark.simulated
FIRST_MINUTE: Final = 20
LATER_A_MINUTE: Final = 2
REFUSALS: Final = (403, 409, 422, 429, 500, None)
"""Answers; None is silence."""
MINUTES: Final = 8
"""How long it is refused; by then pauses are at their longest."""
JOB: Final = "victim"
Act = Callable[[World], None]


class Refusing:
    """A connection to an API server that refuses some calls, once told to, and counts."""

    def __init__(self, api: port.Api, story: "Story", status: int | None) -> None:
        self.is_on = False
        self.refused: defaultdict[str, list[float]] = defaultdict(list)
        """When each call was refused, by method and path."""
        self.sent = 0
        self._api = api
        self._story = story
        self._status = status

    async def send(self, request: port.Request) -> port.Response:
        self.sent += 1
        if not self.is_on or not self._story.is_about(request):
            return await self._api.send(request)
        self.refused[_call(request)].append(asyncio.get_running_loop().time())
        if self._status is None:
            await asyncio.sleep(request.timeout_seconds)
            raise port.UnreachableError("no answer")
        await asyncio.sleep(0.005)
        return port.Response(status=self._status, body=msgspec.json.encode({"reason": "Refused", "message": "no"}))

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                yield batch


def _call(request: port.Request) -> str:
    """Name an object and what is done to it; one that is made is named in its manifest."""
    made = msgspec.json.decode(request.body or b"{}") if request.method == "POST" else None
    name = f"/{made['metadata']['name']}" if made else ""
    return f"{request.method} {request.path}{name}"


def _add(pods: int, completions: int | None = None) -> Act:
    def add(world: World) -> None:
        world.add_job(JOB, pods=pods, completions=completions, backoffLimit=100)

    return add


def _resize(pods: int) -> Act:
    return lambda world: world.resize(JOB, pods)


def _runs(pods: int) -> Callable[[World], object]:
    return lambda world: (
        (world.running(JOB), world.gated(JOB), world.granted(JOB), len(world.slices(JOB)))
        == (
            pods,
            0,
            pods,
            0,
        )
    )


def _is_out(world: World) -> object:
    return world.pods(JOB) == [] and world.granted(JOB) == 0 and world.job(JOB)["spec"]["suspend"]


def _is_gone(world: World) -> object:
    return world.find_workload(JOB) is None


def _deactivate(world: World) -> None:
    world.deactivate(JOB)


def _delete(world: World) -> None:
    world.delete(kinds.JOBS, JOB)


def _orphan(world: World) -> None:
    """Delete the job, and let the pods that outlive it end."""
    pods = world.pods(JOB)
    world.delete(kinds.JOBS, JOB, policy="Orphan")
    for pod in pods:
        world.end(pod)


def _end(world: World) -> None:
    for pod in world.pods(JOB):
        world.end(pod)


def _nothing(world: World) -> None:
    del world


def _hang(world: World) -> None:
    """Grow by pods that do not start."""
    world.never_ready.add(JOB)
    world.resize(JOB, 4)


@dataclass(frozen=True, kw_only=True)
class Story:
    """A kind of call, and how it comes about."""

    call: str
    """A pattern of method and path; names of what is made are at the end of it."""
    body: str = ""
    """What stands in its body."""
    before: Act = field(default=_add(2))
    after: Act
    ends_well: Callable[[World], object]
    timeout_minutes: float = 30.0

    def is_about(self, request: port.Request) -> bool:
        is_call = request.method != "GET" and re.fullmatch(self.call, _call(request)) is not None
        return is_call and re.search(self.body.encode(), request.body or b"") is not None


_PARENT: Final = rf".*/workloads/job-{JOB}-[0-9a-f]+"
_SLICE: Final = rf".*/workloads/job-{JOB}-[0-9a-f]+-main-[0-9]+"
STORIES: Final[dict[str, Story]] = {
    "making the Workload": Story(call=f"POST {_PARENT}", before=_nothing, after=_add(2), ends_well=_runs(2)),
    "writing any status": Story(call=f"PATCH {_PARENT}/status", before=_nothing, after=_add(2), ends_well=_runs(2)),
    "resuming the job": Story(call=f"PATCH .*/jobs/{JOB}", before=_nothing, after=_add(2), ends_well=_runs(2)),
    "recording pods": Story(
        call=f"PATCH {_PARENT}/status", body='"opened":\\[', before=_nothing, after=_add(2), ends_well=_runs(2)
    ),
    "opening pods": Story(call=f"PATCH .*/pods/{JOB}-.*", before=_nothing, after=_add(8), ends_well=_runs(8)),
    "pruning the record": Story(
        call=f"PATCH {_PARENT}/status", body='"opened":null', before=_nothing, after=_add(2), ends_well=_runs(2)
    ),
    "writing the size": Story(call=f"PATCH {_PARENT}", after=_resize(4), ends_well=_runs(4)),
    "making slices": Story(call=f"POST {_SLICE}", after=_resize(9), ends_well=_runs(9)),
    "admitting slices": Story(call=f"PATCH {_SLICE}/status", after=_resize(9), ends_well=_runs(9)),
    "folding slices": Story(
        call=f"PATCH {_PARENT}/status", body='"foldedSlices":\\[', after=_resize(9), ends_well=_runs(9)
    ),
    "deleting slices": Story(call=f"DELETE {_SLICE}", after=_resize(9), ends_well=_runs(9)),
    "lowering what is granted": Story(
        call=f"PATCH {_PARENT}/status", body='"admission":', before=_add(8), after=_resize(2), ends_well=_runs(2)
    ),
    "evicting": Story(
        call=f"PATCH {_PARENT}/status", body='"Evicted"', before=_add(8), after=_deactivate, ends_well=_is_out
    ),
    "suspending the job": Story(call=f"PATCH .*/jobs/{JOB}", after=_deactivate, ends_well=_is_out),
    "giving quota back": Story(
        call=f"PATCH {_PARENT}/status", body='"admission":null', after=_deactivate, ends_well=_is_out
    ),
    "saying that it finished": Story(
        call=f"PATCH {_PARENT}/status",
        body='"Finished"',
        before=_add(2, completions=2),
        after=_end,
        ends_well=lambda world: world.holds("Finished", JOB) and world.granted(JOB) == 0,
    ),
    "deleting the Workload": Story(call=f"DELETE {_PARENT}", after=_orphan, ends_well=_is_gone),
    "letting the Workload go": Story(call=f"PATCH {_PARENT}", after=_delete, ends_well=_is_gone),
    "deleting pods that do not start": Story(
        call=f"DELETE .*/pods/{JOB}-.*",
        after=_hang,
        ends_well=_runs(4),
        timeout_minutes=1.0,
    ),
    "telling what a queue holds": Story(
        call="PATCH .*/clusterqueues/team/status", after=_resize(4), ends_well=_runs(4)
    ),
    "holding a queue": Story(
        call="PATCH .*/clusterqueues/second",
        after=lambda world: world.add_queue("second"),
        ends_well=lambda world: all("finalizers" in each["metadata"] for each in world.all(CLUSTER_QUEUES)),
    ),
}


@pytest.mark.accept("E15", part="whatever is refused is tried again, and keeps nobody waiting")
@pytest.mark.parametrize("status", REFUSALS, ids=lambda status: status or "silence")
@pytest.mark.parametrize("story", STORIES)
def test_what_is_refused_is_asked_for_less_and_less_often_and_ends_well(story: str, status: int | None) -> None:
    refusing = virtual_time.run(_play(STORIES[story], status))
    assert refusing.refused, "the story never came to this call"
    for call, times in refusing.refused.items():
        _check_bound(call, times)
    assert refusing.sent < MINUTES * 200, "something else was sent without end"


def _check_bound(call: str, times: Sequence[float]) -> None:
    """See to it that a call was not sent too often, by when it was refused."""
    minutes = Counter(int((at - times[0]) // 60) for at in times)
    assert minutes[0] <= FIRST_MINUTE, (call, minutes)
    assert max((count for minute, count in minutes.items() if minute), default=0) <= LATER_A_MINUTE, (call, minutes)


async def _play(story: Story, status: int | None) -> Refusing:
    world, made = World(), list[Refusing]()
    world.add_queue(cpu=20)

    def wrap(api: port.Api) -> port.Api:
        made.append(Refusing(api, story, status))
        return made[-1]

    async with runtime(world, wrap=wrap, timeout_minutes=story.timeout_minutes) as replica:
        world.add_job("other", pods=1, completions=None)
        story.before(world)
        await asyncio.sleep(20)
        made[0].is_on = True
        story.after(world)
        await asyncio.sleep(20)
        world.resize("other", 3)
        world.add_job("fresh", pods=1, completions=None)
        await asyncio.sleep(30 if status else 60)  # while nobody answers, everything takes longer
        assert (world.running("other"), world.running("fresh")) == (3, 1), "others wait"
        await asyncio.sleep(60 * MINUTES - 80)
        assert cycles(replica) < 20 * MINUTES, "it is looked at before it is time to"
        made[0].is_on = False
        world.never_ready.clear()
        await asyncio.sleep(240)
        is_explained = "GateNotOpened" in world.events(JOB)
        assert is_explained or story.ends_well(world), "it does not end well"
    return made[0]


@pytest.mark.accept("E15", part="a gate that cannot be opened is told, and its place given to another")
def test_a_pod_whose_gate_cannot_be_opened_is_told_and_left_alone() -> None:
    async def play() -> None:
        world, made = World(), list[_OnePod]()
        world.add_queue(cpu=2)

        def wrap(api: port.Api) -> port.Api:
            made.append(_OnePod(api))
            return made[-1]

        async with runtime(world, wrap=wrap):
            world.add_job(JOB, pods=3, completions=None)
            world.set_quota(standard=3)
            await asyncio.sleep(5)
            world.resize(JOB, 4)
            await asyncio.sleep(30)
            assert (world.running(JOB), world.gated(JOB)) == (3, 1)
            (told,) = world.events(JOB)["GateNotOpened"]
            assert made[0].name in told["message"]
            before = made[0].refused
            assert before == 3
            await asyncio.sleep(3600)
            assert made[0].refused == before
            assert world.running(JOB) == 3

    virtual_time.run(play())


class _OnePod:
    """A connection to an API server that never lets the first pod's gate be opened."""

    def __init__(self, api: port.Api) -> None:
        self.name = ""
        self.refused = 0
        self.watch = api.watch
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        name = request.path.rpartition("/")[2]
        if request.method == "PATCH" and "/pods/" in request.path and b"schedulingGates" in (request.body or b""):
            self.name = self.name or name
            if name == self.name:
                self.refused += 1
                return port.Response(status=422, body=b'{"reason": "Invalid", "message": "no"}')
        return await self._api.send(request)


class _NeverSettled:
    """A connection on which a job's admission is never answered, and the write that would settle it is refused."""

    def __init__(self, api: port.Api, answer: int | None, status: int | None) -> None:
        self.is_on = True
        self.admissions: list[float] = []
        self.fences: list[float] = []
        self.watch = api.watch
        self._api = api
        self._answer = answer
        self._status = status

    async def send(self, request: port.Request) -> port.Response:
        body = request.body or b""
        if self.is_on and request.method == "PATCH" and f"/workloads/job-{JOB}" in request.path:
            if keys.FENCED.encode() in body:
                return await self._refuse(self.fences, self._status)
            if b'"podSetAssignments"' in body:
                return await self._refuse(self.admissions, self._answer)
        return await self._api.send(request)

    async def _refuse(self, refused: list[float], status: int | None) -> port.Response:
        refused.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.005)
        if status is None:
            raise port.UnreachableError("the connection broke")
        return port.Response(status=status, body=msgspec.json.encode({"reason": "Refused", "message": "no"}))


@pytest.mark.accept("E15", part="whatever is refused is tried again, and keeps nobody waiting")
@pytest.mark.parametrize("status", REFUSALS, ids=lambda status: status or "silence")
@pytest.mark.parametrize("answer", [None, 500], ids=lambda status: status or "silence")
def test_what_would_settle_an_unanswered_admission_is_sent_less_and_less_often_too(
    answer: int | None, status: int | None
) -> None:
    connection = virtual_time.run(_never_settle(answer, status))
    _check_bound("admission", connection.admissions)
    _check_bound("fence", connection.fences)
    assert len(connection.fences) > 20, "it is tried for all of the hour"


async def _never_settle(answer: int | None, status: int | None) -> _NeverSettled:
    world, made = World(), list[_NeverSettled]()
    world.add_queue(cpu=20)

    def wrap(api: port.Api) -> port.Api:
        made.append(_NeverSettled(api, answer, status))
        return made[-1]

    async with runtime(world, wrap=wrap):
        world.add_job(JOB, pods=2, completions=None)
        await asyncio.sleep(5)
        world.add_job("other", pods=1, completions=None)
        await asyncio.sleep(40)
        assert world.running("other") == 1, "others wait"
        await asyncio.sleep(3600)
        assert world.running(JOB) == 0
        made[0].is_on = False
        await asyncio.sleep(120)
        assert world.running(JOB) == 2
    return made[0]
