"""Writes take effect once, their answers are known at once, and nothing passes a closed fence."""

import asyncio
import gc

import msgspec
import pytest

from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import writer
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import ENGINE, bench, key, manifest, simulated

pytestmark = pytest.mark.simulated
POSTS = faults.Matching(method="POST", username=ENGINE)


class Shut:
    """A fence that lets nothing pass."""

    def check(self, request: port.Request) -> float:
        raise writer.FencedError(request.path)


@simulated
async def test_a_write_is_known_before_the_watch_brings_it() -> None:
    async with bench() as b:
        b.cluster.faults.watch_lag_seconds = 60
        b.cluster.faults.cut_watches()
        await asyncio.sleep(1)
        await b.writer.create(b.target, manifest("a"))
        assert b.known() == {"a"}
        created = b.table.get(key("a"))
        assert created is not None
        await b.writer.patch(b.target, key("a"), {"data": {"x": "1"}}, only_if=writer.Precondition.of(created))
        patched = b.table.get(key("a"))
        assert patched is not None
        assert patched.meta.resource_version > created.meta.resource_version
        await b.writer.delete(b.target, key("a"), only_if=writer.Precondition.of(patched))
        assert b.known() == set()
        await asyncio.sleep(120)  # the watch tells of creation, change and deletion, all of it old news
        assert b.known() == set()
        assert b.changes.count("+a") == 1


@simulated
async def test_a_change_of_what_is_no_longer_so_is_a_conflict() -> None:
    async with bench() as b:
        await b.writer.create(b.target, manifest("a"))
        old = b.table.get(key("a"))
        assert old is not None
        await b.writer.patch(b.target, key("a"), {"data": {"x": "1"}}, only_if=writer.Precondition.of(old))
        with pytest.raises(port.ConflictError):
            await b.writer.patch(b.target, key("a"), {"data": {"x": "2"}}, only_if=writer.Precondition.of(old))
        with pytest.raises(port.ConflictError):
            await b.writer.delete(b.target, key("a"), only_if=writer.Precondition(uid="somebody-else"))
        assert b.writer.outcomes["patch", "ConfigMap", "conflict"] == 1


@pytest.mark.accept("W18")
@simulated
async def test_a_create_whose_answer_was_lost_is_not_done_twice() -> None:
    async with bench() as b:
        b.cluster.faults.watch_lag_seconds = 60
        b.cluster.faults.cut_watches()
        await asyncio.sleep(1)
        b.cluster.faults.add(faults.LoseAnswer(), POSTS)
        with pytest.raises(port.AlreadyExistsError):
            await b.writer.create(b.target, manifest("a"))
        assert b.known() == {"a"}


@simulated
async def test_a_busy_server_is_asked_again_when_it_said_and_not_for_ever() -> None:
    async with bench() as b:
        started = asyncio.get_running_loop().time()
        b.cluster.faults.add(faults.Answer(code=429, retry_after_seconds=3), POSTS)
        await b.writer.create(b.target, manifest("a"))
        assert asyncio.get_running_loop().time() - started >= 3
        b.cluster.faults.add(faults.Answer(code=503), POSTS, times=None)
        with pytest.raises(port.ApiError, match="503"):
            await b.writer.create(b.target, manifest("b"))
        assert asyncio.get_running_loop().time() - started < 60


@simulated
async def test_a_refusal_is_not_asked_again() -> None:
    async with bench() as b:
        with pytest.raises(port.ApiError, match="422"):
            await b.writer.create(b.target, manifest("Not A Name"))
        assert b.writer.outcomes["create", "ConfigMap", "failed"] == 1


@simulated
async def test_nothing_passes_a_closed_fence() -> None:
    async with bench(fence=Shut()) as b:
        with pytest.raises(writer.FencedError):
            await b.writer.create(b.target, manifest("a"))
        await asyncio.sleep(1)
        assert b.known() == set()
        assert b.writer.outcomes["create", "ConfigMap", "fenced"] == 1


@simulated
async def test_deleting_what_is_gone_is_fine() -> None:
    async with bench() as b:
        await b.writer.delete(b.target, key("ghost"), only_if=writer.Precondition(uid="u"))
        await b.writer.delete(b.target, key("ghost"), only_if=writer.Precondition(uid="u"))


@simulated
async def test_an_object_with_a_finalizer_is_known_to_be_leaving_not_gone() -> None:
    async with bench() as b:
        await b.writer.create(b.target, manifest("a", finalizers=["sluice.dev/cleanup"]))
        held = b.table.get(key("a"))
        assert held is not None
        await b.writer.delete(b.target, key("a"), only_if=writer.Precondition.of(held))
        leaving = b.table.get(key("a"))
        assert leaving is not None
        assert leaving.meta.deleted_at is not None
        await b.writer.patch(
            b.target, key("a"), {"metadata": {"finalizers": None}}, only_if=writer.Precondition.of(leaving)
        )
        assert b.known() == set()  # at once: the place it took is free
        await asyncio.sleep(1)
        assert b.known() == set()


