"""What the runtime decided about guests, from the events that it recorded about them. Pure.

It decides which events are worth a line of the report. It must not guess reasons: each is quoted as it was told.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler import units
from autoscaler.machines.model import Reason
from autoscaler.simulate.observation.guest_record import GuestLife
from autoscaler.simulate.observation.record import Record, Told
from autoscaler.simulate.reporting.episode import Episode, Kind

PROMISED: Final = "MachinePromised"
_PASSING: Final = frozenset({Reason.NEXT, Reason.SCHEDULING, Reason.IN_LINE})
_REASONS: Final = frozenset(map(str, frozenset(Reason) - _PASSING))
"""Why a guest waits, besides what ends by itself in a moment."""


def episodes(record: Record) -> Iterator[Episode]:
    """Tell of each guest why it waited, or that it took room that was held."""
    told: dict[tuple[str, str], list[Told]] = {}
    for each in record.told:
        if each.kind == "Pod":
            told.setdefault((each.namespace, each.name), []).append(each)
    for life in record.guests.lives:
        yield from _of(life, told.get((life.namespace, life.name), ()), record.ends_at)


def _of(life: GuestLife, told: Sequence[Told], now: float) -> Iterator[Episode]:
    waited = life.wait.seconds(now)
    whose = f"guest {life.name} of {life.namespace}"
    what = f"machine {life.machine.type} of {life.machine.group}"
    reasons = [each for each in told if each.reason in _REASONS]
    if reasons:
        how_long = f"{units.duration(waited)} for a {what}"
        is_over = "waited" if life.began_at is not None else "has waited"
        yield Episode(
            at=reasons[0].at,
            kind=Kind.MACHINE,
            size=round(waited),
            what=f"{whose} {is_over} {how_long}",
            why=reasons[0].message,
        )
        return
    promised = next((each for each in told if each.reason == PROMISED), None)
    if promised is not None and life.began_at is not None:
        yield Episode(
            at=promised.at,
            kind=Kind.ROOM,
            size=1,
            what=f"{whose} got a {what}, and ran after {units.duration(waited)}",
            why=promised.message,
        )
