"""The registrar keeps nodes equal to instances, and its failures do not stop it."""

import logging
from collections.abc import Sequence

import pytest

from tests.tools.local import builders
from tools.local import api
from tools.local.registrar import node_registrar, registrar_cloud, registrar_nodes

REGION = "eu-west-1"


class FakeCloud:
    """Instances by hand; `errors` are raised by the next reads, one each."""

    def __init__(self, *instances: registrar_nodes.Instance) -> None:
        self.members = list(instances)
        self.detached: set[str] = set()
        self.errors: list[Exception] = []

    def instances(self, now: float) -> tuple[registrar_nodes.Instance, ...]:
        del now
        if self.errors:
            raise self.errors.pop(0)
        return tuple(self.members)

    def alive(self, instances: Sequence[str]) -> frozenset[str]:
        return frozenset(instances) & self.detached


class FakeCluster:
    """Nodes by name, and what was asked."""

    def __init__(self, *nodes: str) -> None:
        self.present = set(nodes)
        self.refused: set[str] = set()
        self.calls: list[str] = []

    def nodes(self) -> frozenset[str]:
        self.calls.append("list")
        return frozenset(self.present)

    def create(self, node: str, manifest: dict[str, object]) -> None:
        assert manifest["kind"] == "Node"
        if node in self.refused:
            raise api.RefusedError("the API server answered 422")
        self.present.add(node)

    def delete(self, node: str) -> None:
        self.present.remove(node)


class EndOfTestError(Exception):
    pass


def name(identifier: str) -> str:
    return registrar_nodes.node_name(identifier, REGION)


def make(cloud: FakeCloud, cluster: FakeCluster, *, boot_seconds: float = 0.0) -> node_registrar.NodeRegistrar:
    return node_registrar.NodeRegistrar(cloud=cloud, cluster=cluster, region=REGION, boot_seconds=boot_seconds)


def sleeps_of(steps: int, cloud: FakeCloud) -> list[float]:
    """Run the loop for so many steps and return how long it slept after each."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == steps:
            raise EndOfTestError

    with pytest.raises(EndOfTestError):
        node_registrar.run(make(cloud, FakeCluster()), interval_seconds=0.5, sleep=sleep)
    return slept


def test_nodes_follow_instances() -> None:
    cloud, cluster = FakeCloud(builders.instance("i-1"), builders.instance("i-2")), FakeCluster(name("i-0"))
    assert make(cloud, cluster).step(10.0) is None
    assert cluster.present == {name("i-1"), name("i-2")}


def test_a_node_that_is_refused_does_not_keep_the_others_waiting() -> None:
    cloud, cluster = FakeCloud(builders.instance("i-1"), builders.instance("i-2")), FakeCluster()
    cluster.refused = {name("i-1")}
    running = make(cloud, cluster)
    running.step(1000.0)
    assert cluster.present == {name("i-2")}
    cluster.refused = set()
    running.step(1001.0)
    assert cluster.present == {name("i-1"), name("i-2")}


def test_a_step_says_when_the_next_instance_will_have_booted() -> None:
    cloud, cluster = FakeCloud(builders.instance("i-1", launched_at=9.0)), FakeCluster()
    booting = make(cloud, cluster, boot_seconds=5)
    assert booting.step(10.0) == 14.0
    assert booting.step(14.0) is None
    assert cluster.present == {name("i-1")}


def test_an_instance_that_left_its_group_alive_keeps_its_node() -> None:
    cloud, cluster = FakeCloud(), FakeCluster(name("i-1"), name("i-2"))
    cloud.detached = {"i-1"}
    make(cloud, cluster).step(10.0)
    assert cluster.present == {name("i-1")}


def test_while_nothing_changes_the_api_server_is_asked_only_now_and_then() -> None:
    cloud, cluster = FakeCloud(builders.instance("i-1")), FakeCluster()
    steady = make(cloud, cluster)
    for now in (10.0, 11.0, 12.0):
        steady.step(now)
    assert cluster.calls == ["list"]
    cloud.members.append(builders.instance("i-2"))
    steady.step(12.5)
    assert cluster.present == {name("i-1"), name("i-2")}
    cluster.present.clear()  # deleted behind our back
    steady.step(12.5 + node_registrar.RECHECK_SECONDS)
    assert cluster.present == {name("i-1"), name("i-2")}


def test_errors_are_said_once_per_kind_and_retried_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    cloud = FakeCloud()
    cloud.errors = [registrar_cloud.CloudError("down")] * 5 + [api.ApiError("gone")]
    with caplog.at_level(logging.INFO, logger="node-registrar"):
        slept = sleeps_of(7, cloud)
    assert slept[:6] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert slept[6] == 0.5
    kinds = [record.getMessage().split(" error")[0] for record in caplog.records]
    assert kinds == ["step_failed kind=CloudError", "step_failed kind=ApiError", "recovered"]


@pytest.mark.parametrize(
    ("took", "wake_at", "want"),
    [
        (0.01, None, 0.5),
        (0.01, 100.2, 0.2),
        (0.01, 99.0, 0.0),
        (0.01, 500.0, 0.5),
        (0.3, None, 1.2),
        (9.0, None, 2.0),
        (9.0, 100.5, 0.5),
    ],
)
def test_a_wait_is_the_interval_longer_after_slow_steps_and_shorter_for_a_boot(
    took: float, wake_at: float | None, want: float
) -> None:
    got = node_registrar.wait_seconds(0.5, took=took, wake_at=wake_at, now=100.0)
    assert got == pytest.approx(want)
