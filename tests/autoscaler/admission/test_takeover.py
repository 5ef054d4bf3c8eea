"""A Workload that was written without an answer is read as it is, and everything if that settles nothing."""

import asyncio
import contextlib
from typing import Any, cast

import pytest

from autoscaler import control
from autoscaler.admission import doubts, takeover, writes
from autoscaler.admission.state import known
from autoscaler.admission.workloads import workload
from autoscaler.control import takeover as control_takeover
from autoscaler.control.writes import Verb
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
        self.doubts = doubts.Doubts(virtual_time.clock(), self.tables.workloads)
        self.context: Any = _Context(self)
        tables, context = cast("known.Tables", self.tables), cast("control.ControllerContext", self.context)
        self.takeover = takeover.Takeover(context, tables, self.doubts)

    def names(self) -> list[str]:
        return [each.meta.key.name for table in (self.tables.workloads, self.tables.pods) for each in table]


class _Tables:
    def __init__(self) -> None:
        self.workloads: store.Table[Any] = store.Table()
        self.pods: store.Table[Any] = store.Table()
        self.summed_up = (
            control_takeover.Read(resource=workload.WORKLOADS, decode=workload.decode, table=self.workloads),
            control_takeover.Read(resource=kinds.PODS, decode=objects.pod, table=self.pods),
        )


class _Context:
    def __init__(self, bench: Bench) -> None:
        self.api = bench.cluster.client("runtime")
        self.vacant_since = lambda: bench.led_until


def _written(uid: str) -> writes.Write:
    key = objects.Key("default", "job-sample")
    return writes.Write(
        step=writes.Step.ADMIT, on=writes.On.WORKLOAD, verb=Verb.PATCH, key=key, uid=uid, body={}, why=""
    )


@simulated
async def test_a_single_workload_is_read_as_it_is_now() -> None:
    bench = Bench()
    await bench.takeover.look_at([_written("any")])
    assert bench.names() == ["job-sample"]


@simulated
async def test_a_single_workload_that_is_gone_is_forgotten() -> None:
    bench = Bench()
    await bench.takeover.look_at([_written("any")])
    (there,) = bench.tables.workloads
    bench.cluster.faults.add(faults.Answer(code=404), faults.Matching(method="GET"), times=1)
    await bench.takeover.look_at([_written(there.meta.uid)])
    assert bench.names() == []


@simulated
async def test_a_single_workload_that_cannot_be_read_stays_as_it_is_known() -> None:
    bench = Bench()
    bench.cluster.faults.add(faults.Answer(code=500), faults.Matching(method="GET"), times=1)
    await bench.takeover.look_at([_written("any"), _written("any")])
    assert bench.names() == ["job-sample"]


class Odd:
    """An API server that answers what makes no sense."""

    async def send(self, request: port.Request) -> port.Response:
        del request
        return port.Response(status=200, body=b'{"metadata": 1}')


@simulated
async def test_a_single_workload_that_makes_no_sense_is_left_to_the_watch() -> None:
    bench = Bench()
    await bench.takeover.look_at([_written("any")])
    bench.context.api = Odd()
    await bench.takeover.look_at([_written("any")])
    assert bench.names() == ["job-sample"]


@simulated
async def test_what_is_in_doubt_and_overdue_lets_everything_be_read_anew_once() -> None:
    bench = Bench()
    await bench.takeover.look_at([_written("any")])
    (there,) = bench.tables.workloads
    admitted = writes.patch_status(writes.On.WORKLOAD, writes.Step.ADMIT, there, {}, "")
    with contextlib.suppress(port.UnreachableError), bench.doubts.unless_answered(admitted):
        raise port.UnreachableError("the connection broke")
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample"]
    await asyncio.sleep(control_takeover.UNSURE_SECONDS)
    bench.cluster.faults.add(faults.Answer(code=500), faults.Matching(method="GET", path="/pods"), times=1)
    with pytest.raises(port.KubeError):
        await bench.takeover.catch_up()
    assert bench.doubts.fences() != []
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]
    assert bench.doubts.fences() == []
    bench.cluster.create(workload.WORKLOADS, manifests.resource("Workload", name="later"))
    await bench.takeover.catch_up()
    assert bench.names() == ["job-sample", "pod"]
