"""What admission would do now: decided anew on copies of its tables, so that nothing it remembers is touched. Pure.

It looks at all jobs, not only at those that changed: while nothing may be written, what is to be done stays to be done.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autoscaler.admission import decide
from autoscaler.admission.job_stages import lifecycle
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache import books
from autoscaler.admission.state import known
from autoscaler.admission.state.job_state import Memory, Policy
from autoscaler.admission.writes import Step, Write
from autoscaler.control import copies, plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is decided on."""

    tables: known.Tables
    job_kinds: tuple[jobs.ResizableJob, ...]
    memory_of: Callable[[str], Memory]
    """What is remembered of a job, by its UID."""
    policy: Policy
    now: float
    is_settled: bool
    """Whether the sums are known that quota is decided on: no write on them is without an answer."""
    most: int
    """So many writes of quota are decided at most."""


def decided(copied: copies.Copies, sight: Sight) -> tuple[list[Write], list[str]]:
    """Return the next write to each object, and what nobody could decide."""
    seen = known.Known(sight.tables, sight.job_kinds)
    quota = books.Books(sight.tables.of_quota)
    copied.fill()
    found: list[Write] = []
    unknown = [] if sight.is_settled else ["who is admitted: earlier writes have no answer yet"]
    for uid in seen.dirty:
        try:
            found += decide.decide(seen.state(uid, sight.memory_of(uid)), now=sight.now, policy=sight.policy).writes
        except Exception as error:  # noqa: BLE001  # as in a cycle, one job keeps nobody else waiting
            unknown.append(f"job {uid}: {type(error).__name__}: {error}")
    if sight.is_settled:
        granted = cycle.decide(quota, now=sight.now, most=sight.most).writes
        found += [write for write in granted if is_current(sight.tables, seen, write)]
    return found, unknown


def is_current(tables: known.Tables, seen: known.Known, write: Write) -> bool:
    """Tell whether what is admitted is what its job wants now; if not, the Workload is brought up to date first."""
    stored = tables.workloads.get(write.key)
    if stored is None or stored.is_slice or write.step not in {Step.ADMIT, Step.CLAIM}:
        return True
    return lifecycle.is_as_wanted(seen.state(stored.job_uid, Memory()))


def shown(writes: Iterable[Write]) -> tuple[plans.Command, ...]:
    """Show writes."""
    return tuple(
        plans.Command(
            verb=str(each.verb),
            what=f"{each.kind.lower() or each.on} {each.key.namespace}/{each.key.name}",
            why=each.why,
        )
        for each in writes
    )
