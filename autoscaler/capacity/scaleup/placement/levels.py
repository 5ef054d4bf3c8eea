"""How many pods each zone gets: evenly, lowest first, never beyond the skew that a spread allows.

Works on levels (how many matching pods a zone has) and caps (how many more it can take). Pure arithmetic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

UNBOUND: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What one spread, or the wish for balance, looks at."""

    counts: Mapping[str, int]
    """How many match in each domain; domains that take nothing now are here too, for they hold the minimum down."""
    max_skew: int = UNBOUND
    """How far a zone may be above the lowest one."""
    min_domains: int = 1
    counts_itself: bool = True
    """Whether the pods to be placed match."""

    def floor(self, raised: Mapping[str, int]) -> int:
        """Return the lowest level, given how many were added where."""
        if len(self.counts) < self.min_domains:
            return 0
        if not self.counts_itself:
            return min(self.counts.values(), default=0)
        return min((count + raised.get(zone, 0) for zone, count in self.counts.items()), default=0)

    def allows_one_more(self, zone: str, raised: Mapping[str, int]) -> bool:
        """Tell whether a zone may take one more pod."""
        own = raised.get(zone, 0) + 1 if self.counts_itself else 0
        return self.counts.get(zone, 0) + own - self.floor(raised) <= self.max_skew


def share_out(
    wanted: int, caps: Mapping[str, int], spreads: Sequence[Levels], preferred: Sequence[str]
) -> dict[str, int]:
    """Deal pods out to zones; among equal zones the preferred one comes first. What cannot be dealt is left out."""
    zones = [zone for zone in preferred if caps.get(zone, 0) > 0]
    moving = [spread for spread in spreads if spread.counts_itself]
    for spread in spreads:
        if not spread.counts_itself:
            zones = [zone for zone in zones if spread.allows_one_more(zone, {})]
    if len(moving) == 1:
        return _fill_up(wanted, {zone: caps[zone] for zone in zones}, moving[0])
    return _one_by_one(wanted, {zone: caps[zone] for zone in zones}, moving)


def _fill_up(wanted: int, caps: Mapping[str, int], spread: Levels) -> dict[str, int]:
    """Raise the lowest zones together until they meet the next one, the skew, a cap or the end."""
    given = dict.fromkeys(caps, 0)
    while wanted > 0:
        levels = {zone: spread.counts.get(zone, 0) + given[zone] for zone in caps if given[zone] < caps[zone]}
        if not levels:
            break
        low = min(levels.values())
        lowest = [zone for zone, level in levels.items() if level == low]
        others = [count + given.get(zone, 0) for zone, count in spread.counts.items() if zone not in lowest]
        held = 0 if len(spread.counts) < spread.min_domains else min(others, default=UNBOUND)
        ceiling = min(
            held + spread.max_skew,
            min((level for level in levels.values() if level > low), default=UNBOUND),
            *(low + caps[zone] - given[zone] for zone in lowest),
        )
        if ceiling <= low:
            break
        step = min(ceiling - low, wanted // len(lowest))
        for zone in lowest if step else lowest[:wanted]:
            given[zone] += step or 1
            wanted -= step or 1
    return given


def _one_by_one(wanted: int, caps: Mapping[str, int], spreads: Sequence[Levels]) -> dict[str, int]:
    """Deal single pods, where several spreads must agree on each."""
    given = dict.fromkeys(caps, 0)
    for _ in range(wanted):
        free = [z for z in caps if given[z] < caps[z] and all(spread.allows_one_more(z, given) for spread in spreads)]
        if not free:
            break
        lowest = min(free, key=lambda z: sum(spread.counts.get(z, 0) for spread in spreads) + given[z] * len(spreads))
        given[lowest] += 1
    return given
