"""The auditor finds each kind of wrong, and nothing in a run that is right."""

import dataclasses

import pytest

from tests.e2e.admission import auditor, history
from tests.e2e.admission.stories import PARENT, Story

QUOTA, SPEC, OPEN = "usage within quota", "granted within spec", "open within grant"
RECORDED, FOLDED = "recorded within grant", "slices folded once"
BACK, EVICTED = "quota given back last", "evicted jobs stay as they are"


def found(story: Story, **options: tuple[str, ...]) -> str | None:
    violation = auditor.audit(story.history(), **options)
    return violation.clause if violation else None


def grown() -> Story:
    """A job of two pods that run, and a slice for a third that is admitted."""
    story = Story()
    story.workload(spec=2)
    story.workload(spec=2, granted=2)
    for uid in ("a", "b"):
        story.pod(uid, gated=True)
    story.workload(spec=2, granted=2, opened=("a", "b"))
    for uid in ("a", "b"):
        story.pod(uid)
    story.workload(spec=3, granted=2)
    story.pod("c", gated=True)
    story.workload("slice", spec=1, parent=PARENT)
    story.workload("slice", spec=1, granted=1, parent=PARENT)
    return story


def test_a_whole_life_is_right() -> None:
    story = grown()
    story.workload(spec=3, granted=3, folded=("slice",))
    story.gone("slice")
    story.workload(spec=3, granted=3, opened=("c",))
    story.pod("c")
    story.pod("a", leaving=True)  # a shrink to two
    story.workload(spec=3, granted=2)
    story.workload(spec=2, granted=2)
    story.workload("other", spec=1, granted=1, job="other-job")
    story.gone("a")
    story.workload(spec=2, granted=2, conditions=("Evicted",))
    for uid in ("b", "c"):
        story.pod(uid, leaving=True)
        story.gone(uid)
    story.workload(spec=2)
    assert found(story) is None


# Quota


def test_usage_above_quota_is_found_with_everything_that_was_there() -> None:
    story = Story(nominal=3)
    story.workload(spec=2, granted=2)
    story.workload("other", spec=2, granted=2, job="other-job")
    violation = auditor.audit(story.history())
    assert violation is not None
    assert violation.clause == QUOTA
    assert "4000 used of 3000" in violation.message
    assert str(violation.event) == "ADDED Workload default/other at 102"
    assert '"other-job"' in violation.state
    assert '"nominalQuota": "3"' in violation.state
    with pytest.raises(AssertionError, match="4000 used of 3000"):
        auditor.require(story.history())


def test_a_slice_counts_until_it_is_folded_and_not_twice() -> None:
    story = grown()
    story.workload("late", spec=1, granted=1, job="other-job")
    assert found(story) == QUOTA
    story = grown()
    story.workload(spec=3, granted=3, folded=("slice",))
    assert found(story) is None


@pytest.mark.parametrize("condition", ["Evicted", "Finished"])
def test_slices_of_a_job_that_is_ending_count_nothing(condition: str) -> None:
    story = grown()
    story.workload(spec=3, granted=2, conditions=(condition,))
    story.workload("other", spec=1, granted=1, job="other-job")
    assert found(story) is None


def test_open_pods_of_a_job_that_lost_its_workload_count() -> None:
    story = Story(nominal=2)
    story.pod("a", job="forgotten")
    story.pod("waits", job="forgotten", gated=True)
    story.workload(spec=1, granted=1)
    assert found(story) is None
    story.workload("other", spec=1, granted=1, job="other-job")
    assert found(story) == QUOTA


def test_pods_that_get_a_workload_count_with_it_alone() -> None:
    story = Story(nominal=1)
    story.pod("a")
    story.workload(spec=1, granted=1)
    assert found(story) is None


def test_quota_that_was_lowered_below_its_use_only_forbids_growth() -> None:
    story = Story(nominal=3)
    story.workload(spec=2, granted=2)
    story.queue("team", 0, generation=2)
    story.workload(spec=2, granted=1, generation=2)
    assert found(story) is None
    story.workload("other", spec=1, granted=1, job="other-job", generation=2)
    assert found(story) == QUOTA


def test_an_admission_is_judged_by_the_generation_that_it_notes() -> None:
    story = Story(nominal=3)
    story.queue("team", 1, generation=2)
    story.workload(spec=3, granted=3, generation=1)
    assert found(story) is None
    story = Story(nominal=3)
    story.workload(spec=1, granted=1, generation=7)
    assert found(story) == QUOTA


def test_a_cohort_lends_what_it_has_and_no_more() -> None:
    story = Story(nominal=1, cohort="all", borrowing=2)
    story.queue("lender", 3, cohort="all")
    story.queue("stranger", 9)
    story.workload("lent", spec=1, granted=1, queue="lender", job="lender-job")
    story.workload(spec=3, granted=3)
    assert found(story) is None
    story.workload("more", spec=1, granted=1, queue="lender", job="third-job")
    assert found(story) == QUOTA


def test_no_queue_borrows_more_than_its_limit() -> None:
    story = Story(nominal=1, cohort="all", borrowing=1)
    story.queue("lender", 3, cohort="all")
    story.workload(spec=3, granted=3)
    assert found(story) == QUOTA


def test_a_lender_counts_with_what_it_had_since_the_workload_was_last_written() -> None:
    story = Story(nominal=1, cohort="all")
    story.queue("lender", 2, cohort="all")
    story.workload(spec=2)
    story.queue("lender", 0, cohort="all", generation=2)
    story.workload(spec=2, granted=2)
    assert found(story) is None
    story.workload("late", spec=1, job="late-job")
    story.workload("late", spec=1, granted=1, job="late-job")
    assert found(story) == QUOTA


