"""Open pods that their job does not own any more, of which a Workload's quota depends."""

from typing import Any

import pytest

from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.strays import Strays
from autoscaler.admission.quota.cache.usage import Use
from autoscaler.kube import objects
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import pod, workload

pytestmark = pytest.mark.accept("E10", part="nobody is evicted in vain beside pods that outlived their job")
JOB = "u-job-a"
ORPHAN: dict[str, Any] = {"owned": False}


class Told:
    """What strays tell of."""

    def __init__(self) -> None:
        self.counted: list[int] = []
        self.moved: list[str] = []
        self.strays = Strays(self._count, self.moved.append)

    def _count(self, use: Use, times: int) -> None:
        del use
        self.counted.append(times)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"owned": False}, True),
        ({"owner_uid": "u-another"}, True),
        ({}, False),
        ({"owned": False, "deleted": True}, False),
        ({"owner_uid": "u-another", "deleted": True}, False),
        ({"owned": False, "phase": "Succeeded"}, False),
        ({"owned": False, "gated": True}, False),
    ],
    ids=str,
)
def test_a_pod_runs_on_whatever_becomes_of_its_job_if_that_does_not_own_it(
    given: dict[str, Any], *, want: bool
) -> None:
    books = Books(builders.usual(workload("a", granted=1), workload("b", granted=1), pod(job_uid=JOB, **given)))
    assert books.may_free("u-a") is not want
    assert books.may_free("u-b")


def test_a_job_has_such_pods_until_the_last_of_them_is_gone() -> None:
    strays = Told().strays
    first, second = pod("p", **ORPHAN), pod("q", **ORPHAN)
    strays.pod_changed(None, first)
    strays.pod_changed(None, second)
    strays.pod_changed(first, None)
    assert strays.has_orphans(JOB)
    strays.pod_changed(second, pod("q", deleted=True, rv=2, **ORPHAN))
    assert not strays.has_orphans(JOB)


def test_a_pod_that_its_job_gives_up_or_takes_back_changes_what_may_be_freed() -> None:
    strays = Told().strays
    owned, alone = pod(), pod(rv=2, **ORPHAN)
    strays.pod_changed(None, owned)
    strays.pod_changed(owned, alone)
    assert strays.has_orphans(JOB)
    strays.pod_changed(alone, owned)
    assert not strays.has_orphans(JOB)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, pod(**ORPHAN), ["team"]),
        (pod(**ORPHAN), None, ["team"]),
        (pod(queue="other"), pod(queue="other", **ORPHAN), ["other"]),
        (None, pod(), []),
        (pod(), None, []),
        (pod(**ORPHAN), pod(rv=2, **ORPHAN), []),
    ],
    ids=["comes", "goes", "is given up", "an owned one comes", "an owned one goes", "nothing changes"],
)
def test_those_who_may_displace_others_look_again_where_such_a_pod_comes_or_goes(
    old: objects.Pod | None, new: objects.Pod | None, want: list[str]
) -> None:
    told = Told()
    told.strays.pod_changed(None, old)
    del told.moved[:]
    told.strays.pod_changed(old, new)
    assert told.moved == want


def test_a_change_that_takes_and_frees_nothing_is_told_to_nobody() -> None:
    told = Told()
    told.strays.pod_changed(None, pod())
    told.strays.pod_changed(pod(), pod(rv=2))
    assert told.counted == [1]
