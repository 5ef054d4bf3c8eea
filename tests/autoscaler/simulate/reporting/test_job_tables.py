"""The report says how long queued jobs waited for quota, and how much of it was used, borrowed and kept."""

from autoscaler.api.settings.scaling import PriceList
from autoscaler.simulate.observation.job_record import QueuedJobs, QuotaUse, StepKind
from autoscaler.simulate.reporting import job_tables, report
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import HOUR, job, step

GIB = 1 << 30


def use(resource: str = "cpu", *, nominal: int, most: int, mean: float) -> QuotaUse:
    return QuotaUse(cluster_queue="training", flavor="spot", resource=resource, nominal=nominal, most=most, mean=mean)


def test_jobs_are_summed_up_by_their_name() -> None:
    lives = (
        job(step(StepKind.ADMITTED, 60, 0, 4), step(StepKind.GREW, 90, 4, 9), step(StepKind.EVICTED, 99, 9, 9)),
        job(step(StepKind.ADMITTED, 10, 0, 4), name="ranking-0002", ended=HOUR),
        job(name="late-0001", came=23 * HOUR),
    )
    rows = [line.split() for line in job_tables.jobs(records.record(queued=QueuedJobs(lives=lives)))][1:]
    assert rows == [
        ["ranking", "research/training", "2", "2", "10", "s", "1", "min", "1", "5", "1"],
        ["late", "research/training", "1", "0", "1", "h", "1", "h", "none", "none", "none"],
    ]


def test_quota_is_told_with_what_was_borrowed_and_without_what_nobody_used() -> None:
    used = (
        use(nominal=30_000, most=84_500, mean=15_000.0),
        use("memory", nominal=60 * GIB, most=14 * GIB, mean=6.0 * GIB),
        use("nvidia.com/gpu", nominal=32, most=0, mean=0.0),
        use("pods", nominal=0, most=3, mean=1.0),
    )
    rows = [line.split() for line in job_tables.quotas(QueuedJobs(quotas=used))][1:]
    assert rows == [
        ["training", "spot", "30", "cpu", "84.5", "54.5", "50", "%"],
        ["training", "spot", "60Gi", "memory", "14Gi", "none", "10", "%"],
        ["training", "spot", "0", "pods", "3", "3"],
    ]


def test_quota_that_was_not_kept_is_said_loudly() -> None:
    assert "At no moment" in job_tables.checked(QueuedJobs())
    want = "QUOTA WAS NOT KEPT: 2 pods of one job ran without it."
    assert job_tables.checked(QueuedJobs(beyond_quota=2)) == want


def test_a_report_tells_of_queued_jobs_if_there_were_any() -> None:
    some = records.record(queued=QueuedJobs(lives=(job(step(StepKind.ADMITTED, 60, 0, 4)),)))
    text, without = (report.report(each, PriceList()) for each in (some, records.record()))
    assert "1 jobs and pods came." in text
    assert "QUEUED JOBS: how long they waited for quota" in text
    assert "At no moment did a job run more pods than it had quota for." in text
    assert "QUEUED JOBS" not in without
