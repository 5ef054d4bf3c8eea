"""Everything is read anew, once: by a new leader, and where nobody knows whether a write of our own took effect."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from autoscaler import control
from autoscaler.admission.workloads import workload
from autoscaler.control import takeover
from autoscaler.kube import kinds, objects, port, store
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests import builders as manifests
from tests.autoscaler.kube.cluster import simulated


class Bench:
    """A cluster with a Workload and a pod that no watch has told of."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock())
        self.cluster.install_definitions()
        self.cluster.create(workload.WORKLOADS, manifests.resource("Workload"))
        spec = {"containers": [{"name": "c", "image": "c"}]}
        self.cluster.create(kinds.PODS, {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec})
        self.led_until: float | None = None
        self.tables = _Tables()
        self.takeover = takeover.Takeover(
            cast("control.ControllerContext", _Context(self)),
            (
                takeover.Read(resource=workload.WORKLOADS, decode=_decode, table=self.tables.workloads),
                takeover.Read(resource=kinds.PODS, decode=objects.pod, table=self.tables.pods),
            ),
        )

    def names(self) -> list[str]:
        return [each.meta.key.name for table in (self.tables.workloads, self.tables.pods) for each in table]


class _Tables:
    def __init__(self) -> None:
        self.workloads: store.Table[Any] = store.Table()
        self.pods: store.Table[Any] = store.Table()


class _Context:
    def __init__(self, bench: Bench) -> None:
        self.api = bench.cluster.client("runtime")
        self.clock = virtual_time.clock()
        self.vacant_since = lambda: bench.led_until


def _decode(raw: msgspec.Raw) -> workload.Workload:
    decoded = workload.decode(raw)
    if decoded.meta.key.name == "odd":
        raise ValueError("this makes no sense")
    return decoded


@simulated
async def test_nothing_is_read_where_nobody_led_before() -> None:
    bench = Bench()
    await bench.takeover.catch_up()
    assert bench.names() == []


@simulated
async def test_workloads_and_pods_are_read_once_for_each_leader_before_us() -> None:
    bench = Bench()
    bench.led_until = 1.0
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]
    bench.cluster.create(workload.WORKLOADS, manifests.resource("Workload", name="later"))
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]
    bench.led_until = 2.0
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "later", "pod"]


@simulated
async def test_what_is_gone_is_forgotten() -> None:
    bench = Bench()
    gone = {"metadata": {"name": "gone", "namespace": "default", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    bench.tables.pods.seen(objects.pod(msgspec.json.encode(gone)))
    bench.led_until = 1.0
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]


@simulated
async def test_a_look_that_failed_is_taken_again() -> None:
    bench = Bench()
    bench.led_until = 1.0
    bench.cluster.faults.add(faults.Answer(code=500), faults.Matching(method="GET", path="/pods"), times=1)
    with pytest.raises(port.KubeError):
        await bench.takeover.catch_up()
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]


@simulated
async def test_an_object_that_makes_no_sense_keeps_no_other_from_being_read() -> None:
    bench = Bench()
    bench.cluster.create(workload.WORKLOADS, manifests.resource("Workload", name="odd"))
    await bench.takeover.catch_up(anew=True)
    assert bench.names() == ["job-sample", "pod"]


@simulated
async def test_everything_is_read_anew_where_the_caller_asks_for_it() -> None:
    bench = Bench()
    assert await bench.takeover.catch_up() is False
    assert await bench.takeover.catch_up(anew=True) is True
    assert bench.names() == ["job-sample", "pod"]


UNANSWERED = port.UnreachableError("the connection broke")


@pytest.mark.parametrize("error", [UNANSWERED, port.ApiError(504, "Timeout", "")], ids=["silence", "timeout"])
def test_a_write_without_an_answer_is_waited_for_and_everything_read_anew_then(error: port.KubeError) -> None:
    virtual_time.run(_waited_for(error))


async def _waited_for(error: port.KubeError) -> None:
    bench = Bench()
    bench.takeover.doubt(error)
    want = virtual_time.clock().now() + takeover.UNSURE_SECONDS
    await asyncio.sleep(takeover.UNSURE_SECONDS - 1)
    bench.takeover.doubt(port.ApiError(500, "InternalError", ""))  # which has ended, and ends no doubt of another
    assert bench.takeover.unsure_until == want
    assert await bench.takeover.catch_up() is False
    await asyncio.sleep(1)
    assert await bench.takeover.catch_up() is True
    assert bench.takeover.unsure_until is None


@simulated
async def test_a_write_that_the_server_failed_at_has_ended_and_may_have_taken_effect() -> None:
    bench = Bench()
    bench.takeover.doubt(port.ApiError(500, "InternalError", ""))
    assert bench.takeover.unsure_until == virtual_time.clock().now()
    assert await bench.takeover.catch_up() is True


@simulated
async def test_a_refused_write_is_in_no_doubt() -> None:
    bench = Bench()
    bench.takeover.doubt(port.ConflictError(409, "Conflict", ""))
    assert bench.takeover.unsure_until is None
    assert await bench.takeover.catch_up() is False


@simulated
async def test_what_is_overdue_stays_in_doubt_while_reading_fails_and_while_something_else_is_read() -> None:
    bench = Bench()
    bench.takeover.doubt(UNANSWERED)
    await bench.takeover.catch_up(anew=True)
    assert bench.takeover.unsure_until is not None
    await asyncio.sleep(takeover.UNSURE_SECONDS + 5)
    bench.cluster.faults.add(faults.Answer(code=500), faults.Matching(method="GET", path="/pods"), times=1)
    with pytest.raises(port.KubeError):
        await bench.takeover.catch_up()
    assert bench.takeover.unsure_until == virtual_time.clock().now()
    assert await bench.takeover.catch_up() is True
    assert bench.takeover.unsure_until is None
