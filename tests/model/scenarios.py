"""The explorations: small ones, which every run of the tests makes, and large ones, which `make model` adds."""

from typing import Final

from autoscaler.admission.writes import Step
from tests.model.runtime import PRIORITY
from tests.model.scenario import Create, Deactivate, Delete, DeletePod, Refuse, Resize, Scenario, Start, Suspend

_ONE: Final = (Start("a", 1), Start("b", 1))
_FULL: Final = (Start("a", 2), Start("b", 1))

SMALL_MOST: Final = 30_000
"""More states than any small one has: one that comes to so many goes on without end."""


def _resize(job: str, *sizes: int) -> Resize:
    return Resize(job=job, sizes=sizes)


SMALL: Final = (
    Scenario(name="two jobs are new", quota=2, jobs=_FULL, lagging=2, lost=1, crashes=1),
    Scenario(
        name="an admission and its fence are not answered",
        quota=2,
        jobs=_FULL,
        lagging=2,
        lost=2,
        crashes=1,
        lost_steps=frozenset({Step.ADMIT, Step.CLAIM, Step.EVICT}),
    ),
    Scenario(
        name="a job grows and shrinks",
        quota=2,
        jobs=_ONE,
        happenings=((_resize("a", 1, 2), 2), (_resize("b", 0, 1), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="a job displaces another",
        quota=2,
        jobs=(Start("a", 2),),
        happenings=((Create(job=Start("b", 1, PRIORITY)), 1), (_resize("a", 1, 2), 1)),
        lost=1,
        crashes=1,
        from_rest=True,
        preempts=True,
    ),
    Scenario(
        name="a job displaces another and grows beyond the quota",
        quota=2,
        jobs=(Start("a", 1),),
        happenings=((Create(job=Start("b", 2, PRIORITY)), 1), (_resize("b", 2, 3), 1)),
        lost=1,
        from_rest=True,
        preempts=True,
    ),
    Scenario(
        name="a slice displaces another job",
        quota=2,
        jobs=(Start("a", 1), Start("b", 1, PRIORITY)),
        happenings=((_resize("b", 1, 2), 1), (_resize("a", 1, 2), 1)),
        lost=1,
        from_rest=True,
        preempts=True,
    ),
    Scenario(
        name="a job is deleted and another of its name created",
        quota=2,
        jobs=_FULL,
        happenings=((Delete(job="a"), 1), (Create(job=Start("a", 1)), 1)),
        lagging=2,
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="a job is deleted while it grows",
        quota=2,
        jobs=(Start("a", 1), Start("b", 2)),
        happenings=((_resize("a", 1, 2), 1), (Delete(job="a"), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="a job is deleted, but not its pods",
        quota=2,
        jobs=_FULL,
        happenings=((Delete(job="a", orphan=True), 1), (Create(job=Start("a", 1)), 1)),
        lost=1,
        crashes=1,
        from_rest=True,
    ),
    Scenario(
        name="a new job is deleted, but not its pods",
        quota=1,
        jobs=_ONE,
        happenings=((Delete(job="a", orphan=True), 1),),
        lost=1,
        lost_steps=frozenset({Step.CREATE}),
    ),
    Scenario(
        name="jobs of one priority share a queue",
        quota=2,
        jobs=_FULL,
        happenings=((_resize("a", 1, 2), 1),),
        preempts=True,
    ),
    Scenario(
        name="a gate is refused for good",
        quota=2,
        jobs=_ONE,
        happenings=((Refuse(), 1), (_resize("a", 1, 2), 1), (Delete(job="a"), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="people suspend a job and delete a pod",
        quota=2,
        jobs=(Start("a", 2),),
        happenings=((Suspend(job="a"), 1), (DeletePod(), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="people take a job out of its queue",
        quota=2,
        jobs=(Start("a", 1), Start("b", 2)),
        happenings=((Deactivate(job="a"), 1), (_resize("a", 1, 2), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="pods succeed",
        quota=1,
        jobs=(Start("a", 1, completions=2), Start("b", 1, completions=1)),
        happenings=((_resize("a", 1, 2), 1),),
        pods_end=True,
    ),
    Scenario(
        name="pods of a growth do not start",
        quota=2,
        jobs=(Start("a", 1),),
        happenings=((_resize("a", 1, 2), 1),),
        pods_start=True,
        jumps=(2000.0, 4000.0),
        from_rest=True,
    ),
)
"""A first part of them all."""

LARGE: Final = (
    Scenario(
        name="pods of a growth do not start, and the runtime crashes",
        quota=2,
        jobs=(Start("a", 1),),
        happenings=((_resize("a", 1, 2), 2),),
        lost=1,
        crashes=1,
        pods_start=True,
        jumps=(2000.0, 4000.0),
        from_rest=True,
    ),
    Scenario(
        name="two jobs grow and shrink under a quota of 3",
        quota=3,
        jobs=_FULL,
        happenings=((_resize("a", 1, 2, 3), 2), (_resize("b", 1, 2), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="two jobs grow and shrink, and the runtime crashes",
        quota=2,
        jobs=_ONE,
        happenings=((_resize("a", 1, 2), 2), (_resize("b", 0, 1), 1)),
        lagging=2,
        lost=1,
        crashes=1,
        from_rest=True,
    ),
    Scenario(
        name="a large job displaces another and is resized",
        quota=2,
        jobs=(Start("a", 1),),
        happenings=((Create(job=Start("b", 2, PRIORITY)), 1), (_resize("a", 1, 2), 1), (_resize("b", 1, 2), 1)),
        lost=1,
        from_rest=True,
        preempts=True,
    ),
    Scenario(
        name="a slice displaces another job, and its own is deleted",
        quota=2,
        jobs=(Start("a", 1), Start("b", 1, PRIORITY)),
        happenings=((_resize("a", 1, 2), 1), (_resize("b", 1, 2), 1), (Delete(job="b"), 1)),
        lost=1,
        crashes=1,
        from_rest=True,
        preempts=True,
    ),
    Scenario(
        name="a job is deleted while it grows, and the runtime crashes",
        quota=2,
        jobs=(Start("a", 1), Start("b", 2)),
        happenings=((_resize("a", 1, 2), 1), (Delete(job="a"), 1)),
        lagging=2,
        lost=1,
        crashes=1,
        from_rest=True,
    ),
    Scenario(
        name="people suspend a job, resize it and delete a pod",
        quota=2,
        jobs=_ONE,
        happenings=((Suspend(job="a"), 1), (_resize("a", 1, 2), 1), (DeletePod(), 1)),
        lost=1,
        from_rest=True,
    ),
    Scenario(
        name="people take a job out of its queue and put it back",
        quota=2,
        jobs=(Start("a", 1), Start("b", 2)),
        happenings=((Deactivate(job="a"), 2), (_resize("a", 1, 2), 1)),
        lost=1,
        crashes=1,
        from_rest=True,
    ),
    Scenario(
        name="pods succeed while a job is resized",
        quota=2,
        jobs=(Start("a", 1, completions=2), Start("b", 1, completions=1)),
        happenings=((_resize("a", 1, 2), 1),),
        lost=1,
        pods_end=True,
    ),
    Scenario(
        name="pods do not start, and another job waits",
        quota=2,
        jobs=_ONE,
        happenings=((_resize("a", 1, 2), 1),),
        lost=1,
        pods_start=True,
        jumps=(2000.0, 4000.0),
    ),
)
