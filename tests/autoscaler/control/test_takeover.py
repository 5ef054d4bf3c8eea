"""A new leader reads what an earlier one wrote, once."""

from typing import Any, cast

import msgspec
import pytest

from autoscaler import control
from autoscaler.admission import workload
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
                takeover.Read(resource=workload.WORKLOADS, decode=workload.decode, table=self.tables.workloads),
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
        self.vacant_since = lambda: bench.led_until


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
