"""What was decided about guests is told from the events about them: why one waited, or that it took room."""

import pytest

from autoscaler.simulate.observation.guest_record import GuestLife
from autoscaler.simulate.observation.record import Told
from autoscaler.simulate.reporting import episodes
from autoscaler.simulate.reporting.episode import Kind
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import DAY, guest, guests

FULL = "all 4 machines of type small are taken by guests"


def about(reason: str, after: float = 1.0, message: str = FULL, *, name: str = "notebook-0001") -> Told:
    return records.told(reason, after, message, name=name, namespace="labs")


def found(life: GuestLife, *told: Told) -> list[tuple[Kind, int, str, str]]:
    record = records.record(guests=guests(life), told=told)
    return [(one.kind, one.size, one.what, one.why) for one in episodes.episodes(record)]


def test_a_guest_that_waited_is_told_with_how_long_and_why() -> None:
    told = (about("MachineInLine", 0.5, "in line"), about("AllMachinesUsed"), about("NoMachineRoom", 9, "no room"))
    what = "guest notebook-0001 of labs waited 10 min for a machine small of notebooks"
    assert found(guest(waited=600, held=False), *told) == [(Kind.MACHINE, 600, what, FULL)]


def test_a_guest_that_still_waits_is_told_until_the_end() -> None:
    what = "guest notebook-0001 of labs has waited 1 min 40 s for a machine small of notebooks"
    life = guest(came=DAY - 100, waited=None, held=False)
    assert found(life, about("AllMachinesUsed", DAY - 99)) == [(Kind.MACHINE, 100, what, FULL)]


def test_a_guest_that_took_room_is_told_with_the_node() -> None:
    promised = about("MachinePromised", 0.1, "node a is promised: a sleeper of its type holds room for it on a")
    what = "guest notebook-0001 of labs got a machine small of notebooks, and ran after 2 s"
    assert found(guest(), promised) == [(Kind.ROOM, 1, what, promised.message)]


@pytest.mark.parametrize(
    "told",
    [
        about("MachineInLine"),
        about("AllMachinesUsed", name="another"),
        records.told("AllMachinesUsed", 1, FULL, name="notebook-0001", namespace="elsewhere"),
    ],
)
def test_nothing_is_told_of_a_guest_that_only_passed_by(told: Told) -> None:
    assert found(guest(), told) == []


def test_a_guest_that_was_promised_room_and_never_ran_took_none() -> None:
    assert found(guest(waited=None), about("MachinePromised")) == []
