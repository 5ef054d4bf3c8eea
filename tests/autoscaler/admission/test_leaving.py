"""Which jobs are told that they stay suspended when the stack leaves."""

from typing import Any

import pytest

from autoscaler.admission import leaving
from autoscaler.admission.jobs.port import Finished
from tests.autoscaler.admission import states


@pytest.mark.parametrize(
    ("other", "want"),
    [
        ({}, True),
        ({"queue": None}, False),
        ({"left_alone": "run by RayJob r"}, False),
        ({"suspended": False}, False),
        ({"finished": Finished(succeeded=False, message="it failed")}, False),
        ({"deleted": True}, False),
    ],
    ids=["waits", "not queued", "left alone", "runs", "has ended", "is being deleted"],
)
def test_queued_jobs_that_are_suspended_stay_so(other: dict[str, Any], want: bool) -> None:  # noqa: FBT001
    assert leaving.stays_suspended(states.job(**{"suspended": True, **other})) is want
