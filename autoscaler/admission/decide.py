"""What to do about one job now: its Workload, slices, gates and suspension. Pure; quota itself is decided in `quota`.

Each call returns at most one write for each object, decided on what is known, never on what another write of the same
plan will bring about. The caller carries them out and asks again; every moment between two writes is safe to crash in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.admission.job_stages import evictions, grants, lifecycle, slices, ungating
from autoscaler.admission.state.job_state import JobState, Policy, Stage
from autoscaler.admission.writes import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do about one job, and when time alone changes the answer."""

    writes: tuple[Write, ...]
    wake_at: float | None = None


def decide(state: JobState, *, now: float, policy: Policy) -> Decision:
    """Decide the next step of a job, whatever stage it is in."""
    if state.stage is Stage.ADMITTED:
        return _admitted(state, now, policy)
    return Decision(writes=_STAGES[state.stage](state, now), wake_at=state.lost_at(now))


_STAGES: Final[Mapping[Stage, Callable[[JobState, float], tuple[Write, ...]]]] = {
    Stage.UNKNOWN: lifecycle.unknown,
    Stage.NEW: lifecycle.new,
    Stage.WAITING: lifecycle.waiting,
    Stage.EVICTED: lifecycle.evicted,
    Stage.FINISHED: lifecycle.finished,
    Stage.DEPARTING: lifecycle.departing,
}


def _admitted(state: JobState, now: float, policy: Policy) -> Decision:
    eviction = evictions.due(state, now, policy)
    if eviction is not None:
        return Decision(writes=(evictions.evict(state, eviction, now),))
    draft = grants.draft(state)  # 1 shrink, fold
    draft = ungating.record(state, draft, now, policy)  # 2 withdraw, record
    planned = [
        *lifecycle.resumption(state),
        *grants.write(state, draft, now),  # 3 one write to the Workload
        *slices.wanted(state, now),  # 4 make and delete slices
        *ungating.pods(state, now),  # 5 open what is recorded, delete what was withdrawn
    ]
    return Decision(writes=tuple(planned), wake_at=ungating.wake_at(state, now, policy))