def test_what_was_there_before_is_counted_and_not_judged() -> None:
    story = Story(nominal=1)
    story.workload(spec=2, granted=2)
    before = tuple(event.object for event in reversed(story.history().events))
    assert auditor.audit(history.History(initial=before)) is None
    story.workload("other", spec=1, granted=1, job="other-job")
    later = dataclasses.replace(story.history(), initial=before)
    told = tuple(event for event in later.events if event.object not in before)
    assert auditor.audit(dataclasses.replace(later, events=told)) is not None


# Counts


def test_more_granted_than_asked_for_is_found() -> None:
    story = Story()
    story.workload(spec=1, granted=2)
    assert found(story) == SPEC


def test_more_open_pods_than_granted_are_found() -> None:
    story = Story()
    story.workload(spec=2, granted=1)
    story.pod("a")
    assert found(story) is None
    story.pod("b")
    assert found(story) == OPEN


@pytest.mark.parametrize("ended", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"leaving": True}, {"gated": True}])
def test_pods_that_have_ended_leave_or_wait_take_no_place(ended: dict[str, object]) -> None:
    story = Story()
    story.workload(spec=2, granted=1)
    story.pod("a", **ended)  # type: ignore[arg-type]
    story.pod("b")
    assert found(story) is None


def test_open_pods_of_a_job_that_waits_are_found() -> None:
    story = Story()
    story.pod("a")
    story.workload(spec=2)
    assert found(story) == OPEN


def test_open_and_recorded_pods_together_are_held_against_the_grant() -> None:
    story = Story()
    story.workload(spec=3, granted=2)
    story.pod("a", gated=True)
    story.pod("b")
    story.workload(spec=3, granted=2, opened=("a", "gone"))
    assert found(story) is None
    story.workload(spec=3, granted=1, opened=("a", "gone"))
    assert found(story) == OPEN


def test_pods_that_leave_take_a_place_when_others_are_recorded() -> None:
    story = Story()
    story.workload(spec=1, granted=1)
    story.pod("a", leaving=True)
    story.pod("b", gated=True)
    story.workload(spec=1, granted=1, opened=("b",))
    assert found(story) == RECORDED
    assert found(story, lost_nodes=("node",)) is None


# Slices


def test_a_slice_that_is_folded_a_second_time_is_found() -> None:
    story = grown()
    story.workload(spec=3, granted=3, folded=("slice",))
    story.gone("slice")
    story.workload(spec=3, granted=3)
    story.workload(spec=3, granted=3, folded=("slice",))
    assert found(story) == FOLDED


def test_a_slice_that_is_forgotten_before_it_is_gone_is_found() -> None:
    story = grown()
    story.workload(spec=3, granted=3, folded=("slice",))
    story.workload(spec=3, granted=2)
    assert found(story) == FOLDED


def test_growth_beyond_the_folded_slices_is_found() -> None:
    story = Story(nominal=9)
    story.workload(spec=4, granted=2)
    story.workload("slice", spec=1, granted=1, parent=PARENT)
    story.workload(spec=4, granted=4, folded=("slice",))
    assert found(story) == FOLDED


def test_folding_what_was_not_admitted_or_is_another_jobs_is_found() -> None:
    story = Story(nominal=9)
    story.workload(spec=4, granted=2)
    story.workload("slice", spec=1, parent=PARENT)
    story.workload(spec=4, granted=2, folded=("slice",))
    assert found(story) == FOLDED
    story = Story(nominal=9)
    story.workload(spec=4, granted=2)
    story.workload("other", spec=1, granted=1, job="other-job")
    story.workload("slice", spec=1, granted=1, parent="other", job="other-job")
    story.workload(spec=4, granted=2, folded=("slice",))
    assert found(story) == FOLDED


# Giving back


@pytest.mark.parametrize("is_deleted", [True, False])
def test_quota_given_back_while_a_pod_is_open_is_found(is_deleted: bool) -> None:  # noqa: FBT001
    story = Story()
    story.workload(spec=1, granted=1)
    story.pod("a")
    story.pod("a", leaving=True)
    if is_deleted:
        story.gone(PARENT)
    else:
        story.workload(spec=1)
    assert found(story) == BACK
    assert found(story, lost_nodes=("node",)) is None


def test_quota_given_back_while_a_pod_is_recorded_is_found() -> None:
    story = Story()
    story.pod("a", gated=True)
    story.workload(spec=1, granted=1, opened=("a",))
    story.workload(spec=1)
    assert found(story) == BACK


def test_quota_given_back_while_there_are_slices_is_found() -> None:
    story = Story()
    story.workload(spec=2, granted=1)
    story.workload("slice", spec=1, granted=1, parent=PARENT)
    story.workload(spec=2)
    assert found(story) == BACK


@pytest.mark.parametrize("change", [{"granted": 1}, {"spec": 3}, {"opened": ("a",)}])
def test_a_change_of_an_evicted_job_is_found(change: dict[str, object]) -> None:
    story = Story()
    story.pod("a", gated=True)
    story.workload(spec=2, granted=2, conditions=("Evicted",))
    story.workload(**{"spec": 2, "granted": 2, "conditions": ("Evicted",), **change})  # type: ignore[arg-type]
    assert found(story) == EVICTED


@pytest.mark.parametrize(
    ("written", "want"),
    [("250m", 250), ("2", 2000), (2, 2000), ("1Ki", 1_024_000), ("1.5G", 1_500_000_000_000), ("1e3", 1_000_000)],
)
def test_quantities_are_read_in_thousandths(written: str | float, want: int) -> None:
    assert history.amount(written) == want
