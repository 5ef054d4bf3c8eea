"""A warm pool on real parts: room for guests starts nodes and keeps them, so that guests need not wait for a node.

A machine fills a node, so that machines can be counted by nodes. Nodes that nobody needs are let go after seconds.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.api import keys
from tests.e2e import replicas, waiting
from tests.e2e.capacity.site import WHOLE_NODE, Site
from tests.e2e.machines import ground
from tests.e2e.machines.ground import Ground, Object
from tools.local.api import Api
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_rules import AsgRules
from tools.local.plane import Plane
from tools.local.registrar import registrar_nodes

IDLE_SECONDS = 2


@pytest.fixture
def nodes(machine_plane: Plane, runtime_api: Api) -> Iterator[Site]:
    """Pools and Auto Scaling groups, cleared away in the end."""
    with AsgRules.start(machine_plane.aws_endpoint, Pace(pending_seconds=0.2)) as asg_rules:
        made = Site(plane=machine_plane, asg_rules=asg_rules, remover=runtime_api)
        try:
            made.open()
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def running(nodes: Site, kubeconfig: Path) -> Iterator[replicas.Replica]:
    """Run machines and capacity in one process."""
    with ground.replica(
        nodes.plane,
        kubeconfig,
        "machines,capacity",
        *("--cluster", nodes.cluster, "--pod-name", "one"),
        AWS_ENDPOINT_URL=nodes.asg_rules.url,
    ) as replica:
        yield replicas.ready(replica)
        assert not replica.entries("cycle_failed"), replica.entries("cycle_failed")


def add_machine(site: Ground, pool: str, machine: Object, *, provision: bool) -> None:
    """Make a group of one type on whatever nodes a pool has."""
    entry = ground.selected({keys.INSTANCE_POOL: pool}, taint=True)
    site.add_machine(machine, nodes=[entry], provision=provision)


def machines(available: int) -> Object:
    return ground.machine_type(cpu=WHOLE_NODE, available=available)


def wait_for_room_on_all(site: Ground, nodes: Site, count: int) -> set[str]:
    """Wait until so many nodes are there and a sleeper holds room on each; return the nodes."""
    there = set(nodes.wait_nodes(count))
    waiting.eventually(lambda: site.rooms() == dict.fromkeys(there, 1), within_seconds=30)
    return there


def end_instance(nodes: Site, node: str) -> None:
    """Take the instance of a node away, and have its group not replace it."""
    nodes.autoscaling.terminate_instance_in_auto_scaling_group(
        InstanceId=registrar_nodes.instance_of(node), ShouldDecrementDesiredCapacity=True
    )


@pytest.mark.accept("M15")
def test_sleepers_start_nodes_and_guests_run_there_sooner_than_without(
    alone: Ground, second: Ground, nodes: Site, runtime_kubeconfig: Path
) -> None:
    warm_pool, cold_pool = (nodes.add_pool(name, limits__maxIdleSeconds=IDLE_SECONDS) for name in ("warm", "cold"))
    warm, cold = nodes.add_group(warm_pool), nodes.add_group(cold_pool)
    with running(nodes, runtime_kubeconfig):
        nodes.wait_known(warm, cold)

        # 1 There is no node: sleepers have two started.
        assert nodes.desired() == {}
        add_machine(alone, warm_pool, machines(2), provision=True)
        first = wait_for_room_on_all(alone, nodes, 2)
        alone.wait_for_usage(maximum=2, reserved=2, used=0, waiting=0)
        assert nodes.desired() == {warm: 2}

        # 2 A guest takes the room of one of them, and no node is started for it.
        asked = time.monotonic()
        alone.add_guest("guest")
        home = alone.wait_for_place("guest")
        with_pool = time.monotonic() - asked
        assert home in first
        alone.wait_for_usage(reserved=1, used=1, waiting=0)
        assert alone.rooms() == dict.fromkeys(first - {home}, 1)
        assert nodes.instances() == {"running": 2}

        # 3 There may be one machine more: its room is started too, beside the guest.
        alone.change_machine(machineTypes=[machines(3)])
        after = set(nodes.wait_nodes(3))
        alone.wait_for_usage(maximum=3, reserved=2, used=1, waiting=0)
        assert alone.rooms() == dict.fromkeys(after - {home}, 1)

        # 4 The guest goes: its node is held for the next one.
        alone.delete_guest("guest")
        assert wait_for_room_on_all(alone, nodes, 3) == after
        assert first < after

        # 5 An instance is lost, and with it the room there: another is started.
        end_instance(nodes, home)
        waiting.eventually(lambda: home not in nodes.nodes())
        kept = wait_for_room_on_all(alone, nodes, 3)
        assert after - {home} < kept
        assert nodes.instances() == {"running": 3, "ended": 1}

        # 6 Where no room is held a guest waits for a node. Until its group pulls nodes, it gets none.
        add_machine(second, cold_pool, machines(1), provision=False)
        second.add_guest("guest")
        second.wait_for_usage(reserved=0, used=0, waiting=1)
        assert nodes.desired() == {warm: 3}
        asked = time.monotonic()
        second.change_machine(provision=True)
        nodes.wait_nodes(4)
        assert second.wait_for_place("guest") not in kept
        without = time.monotonic() - asked
        print(f"a guest waited {with_pool:.1f} s with a warm pool, {without:.1f} s without")  # noqa: T201  # told
        assert with_pool < without

        # 7 Nothing else was let go for all that time, though nobody worked there.
        assert nodes.instances() == {"running": 4, "ended": 1}
        assert nodes.marked() == set()

        # 8 The groups go, and their nodes with them.
        second.delete_guest("guest")
        for each in (alone, second):
            each.api.delete(f"{ground.MACHINES}/{each.group}")
        nodes.wait_nodes(0)
        assert nodes.instances() == {"ended": 5}
