"""Which pods of a Job go first, and how its indexes are written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.controllers import job_pods

INDEX = "batch.kubernetes.io/job-completion-index"
INDEXES = st.sets(st.integers(min_value=0, max_value=40))


def job(**spec: Any) -> Manifest:
    return {"spec": {"completionMode": "NonIndexed", "podReplacementPolicy": "TerminatingOrFailed", **spec}}


def pod(  # noqa: PLR0913  # each test sets what matters
    name: str = "p",
    *,
    node: str = "n",
    phase: str = "Running",
    ready_since: int | None = 5,
    restarts: int = 0,
    created: int = 0,
    place: int | None = None,
) -> Manifest:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{ready_since or 0:02d}Z"}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": f"2026-01-01T00:00:{created:02d}Z",
            "annotations": {} if place is None else {INDEX: str(place)},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [] if ready_since is None else [ready],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param({"node": ""}, {"phase": "Pending", "ready_since": None}, id="without a node"),
        pytest.param({"phase": "Pending"}, {"ready_since": None}, id="not running"),
        pytest.param({"ready_since": None}, {"ready_since": 9, "restarts": 9}, id="not ready"),
        pytest.param({"ready_since": 6}, {"ready_since": 5, "restarts": 9}, id="ready for less time"),
        pytest.param({"restarts": 1}, {"restarts": 0, "created": 9}, id="restarted more often"),
        pytest.param({"created": 2}, {"created": 1}, id="younger"),
    ],
)
def test_the_pod_that_has_done_least_goes_first(first: Any, last: Any) -> None:
    want, other = pod("first", **first), pod("last", **last)
    for active in ([want, other], [other, want]):
        assert job_pods.surplus(job(), active, 1) == [want]


def test_indexes_that_are_no_longer_wanted_go_whatever_they_do() -> None:
    waiting, running = pod(node="", place=0), pod(place=2)
    got = job_pods.surplus(job(completionMode="Indexed", completions=2), [waiting, running], 2)
    assert got == [running]


@given(indexes=INDEXES, completions=st.integers(min_value=0, max_value=50))
def test_indexes_are_read_as_they_are_written(indexes: set[int], completions: int) -> None:
    want = {each for each in indexes if each < completions}
    assert job_pods.read_indexes(job_pods.write_indexes(indexes), completions) == want


def test_only_runs_of_three_are_written_by_their_ends() -> None:
    assert job_pods.write_indexes({1, 3, 4, 6, 7, 8}) == "1,3,4,6-8"


def test_the_lowest_free_indexes_are_taken() -> None:
    assert job_pods.free_indexes({0, 2}, 5, 2) == [1, 3]
