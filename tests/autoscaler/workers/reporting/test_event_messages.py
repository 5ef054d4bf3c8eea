"""What is told about a pool says the numbers, and stays short however many workers it is about."""

from autoscaler.workers.model import Growth, Reason, Stuck, Told
from autoscaler.workers.reporting import event_messages


def test_numbers_are_told_in_words() -> None:
    assert event_messages.created(1).message == "created 1 worker"
    assert event_messages.cleaned(5).message == "removed 5 workers that ended"
    full = event_messages.full(Growth(create=2, wanted=10, capacity=2), 5, ["a", "b"])
    assert full is not None
    assert (full.reason, full.message, full.warning) == (
        Reason.CAPACITY_REACHED,
        "the pool may have 5 workers, and 8 jobs have no worker",
        True,
    )


def test_workers_that_went_wrong_are_told_of_in_words_that_repeat() -> None:
    assert event_messages.failed(5).message == "5 workers failed"
    found = [Stuck(name=name, trouble="ErrImagePull") for name in ("v", "w")]
    assert event_messages.stuck(found).message == "2 workers cannot start: ErrImagePull"


def test_a_pool_that_kept_failed_workers_fill_says_so_and_names_them() -> None:
    growth = Growth(create=0, wanted=7, capacity=0)
    full = event_messages.full(growth, 4, ["a", "b", "c", "d"])
    assert full is not None
    assert full.message == (
        "the pool may have 4 workers, and failed ones that are kept fill it (a, b, c and 1 more), and 7 jobs have no "
        "worker: delete them, or set spec.workerSpec.failedWorkersLimit"
    )
    assert event_messages.full(Growth(), 4, ["a", "b", "c", "d"]) is not None  # also while no job waits
    assert event_messages.full(Growth(), 4, ["a", "b", "c"]) is None


def test_a_pool_that_may_have_no_worker_is_not_said_to_be_filled_by_failed_ones() -> None:
    assert event_messages.full(Growth(), 0, ["a"]) is None
    full = event_messages.full(Growth(wanted=3), 0, ["a"])
    assert full is not None
    assert full.message == "the pool may have 0 workers, and 3 jobs have no worker"


def test_every_reason_of_the_seed_has_words() -> None:
    growth = Growth(create=0, wanted=1, capacity=0)
    told = [
        event_messages.adopted("prod-us"),
        event_messages.not_reconciled("why"),
        event_messages.cleaned(1),
        event_messages.failed(1),
        event_messages.full(growth, 0, []) or Told(reason=Reason.ADOPTED, message=""),
        event_messages.created(1),
        event_messages.paused(),
        event_messages.shut_down(),
        event_messages.not_cleaned("why"),
    ]
    assert [one.reason for one in told] == list(Reason)
    assert all(one.message for one in told)
