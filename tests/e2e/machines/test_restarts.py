"""A runtime that is killed: guests are still made as policies say and wait, and the next runtime serves them."""

from pathlib import Path

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.machines import ground
from tests.e2e.machines.ground import Ground, gates_of, machine_type
from tools.local.plane import Plane


@pytest.mark.accept("M2", part="guests get their resources while the runtime is down, on real parts")
@pytest.mark.accept("M14", part="the runtime is killed while a guest waits, on real parts")
def test_a_guest_that_comes_while_the_runtime_is_down_waits_for_the_next_one(
    alone: Ground, machine_plane: Plane, runtime_kubeconfig: Path
) -> None:
    alone.add_node(cpu="2")
    with ground.replica(machine_plane, runtime_kubeconfig):
        alone.add_machine(machine_type(cpu="2"))
        alone.wait_for_rooms(n1=1)

    guest = alone.add_guest("guest")
    assert guest["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert gates_of(guest) == {keys.MACHINE_GATE}
    assert alone.rooms() == {alone.nodes[0]: 1}

    with ground.replica(machine_plane, runtime_kubeconfig):
        assert alone.wait_for_place("guest") == alone.nodes[0]
        alone.delete_guest("guest")
        alone.api.delete(f"{ground.MACHINES}/{alone.group}")
        waiting.eventually(lambda: not alone.left_over(), within_seconds=30)
