"""What was decided about queued jobs is told from what their Workloads said, what belongs together as one."""

from autoscaler.simulate.observation.job_record import JobLife, QueuedJobs, StepKind
from autoscaler.simulate.reporting import episodes
from autoscaler.simulate.reporting.episode import Kind
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import HOUR, job, step


def only(kind: Kind, *lives: JobLife) -> list[tuple[int, str, str]]:
    found = episodes.episodes(records.record(queued=QueuedJobs(lives=lives)))
    return [(one.size, one.what, one.why) for one in found if one.kind is kind]


def test_an_admission_says_with_how_many_pods_and_after_which_wait() -> None:
    admitted = step(StepKind.ADMITTED, 95, 0, 4, why="admitted by ClusterQueue training")
    why = "admitted by ClusterQueue training, 1 min 30 s after it came"
    want = [(4, "job ranking-0001 of research was admitted with 4 pods", why)]
    assert only(Kind.ADMISSION, job(admitted, came=5)) == want


def test_a_job_that_gave_way_comes_back_with_a_part() -> None:
    life = job(
        step(StepKind.ADMITTED, 0, 0, 4),
        step(StepKind.EVICTED, 100, 12, 12, why="quota is taken back"),
        step(StepKind.RELEASED, 102, 12, 0),
        step(StepKind.ADMITTED, 140, 0, 4, wanted=12, why="admitted"),
    )
    back = (12, "job ranking-0001 of research came back with 4 of 12 pods", "admitted, 40 s after it gave way")
    assert only(Kind.ADMISSION, life)[1:] == [back]
    gave_way = (12, "job ranking-0001 of research gave way with all its 12 pods", "quota is taken back")
    assert only(Kind.EVICTION, life) == [gave_way]


def test_growth_in_parts_is_one_decision_with_its_parts() -> None:
    life = job(
        step(StepKind.ADMITTED, 0, 0, 4),
        step(StepKind.GREW, 60, 4, 6, wanted=12),
        step(StepKind.GREW, 61, 6, 8, wanted=12),
        step(StepKind.GREW, 1800, 8, 12, wanted=12),
    )
    what = "job ranking-0001 of research grew from 4 to 12 pods (8 at 06:01, 12 at 06:30)"
    assert only(Kind.RESIZE, life) == [(8, what, "it wants 12, and quota was free for them")]


def test_growth_that_is_not_whole_says_so() -> None:
    life = job(step(StepKind.ADMITTED, 0, 0, 4), step(StepKind.GREW, 60, 4, 6, wanted=12))
    want = [(2, "job ranking-0001 of research grew from 4 to 6 pods", "it wants 12, and quota was free for so many")]
    assert only(Kind.RESIZE, life) == want


def test_growth_before_and_after_giving_way_is_two_decisions() -> None:
    life = job(
        step(StepKind.ADMITTED, 0, 0, 4),
        step(StepKind.GREW, 60, 4, 8),
        step(StepKind.EVICTED, 100, 8, 8),
        step(StepKind.ADMITTED, 110, 0, 4, wanted=8),
        step(StepKind.GREW, 120, 4, 8),
    )
    assert [size for size, _, _ in only(Kind.RESIZE, life)] == [4, 4]


def test_shrinking_is_told_unless_the_job_comes_to_its_end() -> None:
    shrinks = step(StepKind.SHRANK, HOUR, 12, 4)
    want = [
        (
            8,
            "job ranking-0001 of research shrank from 12 to 4 pods",
            "it wants no more; its quota is free for others",
        )
    ]
    assert only(Kind.RESIZE, job(shrinks)) == want
    assert only(Kind.RESIZE, job(shrinks, ended=2 * HOUR)) == want
    assert only(Kind.RESIZE, job(shrinks, ended=HOUR + 60)) == []
