"""A trace's jobs name queues that the stack has; else nothing is played."""

import pytest

from autoscaler.api.manifests import Manifest
from autoscaler.api.node_groups import NodeGroups
from autoscaler.rehearsal import fitting, trace
from autoscaler.rehearsal.stack import Stack

JOB = {"namespace": "research", "queue": "training", "requests": {"cpu": "1"}, "takes": ["1m", "1m"], "parallelism": 1}
DAY = trace.parse({"starts": "2026-06-30T06:00:00Z", "jobs": {"ranking": JOB}})


def with_queues(*queues: tuple[str, str]) -> Stack:
    objects: list[Manifest] = [{"kind": "Namespace", "metadata": {"name": "research"}}]
    objects += [{"kind": "LocalQueue", "metadata": {"namespace": space, "name": name}} for space, name in queues]
    return Stack(groups=NodeGroups(cluster="bench", region="us-east-1", groups=()), objects=tuple(objects))


def test_jobs_whose_queue_is_there_fit() -> None:
    fitting.check(DAY, with_queues(("research", "training")))


@pytest.mark.parametrize(
    ("queues", "has"),
    [((), "none"), ((("reports", "training"), ("research", "other")), "training in reports, other in research")],
)
def test_a_queue_that_is_not_there_is_named_beside_those_that_are(
    queues: tuple[tuple[str, str], ...], has: str
) -> None:
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(DAY, with_queues(*queues))
    line = f"jobs.ranking.queue: the stack has no LocalQueue training in namespace research (it has: {has})"
    assert str(caught.value) == f"the trace does not fit the stack:\n  {line}"