@simulated
async def test_writes_to_one_object_wait_for_each_other_and_others_do_not() -> None:
    async with bench(latency_seconds=1.0) as b:
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(b.writer.create(b.target, manifest(f"c{number}")) for number in range(10)))
        assert asyncio.get_running_loop().time() - started < 2.5
        first = b.table.get(key("c0"))
        assert first is not None
        any_version = writer.Precondition(uid=first.meta.uid)
        started = asyncio.get_running_loop().time()
        await asyncio.gather(
            *(b.writer.patch(b.target, key("c0"), {"data": {str(n): "x"}}, only_if=any_version) for n in range(3))
        )
        assert asyncio.get_running_loop().time() - started >= 2.9


@simulated
async def test_an_eviction_that_a_budget_forbids_is_said_to_be_so_at_once() -> None:
    async with bench() as b:
        pod = {
            "metadata": {"name": "p", "namespace": "default", "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        }
        made = b.cluster.create(kinds.PODS, pod)
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await b.cluster.client().send(
            port.Request(
                method="PATCH",
                path=kinds.PODS.path("p", "default", "status"),
                body=msgspec.json.encode(running),
                content_type=port.MERGE_PATCH,
            )
        )
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        b.cluster.create(kinds.DISRUPTION_BUDGETS, budget)
        await b.cluster.settle()
        with pytest.raises(port.TooManyRequestsError):
            await b.writer.evict(objects.Key("default", "p"), only_if=writer.Precondition(uid=made["metadata"]["uid"]))


@simulated
async def test_busy_objects_do_not_keep_others_waiting() -> None:
    async with bench() as b:
        b.cluster.faults.add(faults.Answer(code=429, retry_after_seconds=5), POSTS, times=writer.CONCURRENCY)
        blocked = [
            asyncio.create_task(b.writer.create(b.target, manifest(f"busy-{number + 1}")))
            for number in range(writer.CONCURRENCY)
        ]
        await asyncio.sleep(0.1)
        started = asyncio.get_running_loop().time()
        await b.writer.create(b.target, manifest("free"))
        assert asyncio.get_running_loop().time() - started < 1
        await asyncio.gather(*blocked)


@simulated
async def test_already_exists_is_said_even_if_what_is_there_cannot_be_read() -> None:
    async with bench() as b:
        b.create("a")
        b.cluster.faults.add(faults.Refuse(), faults.Matching(method="GET", username=ENGINE))
        with pytest.raises(port.AlreadyExistsError):
            await b.writer.create(b.target, manifest("a"))


@simulated
async def test_a_patch_of_another_object_of_that_name_is_a_conflict() -> None:
    async with bench() as b:
        b.create("a")
        with pytest.raises(port.ConflictError):
            await b.writer.patch(b.target, key("a"), {"data": {}}, only_if=writer.Precondition(uid="somebody-else"))


@pytest.mark.accept("W18")
@simulated
async def test_a_write_is_remembered_although_whoever_asked_for_it_was_cancelled() -> None:
    async with bench() as b:
        b.cluster.faults.watch_lag_seconds = 60
        b.cluster.faults.cut_watches()
        b.cluster.faults.add(faults.Delay(seconds=2), POSTS)
        await asyncio.sleep(1)
        cycle = asyncio.create_task(b.writer.create(b.target, manifest("a")))
        await asyncio.sleep(0.5)
        cycle.cancel()
        assert await b.writer.flush(10)
        assert b.known() == {"a"}


@simulated
async def test_a_write_that_fails_after_whoever_asked_for_it_was_cancelled_is_no_uncaught_error() -> None:
    uncaught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    async with bench() as b:
        await b.writer.create(b.target, manifest("a"))
        b.cluster.faults.add(faults.Delay(seconds=2), faults.Matching(method="PATCH", username=ENGINE))
        stale = writer.Precondition(uid="somebody-else")
        cycle = asyncio.create_task(b.writer.patch(b.target, key("a"), {"data": {"x": "1"}}, only_if=stale))
        await asyncio.sleep(0.5)
        cycle.cancel()
        assert await b.writer.flush(10)
        del cycle
        gc.collect()
        assert b.writer.outcomes["patch", "ConfigMap", "conflict"] == 1
    assert uncaught == []


class Ending:
    """A fence that closes in three seconds."""

    def check(self, request: port.Request) -> float:
        del request
        return 3.0


class Recording:
    """An API server that remembers what it was asked, and says no."""

    def __init__(self) -> None:
        self.asked: list[port.Request] = []

    async def send(self, request: port.Request) -> port.Response:
        self.asked.append(request)
        return port.Response(status=403, body=b"{}")

    def watch(self, path: str, query: object) -> object:
        raise NotImplementedError


@pytest.mark.accept("E8", part="a write ends, on the server too, before the Lease does")
@simulated
async def test_the_server_too_is_told_when_a_write_must_have_ended() -> None:
    api = Recording()
    target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple)
    with pytest.raises(port.ApiError):
        await writer.Writer(api, Ending()).with_deadlines().create(target, manifest("a"))  # type: ignore[arg-type]
    with pytest.raises(port.ApiError):
        await writer.Writer(api, Ending()).create(target, manifest("a"))  # type: ignore[arg-type]
    want = [("3000ms", 3.0), (None, 3.0)]
    assert [(each.query.get("timeout"), each.timeout_seconds) for each in api.asked] == want


@simulated
async def test_who_plans_the_same_again_and_again_sends_what_is_refused_ever_more_seldom() -> None:
    async with bench() as b:
        calm = b.writer.calmly(virtual_time.clock())
        b.cluster.faults.add(faults.Answer(code=403), POSTS, times=None)
        held = 0
        for _ in range(600):
            with pytest.raises(port.KubeError) as refused:
                await calm.create(b.target, manifest("a"))
            held += isinstance(refused.value, writer.HeldBackError)
            await asyncio.sleep(1)
        assert 20 <= b.writer.outcomes["create", "ConfigMap", "failed"] <= 28
        assert held == 600 - b.writer.outcomes["create", "ConfigMap", "failed"]
        assert str(refused.value).startswith("create of ConfigMap a was refused ")
        with pytest.raises(port.ApiError, match="403"):
            await calm.create(b.target, manifest("b"))  # another object
        b.cluster.faults.clear()
        await asyncio.sleep(60)
        await calm.create(b.target, manifest("a"))
        assert b.known() == {"a"}


@simulated
async def test_a_server_that_fails_is_asked_once_at_a_time_after_the_first_time() -> None:
    async with bench() as b:
        calm = b.writer.calmly(virtual_time.clock())
        b.cluster.faults.add(faults.Answer(code=500), POSTS, times=None)
        with pytest.raises(port.ApiError):
            await calm.create(b.target, manifest("a"))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        with pytest.raises(port.ApiError, match="500"):
            await calm.create(b.target, manifest("a"))
        assert asyncio.get_running_loop().time() - began < 0.1


@simulated
async def test_a_conflict_and_what_is_gone_are_answers_and_hold_back_nothing() -> None:
    async with bench() as b:
        calm = b.writer.calmly(virtual_time.clock())
        await calm.create(b.target, manifest("a"))
        old = b.table.get(key("a"))
        assert old is not None
        await calm.patch(b.target, key("a"), {"data": {"x": "1"}}, only_if=writer.Precondition.of(old))
        with pytest.raises(port.ConflictError):
            await calm.patch(b.target, key("a"), {"data": {"x": "2"}}, only_if=writer.Precondition.of(old))
        await asyncio.sleep(0.05)
        new = b.table.get(key("a"))
        assert new is not None
        await calm.patch(b.target, key("a"), {"data": {"x": "2"}}, only_if=writer.Precondition.of(new))
        for _ in range(3):
            with pytest.raises(port.NotFoundError):
                await calm.patch(b.target, key("ghost"), {"data": {}}, only_if=writer.Precondition(uid="u"))
        assert b.writer.outcomes["patch", "ConfigMap", "gone"] == 3


@simulated
async def test_conflicts_that_never_end_are_a_refusal() -> None:
    async with bench() as b:
        calm = b.writer.calmly(virtual_time.clock())
        await calm.create(b.target, manifest("a"))
        for _ in range(300):
            with pytest.raises(port.KubeError):
                await calm.patch(b.target, key("a"), {"data": {}}, only_if=writer.Precondition(uid="other"))
            await asyncio.sleep(1)
        assert b.writer.outcomes["patch", "ConfigMap", "conflict"] <= 20


@simulated
async def test_evictions_are_never_held_back() -> None:
    async with bench() as b:
        calm = b.writer.calmly(virtual_time.clock())
        evictions = faults.Matching(method="POST", path="/eviction")
        b.cluster.faults.add(faults.Answer(code=429), evictions, times=None)
        for _ in range(5):
            with pytest.raises(port.TooManyRequestsError):
                await calm.evict(key("a"), only_if=writer.Precondition(uid="u"))
