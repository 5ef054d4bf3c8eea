"""Kubelets beyond what KWOK can play: exits, restarts, failing nodes, lost nodes."""

import asyncio
from typing import Any

import pytest

from autoscaler.kube import kinds
from autoscaler.simulation import kubelet, virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.kubelet import Kubelets, Run
from autoscaler.simulation.scheduler import Scheduler
from tests.contract.worlds import Body, World


class Stage:
    """A cluster with one node and a script for its pods."""

    def __init__(self, **run: Any) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock())
        Scheduler(self.cluster)
        self.kubelets = Kubelets(self.cluster, script=lambda _: Run(**run))
        self.world = World(api=self.cluster.client(), namespace="default")

    async def node(self, name: str = "node") -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        body = {"metadata": {"name": name, "labels": {"name": name}}, "status": {"allocatable": amounts}}
        await self.world.create(kinds.NODES, body)
        await asyncio.sleep(2)

    async def pod(self, name: str = "p", **spec: Any) -> None:
        containers = [{"name": "main", "image": "none"}]
        await self.world.create(kinds.PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **spec}})

    async def phase(self, name: str = "p") -> str:
        phase: str = (await self.world.get(kinds.PODS, name))["status"]["phase"]
        return phase

    async def restarts(self) -> int:
        [container] = (await self.world.get(kinds.PODS, "p"))["status"]["containerStatuses"]
        count: int = container["restartCount"]
        return count


def taints(node: Body) -> set[tuple[str, str]]:
    return {
        (taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in node["spec"].get("taints", [])
    }


async def test_a_pod_takes_its_time_to_start() -> None:
    stage = Stage(start_seconds=30)
    await stage.node()
    await stage.pod()
    await asyncio.sleep(29)
    assert await stage.phase() == "Pending"
    await asyncio.sleep(2)
    assert await stage.phase() == "Running"


@pytest.mark.parametrize(
    ("policy", "exit_code", "want"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 3, "Running"),
        ("Always", 0, "Running"),
    ],
)
async def test_what_follows_an_exit_is_the_restart_policys(policy: str, exit_code: int, want: str) -> None:
    stage = Stage(run_seconds=60, exit_code=exit_code)
    await stage.node()
    await stage.pod(restartPolicy=policy)
    await asyncio.sleep(65)
    assert await stage.phase() == want
    await asyncio.sleep(10)
    assert await stage.restarts() == (1 if want == "Running" else 0)


async def test_restarts_back_off() -> None:
    stage = Stage(start_seconds=0, run_seconds=1, exit_code=1)
    await stage.node()
    await stage.pod()
    await asyncio.sleep(1 + 10 + 1 + 20 + 1 + 40 + 0.5)
    assert await stage.restarts() == 3


async def test_a_pod_that_stops_slowly_is_cut_short_by_its_grace() -> None:
    stage = Stage(stop_seconds=100)
    await stage.node()
    await stage.pod(terminationGracePeriodSeconds=20)
    await asyncio.sleep(5)
    await stage.world.delete(kinds.PODS, "p")
    await asyncio.sleep(19)
    assert await stage.world.find(kinds.PODS, "p")
    await asyncio.sleep(2)
    assert await stage.world.find(kinds.PODS, "p") is None


async def test_a_failed_node_is_noticed_and_its_pods_are_deleted_after_their_toleration() -> None:
    stage = Stage()
    await stage.node()
    await stage.pod()
    await asyncio.sleep(5)
    stage.kubelets.fail("node")
    await asyncio.sleep(49)
    assert taints(await stage.world.get(kinds.NODES, "node")) == set()
    await asyncio.sleep(2)
    want = {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    assert taints(await stage.world.get(kinds.NODES, "node")) == want
    await asyncio.sleep(297)
    assert "deletionTimestamp" not in (await stage.world.get(kinds.PODS, "p"))["metadata"]
    await asyncio.sleep(5)
    assert "deletionTimestamp" in (await stage.world.get(kinds.PODS, "p"))["metadata"]
    await asyncio.sleep(3600)
    assert await stage.world.find(kinds.PODS, "p"), "nobody stops it while its node is away"
    stage.kubelets.recover("node")
    await asyncio.sleep(5)
    assert await stage.world.find(kinds.PODS, "p") is None
    assert taints(await stage.world.get(kinds.NODES, "node")) == set()


async def test_a_node_that_recovers_in_time_keeps_its_pods() -> None:
    stage = Stage()
    await stage.node()
    await stage.pod()
    await asyncio.sleep(5)
    stage.kubelets.fail("node")
    await asyncio.sleep(200)
    stage.kubelets.recover("node")
    await asyncio.sleep(3600)
    assert await stage.phase() == "Running"
    assert "deletionTimestamp" not in (await stage.world.get(kinds.PODS, "p"))["metadata"]


async def test_pods_of_a_lost_node_fail_and_go() -> None:
    stage = Stage()
    await stage.node()
    await stage.pod()
    await asyncio.sleep(5)
    await stage.world.delete(kinds.NODES, "node")
    await asyncio.sleep(40)
    assert await stage.phase() == "Running"
    await asyncio.sleep(40)
    assert await stage.world.find(kinds.PODS, "p") is None


async def test_a_node_that_comes_back_under_its_name_keeps_its_pods() -> None:
    stage = Stage()
    await stage.node()
    await stage.pod()
    await asyncio.sleep(5)
    await stage.world.delete(kinds.NODES, "node")
    await asyncio.sleep(20)
    await stage.node()
    await asyncio.sleep(120)
    assert await stage.phase() == "Running"


@pytest.mark.parametrize(
    ("text", "want"), [("90s", 90.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("250ms", 0.25), ("2m", 120.0)]
)
def test_durations_are_read(text: str, want: float) -> None:
    assert kubelet.duration(text) == want


@pytest.mark.parametrize("text", ["", "90", "s", "1d", "1h 30m"])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        kubelet.duration(text)
