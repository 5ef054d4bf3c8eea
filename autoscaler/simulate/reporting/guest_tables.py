"""The table of a report about guests: how long they waited for a machine, where room was held and where not. Pure.

It decides how waits are summed up and shown; it must not leave out those who still wait.
"""

from collections.abc import Sequence

from autoscaler import units
from autoscaler.simulate.observation.guest_record import GuestLife, Guests, MachineUse
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.reporting import tables, words


def machines(record: Record) -> list[str]:
    """Say of each machine type how many guests came, how long they waited, and how many ran at once."""
    head = ("machines", "guests", "room held", "median", "worst", "none held", "median", "worst", "most used", "wait")
    return tables.table(head, [_row(record, each) for each in record.guests.uses])


def _row(record: Record, use: MachineUse) -> tuple[str, ...]:
    lives = [each for each in record.guests.lives if each.machine == use.machine]
    held, others = ([each for each in lives if each.is_room_held is is_held] for is_held in (True, False))
    still = sum(each.began_at is None for each in lives)
    return (
        f"{use.machine.group}/{use.machine.type}",
        _some(len(lives)),
        *_waits(record, held),
        *_waits(record, others),
        f"{use.most_used} of {use.maximum}",
        _some(still),
    )


def _waits(record: Record, lives: Sequence[GuestLife]) -> tuple[str, str, str]:
    """Say how many there are and how long they waited, the one in the middle and the worst."""
    if not lives:
        return "none", "", ""
    seconds = sorted(life.wait.seconds(record.ends_at) for life in lives)
    return f"{len(lives):,}", units.duration(tables.quantile(seconds, 0.5)), units.duration(seconds[-1])


def checked(guests: Guests) -> str:
    """Say whether maxima were kept, as it was seen at every change of a pod."""
    if not guests.beyond_maximum:
        return "At no moment were more machines given or held than there are."
    return f"A MAXIMUM WAS NOT KEPT: {words.pods(guests.beyond_maximum)} more than machines of one type."


def _some(count: int) -> str:
    return f"{count:,}" if count else "none"
