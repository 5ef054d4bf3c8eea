"""The toy cluster's state: small values that can be compared, of what is there and of what the runtime knows.

An object that is made anew under the same name is another version of it: writes to the one before are refused.
"""

from typing import Final, NamedTuple

ABSENT: Final = 0
HELD: Final = 1
GATED: Final = 2
OPEN: Final = 3
BOUND: Final = 4
NOWHERE: Final = -1
NEVER: Final = -1
FRESH: Final = 0
"""Just now."""
LATER: Final = 1
"""Some seconds ago."""
OVER: Final = 2
"""Longer ago than the scheduler has to find a node."""


class Pod(NamedTuple):
    """A guest, a sleeper or a pod of others."""

    phase: int = ABSENT
    node: int = NOWHERE
    """Where it is bound; of an open sleeper, where it is pinned."""
    promised: int = NOWHERE
    tried: frozenset[int] = frozenset()
    trying: int = NEVER
    """How long ago it was opened, or room was last made for it."""
    unschedulable: int = NEVER
    """How long ago the scheduler found no node for it."""
    leaving: bool = False


class Host(NamedTuple):
    """A node."""

    ready: bool = True
    closed: bool = False
    """Whether it carries the taint that closes it."""
    dropped: bool = False
    """Whether the Machine no longer has it."""


Content = Pod | Host
GONE: Final = Pod()


class Sent(NamedTuple):
    """A write that demands the version that it was decided on."""

    place: int
    result: Content
    text: str
    opens: bool = False
    """Whether it opens a gate."""


class State(NamedTuple):
    """One state. Places: guests, then sleepers, then a pod of others, then nodes."""

    server: tuple[Content, ...]
    cache: tuple[Content, ...]
    """What the runtime knows."""
    stale: frozenset[int] = frozenset()
    """Of which objects it has not seen the current version."""
    inflight: tuple[Sent, ...] = ()
    """What the runtime decided and has not sent yet, or has no answer to: it decides nothing else meanwhile."""
    held: Sent | None = None
    """A write that was never answered, and may still take effect."""
    budget: tuple[int, ...] = ()

    def changed(self, place: int, content: Content, *, seen: bool) -> "State":
        """Change an object on the server: writes to the version before are refused."""
        cache = _put(self.cache, place, content) if seen else self.cache
        return self._replace(
            server=_put(self.server, place, content),
            cache=cache,
            stale=self.stale - {place} if seen else self.stale | {place},
            inflight=tuple(each for each in self.inflight if each.place != place),
            held=None if self.held is not None and self.held.place == place else self.held,
        )

    def synced(self, place: int) -> "State":
        """Let the runtime see the current version of an object."""
        return self._replace(cache=_put(self.cache, place, self.server[place]), stale=self.stale - {place})


def _put(contents: tuple[Content, ...], place: int, content: Content) -> tuple[Content, ...]:
    return (*contents[:place], content, *contents[place + 1 :])
