"""One state of the toy cluster: what the server holds, what the runtime has seen of it, and what is on its way. Pure.

Each object is there in two contents: the server's, and the one that the runtime saw last. A write with a precondition
succeeds exactly if the runtime has seen the server's current version, so that is noted as yes or no.
"""

from typing import NamedTuple

from autoscaler.admission.writes import On, Step
from autoscaler.control.writes import Verb
from tests.model.contents import GONE


class Entry(NamedTuple):
    """One object."""

    uid: str
    server: int
    """Its content; GONE: it is not there."""
    cache: int
    """The content that the runtime knows; GONE: it knows of none."""
    current: bool
    """Whether the runtime has seen the current version."""


class Sent(NamedTuple):
    """One write as it is sent."""

    step: Step
    on: On
    verb: Verb
    uid: str
    """The object; of one that is made, its name."""
    exact: bool
    """Whether it demands the version that it was decided on."""
    body: bytes
    why: str
    by_quota: bool
    """Whether it was decided on the sum of many objects."""


class Doubt(NamedTuple):
    """A write that was not answered, as the runtime remembers it."""

    sent: Sent
    moved: bool = False
    """Whether the runtime has seen another version of the object since."""


class State(NamedTuple):
    """One state."""

    entries: tuple[Entry, ...]
    """By UID."""
    held: Sent | None = None
    """A write that was sent and never answered: it may take effect later, or never."""
    doubt: Doubt | None = None
    """What the runtime remembers of such a write, until it is settled."""
    touched: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    """What the runtime remembers of pods; see job_state.Memory."""
    budget: tuple[int, ...] = ()
    """How often each of the scenario's events may still happen."""
    time: int = 0

    def get(self, uid: str) -> Entry | None:
        return next((each for each in self.entries if each.uid == uid), None)

    @property
    def lagging(self) -> int:
        """How many objects the runtime has not seen the current version of."""
        return sum(not each.current for each in self.entries)

    @property
    def unseen(self) -> frozenset[str]:
        """The objects that the runtime has not seen the current version of."""
        return frozenset(each.uid for each in self.entries if not each.current)

    def changed(self, uid: str, server: int, *, seen: bool) -> "State":
        """Change an object on the server; a write under way to the version before is lost, if it demands that one."""
        old = self.get(uid)
        cache = server if seen else (old.cache if old is not None else GONE)
        held = self.held
        if held is not None and held.uid == uid and held.verb is not Verb.CREATE and (held.exact or server == GONE):
            held = None
        changed = self._with(Entry(uid, server, cache, seen or (server == GONE and cache == GONE)))._replace(held=held)
        return changed._moved(uid) if seen else changed

    def synced(self, entry: Entry) -> "State":
        """Let the runtime see the current version of an object."""
        return self._with(Entry(entry.uid, entry.server, entry.server, True))._moved(entry.uid)

    def _moved(self, uid: str) -> "State":
        doubt = self.doubt
        return self if doubt is None or doubt.sent.uid != uid else self._replace(doubt=doubt._replace(moved=True))

    def _with(self, entry: Entry) -> "State":
        others = [each for each in self.entries if each.uid != entry.uid]
        is_gone = entry.server == GONE and entry.cache == GONE
        return self._replace(entries=tuple(others if is_gone else sorted([*others, entry])))
