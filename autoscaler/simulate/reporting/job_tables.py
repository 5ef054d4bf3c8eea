"""The tables of a report about queued jobs: how long they waited for quota, and how quota was used. Pure."""

from collections.abc import Sequence

from autoscaler import units
from autoscaler.admission.quota import amounts
from autoscaler.kube import shapes
from autoscaler.simulate.observation.job_record import JobLife, QueuedJobs, QuotaUse
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.reporting import tables, words


def jobs(record: Record) -> list[str]:
    """Say of each kind of jobs how long they waited for quota, and what became of them."""
    by_work: dict[str, list[JobLife]] = {}
    for life in record.queued.lives:
        by_work.setdefault(life.work, []).append(life)
    head = ("jobs", "queue", "came", "admitted", "median", "95 % within", "evicted", "pods added", "ended")
    return tables.table(head, [_row(record, lives) for lives in by_work.values()], left=2)


def _row(record: Record, lives: Sequence[JobLife]) -> tuple[str, ...]:
    seconds = sorted(life.wait.seconds(record.ends_at) for life in lives)
    return (
        lives[0].work,
        f"{lives[0].namespace}/{lives[0].queue}",
        f"{len(lives):,}",
        f"{sum(life.wait.began_at is not None for life in lives):,}",
        *(units.duration(tables.quantile(seconds, share)) for share in (0.5, 0.95)),
        _some(sum(life.evictions for life in lives)),
        _some(sum(life.added for life in lives)),
        _some(sum(life.ended_at is not None for life in lives)),
    )


def quotas(queued: QueuedJobs) -> list[str]:
    """Say how much of each quota was used; what nobody used is left out."""
    head = ("ClusterQueue", "flavor", "quota", "most used", "of it borrowed", "used on average")
    used = [each for each in queued.quotas if each.most]
    return tables.table(head, [_quota(each) for each in used], left=2)


def _quota(each: QuotaUse) -> tuple[str, ...]:
    return (
        each.cluster_queue,
        each.flavor,
        amounts.worded(each.resource, each.nominal),
        _amount(each.resource, each.most),
        _amount(each.resource, each.most_borrowed) if each.most_borrowed else "none",
        f"{100 * each.mean / each.nominal:.0f} %" if each.nominal else "",
    )


def _amount(resource: str, amount: int) -> str:
    return shapes.worded(resource, amount)


def checked(queued: QueuedJobs) -> str:
    """Say whether quota was kept, as it was seen at every change of a pod or a Workload."""
    if not queued.beyond_quota:
        return "At no moment did a job run more pods than it had quota for."
    return f"QUOTA WAS NOT KEPT: {words.pods(queued.beyond_quota)} of one job ran without it."


def _some(count: int) -> str:
    return f"{count:,}" if count else "none"
