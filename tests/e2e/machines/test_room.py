"""Room is held by sleepers and given to guests, on the real API server, scheduler and StatefulSet controller."""

import statistics
import time

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.machines import ground
from tests.e2e.machines.ground import Ground, gates_of, machine_type, node_of


@pytest.mark.accept("M10", part="the sleeper that goes is the one where the guest fits, on real parts")
@pytest.mark.accept("M14", part="a waiting guest whose room a sleeper of its type holds ends up bound, on real parts")
def test_a_guest_takes_the_room_of_a_sleeper_and_gives_it_back(site: Ground) -> None:
    node = site.add_node(cpu="2")
    site.add_machine(machine_type(cpu="2"))
    site.wait_for_rooms(n1=1)
    site.wait_for_usage(maximum=1, reserved=1, used=0, waiting=0)

    site.add_guest("guest")
    assert site.wait_for_place("guest") == node
    site.wait_for_usage(maximum=1, reserved=0, used=1, waiting=0)
    (sleeper,) = site.sleepers()
    assert (gates_of(sleeper), node_of(sleeper)) == ({keys.MACHINE_GATE}, None)

    site.delete_guest("guest")
    site.wait_for_rooms(n1=1)
    site.wait_for_usage(reserved=1, used=0)


@pytest.mark.accept("M3", part="a guest with a node is used and a gated one waits, on real parts")
@pytest.mark.accept("M14", part="guests beyond maximum wait behind their gate and are told, on real parts")
def test_a_guest_too_many_waits_behind_its_gate_and_is_told(site: Ground) -> None:
    site.add_node(cpu="8")
    site.add_machine(machine_type(cpu="2", available=1))
    site.wait_for_rooms(n1=1)
    site.add_guest("first")
    site.wait_for_place("first")
    site.add_guest("second")
    site.wait_for_usage(reserved=0, used=1, waiting=1)
    site.wait_for_told("second", "AllMachinesUsed")
    assert gates_of(site.guest("second")) == {keys.MACHINE_GATE}
    site.delete_guest("first")
    site.wait_for_place("second")


@pytest.mark.accept("M13", part="a changed type replaces its sleepers, on real parts")
def test_sleepers_get_the_size_that_their_type_has_now(site: Ground) -> None:
    site.add_node(cpu="4")
    site.add_machine(machine_type(cpu="1", available=2))
    site.wait_for_rooms(n1=2)
    site.change_machine(machineTypes=[machine_type(cpu="2", available=2)])

    def resized() -> bool:
        sizes = [each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in site.sleepers()]
        assert sizes == ["2", "2"]
        return True

    waiting.eventually(resized, within_seconds=30)
    site.wait_for_rooms(n1=2)


@pytest.mark.accept("M12", part="a Machine that is deleted takes all its marks along, and guests run on, on real parts")
def test_a_deleted_machine_leaves_running_guests_and_nothing_else(site: Ground) -> None:
    first, second = site.add_node(cpu="2"), site.add_node(cpu="2")
    site.add_machine(machine_type(cpu="2", available=2), nodes=[ground.entry(first, taint=True), ground.entry(second)])
    site.wait_for_rooms(n1=1, n2=1)
    assert site.marks(first)["taint " + keys.NODE_POOL] == keys.NODE_POOL_READY
    site.add_guest("guest")
    home = site.wait_for_place("guest")

    site.api.delete(f"{ground.MACHINES}/{site.group}")
    other = second if home == first else first
    waiting.eventually(lambda: not site.marks(other), within_seconds=30)
    assert site.guest("guest")["status"]["phase"] == "Running"
    site.delete_guest("guest")
    waiting.eventually(lambda: not site.left_over(), within_seconds=30)


@pytest.mark.accept("M1", part="the later group says whose the node is and leaves it alone, on real parts")
def test_a_node_that_two_groups_ask_for_is_one_groups_and_the_other_says_so(site: Ground, second: Ground) -> None:
    node = site.add_node(cpu="2")
    for each in (site, second):
        each.add_machine(machine_type(cpu="2"), nodes=[ground.entry(node)])
    older, later = sorted(
        (site, second), key=lambda each: (each.machine()["metadata"]["creationTimestamp"], each.group)
    )
    waiting.eventually(lambda: later.condition("NodesReady") == "NodeOfAnotherGroup", within_seconds=30)
    waiting.eventually(lambda: older.rooms() == {node: 1}, within_seconds=30)
    assert later.node_conditions() == {node: "NotReady"}
    assert later.rooms() == {}
    assert site.marks(node)[keys.MACHINE_GROUP] == older.group
    older.api.delete(f"{ground.MACHINES}/{older.group}")
    waiting.eventually(lambda: later.rooms() == {node: 1}, within_seconds=30)


@pytest.mark.accept("M6", part="marks follow the mode and the node's health, on real parts")
@pytest.mark.accept("M7", part="the condition follows the mode and the node's health, on real parts")
def test_a_nodes_marks_and_condition_follow_its_mode_and_its_health(site: Ground) -> None:
    node = site.add_node(cpu="2")
    site.add_machine(machine_type(cpu="2"), nodes=[ground.entry(node, taint=True)])
    label, group = keys.machine_label(ground.TYPE), {keys.MACHINE_GROUP: site.group}
    taints = {f"taint {label}": site.group, f"taint {keys.NODE_POOL}": keys.NODE_POOL_READY}
    marked = {**group, label: site.group, keys.NODE_POOL: keys.NODE_POOL_READY, **taints}

    def stands(want: str, marks: dict[str, str]) -> bool:
        assert (site.node_conditions(), site.marks(node)) == ({node: want}, marks)
        return True

    def cordon(value: bool | None) -> None:  # noqa: FBT001  # what is written
        site.api.merge(f"{ground.NODES}/{node}", {"spec": {"unschedulable": value}})

    waiting.eventually(lambda: stands("Ready", marked), within_seconds=30)
    cordon(True)
    waiting.eventually(lambda: stands("NotReady", {**group, **taints}), within_seconds=30)
    cordon(None)
    waiting.eventually(lambda: stands("Ready", marked), within_seconds=30)
    site.change_machine(nodePool=[ground.entry(node, mode="maintenance")])
    waiting.eventually(lambda: stands("Maintenance", group), within_seconds=30)


GUESTS = 5


def test_the_status_tells_of_a_guest_soon_after_it_was_made(site: Ground) -> None:
    site.add_node(cpu="16")
    site.add_machine(machine_type(cpu="2", available=GUESTS + 1))
    site.wait_for_rooms(n1=GUESTS + 1)
    site.wait_for_usage(used=0, waiting=0)
    seconds = []
    for number in range(1, GUESTS + 1):
        site.add_guest(f"guest-{number}")
        made, said = time.monotonic(), 0
        while said < number:  # asked again and again: what is measured is shorter than a pause
            usage = site.usage()
            said = usage["used"] + usage["waiting"]
            assert time.monotonic() < made + 30, usage
        seconds.append(time.monotonic() - made)
        site.wait_for_usage(used=number, waiting=0)
    told = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s (bar: 1 s)"
    print(f"a guest is in its Machine's status after {told}")  # noqa: T201  # told, not judged: the computer is shared
