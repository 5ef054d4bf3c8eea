"""The report says how long guests waited for a machine, with room held and without, and how many were used."""

from autoscaler.api.settings.scaling import PriceList
from autoscaler.simulate.observation.guest_record import Guests, MachineName, MachineUse
from autoscaler.simulate.reporting import guest_tables, report
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import DAY, HOUR, guest, guests


def rows(seen: Guests) -> list[list[str]]:
    return [line.split() for line in guest_tables.machines(records.record(guests=seen))][1:]


def test_waits_with_room_held_and_without_are_told_apart() -> None:
    seen = guests(
        guest("a", waited=2),
        guest("b", waited=3),
        guest("c", waited=4),
        guest("d", waited=HOUR, held=False),
        guest("e", came=DAY - 2 * HOUR, waited=None, held=False),
        most_used=3,
    )
    want = ["notebooks/small", "5", "3", "3", "s", "4", "s", "2", "1", "h", "2", "h", "3", "of", "4", "1"]
    assert rows(seen) == [want]


def test_machines_that_nobody_asked_for_are_shown_too() -> None:
    assert rows(guests(most_used=0)) == [["notebooks/small", "none", "none", "none", "0", "of", "4", "none"]]


def test_guests_of_other_types_are_not_counted() -> None:
    other = MachineName(group="notebooks", type="large")
    use = MachineUse(machine=other, maximum=1, most_used=0)
    seen = guests(guest())
    both = Guests(lives=seen.lives, uses=(use, *seen.uses))
    assert [row[:2] for row in rows(both)] == [["notebooks/large", "none"], ["notebooks/small", "1"]]


def test_a_maximum_that_was_not_kept_is_said_loudly() -> None:
    assert "At no moment" in guest_tables.checked(guests())
    want = "A MAXIMUM WAS NOT KEPT: 2 pods more than machines of one type."
    assert guest_tables.checked(guests(beyond=2)) == want


def test_a_report_tells_of_guests_if_there_were_any() -> None:
    some, none = (records.record(guests=seen) for seen in (guests(guest()), guests()))
    text, without = (report.report(each, PriceList()) for each in (some, none))
    assert "1 jobs and pods came." in text
    assert "MACHINES: how long guests waited until they ran" in text
    assert "At no moment were more machines given or held than there are." in text
    assert "MACHINES" not in without
