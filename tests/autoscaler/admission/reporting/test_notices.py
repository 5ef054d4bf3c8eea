"""Pods whose gate nobody opens, and jobs that are not queued, are told so: once, and not before it is certain."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from autoscaler import control
from autoscaler.admission.jobs import KINDS
from autoscaler.admission.jobs.port import Finished, Job
from autoscaler.admission.reporting import notices
from autoscaler.admission.state import gated_pods, known
from autoscaler.kube import objects, store
from tests.autoscaler.admission import builders, states
from tests.autoscaler.admission.manual_clock import ManualClock

SOON = notices.GRACE_SECONDS
ODD: dict[str, Any] = {"problem": "it wants devices"}
LEFT: dict[str, Any] = {"left_alone": "run by RayJob r"}


class Bench:
    """Tables that a test fills, and what was told of what is in them."""

    def __init__(self, *stored: Job | objects.Pod) -> None:
        quota, jobs = builders.usual(), {each.resource.kind: store.Table[Job]() for each in KINDS}
        self.pods = quota.pods
        self.jobs = jobs["Job"]
        self.clock = ManualClock()
        self.told: list[tuple[str, str, bool]] = []
        tables = cast("known.Tables", _Tables(self.pods, jobs))
        kinds = {each.resource.kind: each for each in KINDS}
        context = cast("control.ControllerContext", self)
        self.notices = notices.Notices(context, tables, kinds, gated_pods.of(self.pods))
        for each in stored:
            self.see(each)

    def see(self, stored: Job | objects.Pod) -> None:
        (self.jobs.seen if isinstance(stored, Job) else self.pods.seen)(cast("Any", stored))

    def tell(self, _: object, about: objects.Stored, reason: str, message: str, *, is_warning: bool = False) -> None:
        self.told.append((reason, message, is_warning))
        assert about.meta.key.namespace == "team"

    def said(self, after: float = SOON) -> list[str]:
        """Return what was told in a moment."""
        self.clock.seconds += after
        self.told.clear()
        self.notices.tell()
        return [message for _, message, _ in self.told]


class _Tables:
    def __init__(self, pods: store.Table[objects.Pod], jobs: dict[str, store.Table[Job]]) -> None:
        self.pods = pods
        self.jobs = jobs


def job(*, rv: int = 1, uid: str = states.UID, **more: Any) -> Job:
    made = states.job(**more)
    return msgspec.structs.replace(made, meta=msgspec.structs.replace(made.meta, resource_version=rv, uid=uid))


def pod(name: str = "p", *, rv: int = 1, owner: dict[str, Any] | None = None, **more: Any) -> objects.Pod:
    """A gated pod of the job, or of another owner."""
    made = states.pod(name, **{"gated": True, **more}, rv=rv)
    if owner is None:
        return made
    said = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": states.UID, "controller": True, **owner}
    metadata = builders.metadata(name, rv=rv, ownerReferences=[said] if said["controller"] else [])
    owners = objects.pod(msgspec.json.encode({"metadata": metadata, "spec": {}})).meta
    return msgspec.structs.replace(made, meta=owners)


@pytest.mark.accept("E15", part="a gate that nobody opens is explained")
@pytest.mark.parametrize(
    ("stored", "want"),
    [
        ([job(), pod()], None),
        ([pod()], "its job a is gone"),
        ([job(uid="u-new"), pod()], "its job a is gone"),
        ([job(queue=None), pod()], "its job a has no label sluice.dev/queue-name"),
        ([job(**LEFT), pod()], "its job a is not queued: it is run by RayJob r"),
        ([pod(owner={"controller": False})], "no job owns it"),
        ([job(), pod(owner={"kind": "Deployment"})], "Deployment a, which made it, is no job that can be queued"),
        ([job(), pod(owner={"apiVersion": "x/v1"})], "Job a, which made it, is no job that can be queued"),
        ([pod(gated=False)], None),
        ([pod(ends_in=30.0)], None),
        ([msgspec.structs.replace(pod(), phase="Failed")], None),
    ],
)
def test_a_pod_is_told_why_nobody_opens_its_gate(stored: list[Any], want: str | None) -> None:
    bench = Bench(*stored)
    told = [[each for each in bench.said(after) if "will not be opened" in each] for after in (SOON - 1, 1)]
    assert told[0] == []
    assert [message.partition(": its gate")[0] for message in told[1]] == ([want] if want else [])


def test_a_pod_is_told_once_and_with_a_warning() -> None:
    bench = Bench(pod())
    bench.said()
    assert [(reason, is_warning) for reason, _, is_warning in bench.told] == [("NeverAdmitted", True)]
    bench.see(pod(rv=2, owner={"uid": "u-other"}))
    assert bench.said() == []
    bench.pods.gone(pod(rv=3).meta)
    bench.see(pod(rv=4))
    assert len(bench.said()) == 1


def test_a_pod_that_is_opened_or_deleted_in_time_is_told_nothing() -> None:
    for later in (pod(rv=2, gated=False), pod(rv=2, ends_in=30.0)):
        bench = Bench(pod())
        bench.see(later)
        assert bench.said() == []


def test_pods_are_told_when_their_job_goes_or_leaves_its_queue_or_their_owner_does() -> None:
    for change in (job(rv=2, queue=None), job(rv=2, uid="u-new"), pod(rv=2, owner={"controller": False})):
        bench = Bench(job(), pod())
        assert bench.said() == []
        bench.see(change)
        assert len(bench.said()) == 1
    bench = Bench(job(), pod())
    bench.said()
    bench.jobs.gone(job(rv=2).meta)
    assert len(bench.said()) == 1


@pytest.mark.accept("E19", part="a job that is left alone or cannot be queued is told why")
@pytest.mark.parametrize(
    ("of", "want"),
    [
        (job(), []),
        (job(**LEFT), [("LeftAlone", "the job is not queued: it is run by RayJob r", False)]),
        (job(**ODD), [("CannotBeQueued", "it wants devices", True)]),
        (job(**ODD, **LEFT), [("LeftAlone", "the job is not queued: it is run by RayJob r", False)]),
        (job(**ODD, queue=None), []),
        (job(**ODD, deleted=True), []),
        (job(**ODD, finished=Finished(succeeded=True, message="")), []),
    ],
)
def test_a_job_is_told_that_it_is_not_queued(of: Job, want: list[tuple[str, str, bool]]) -> None:
    bench = Bench(of)
    assert (bench.notices.next_at is not None) is (of.queue is not None)
    bench.said(after=0)
    assert bench.told == want


def test_a_job_is_told_once_and_again_when_there_is_something_else_to_say() -> None:
    bench = Bench(job(**ODD))
    assert bench.said() == ["it wants devices"]
    bench.see(job(**ODD, rv=2))
    assert bench.said() == []
    bench.see(job(rv=3, problem="it wants claims"))
    assert bench.said() == ["it wants claims"]
    bench.see(job(rv=4))
    assert bench.said() == []
    bench.see(job(rv=5, problem="it wants claims"))
    assert bench.said() == ["it wants claims"]


def test_a_job_that_leaves_its_queue_before_it_is_told_is_told_nothing() -> None:
    bench = Bench(job(**ODD))
    bench.see(job(**ODD, rv=2, queue=None))
    assert bench.said() == []


def named(number: int) -> Job:
    made = job(**ODD, uid=f"u-{number}")
    key = objects.Key("team", f"job-{number}")
    return msgspec.structs.replace(made, meta=msgspec.structs.replace(made.meta, key=key))


@pytest.mark.parametrize("one", [lambda number: pod(f"p{number}"), named], ids=["pods", "jobs"])
def test_so_many_are_told_in_a_second(one: Callable[[int], Any]) -> None:
    bench = Bench(*map(one, range(notices.PER_SECOND + 1)))
    assert len(bench.said()) == notices.PER_SECOND
    assert (bench.said(after=0.5), bench.notices.next_at) == ([], SOON + 1.0)
    assert len(bench.said(after=0.5)) == 1
    assert bench.notices.next_at is None
