"""What is told about a pool says the numbers, and stays short however many workers it is about."""

from autoscaler.workers import telling
from autoscaler.workers.model import Growth, Phase, Reason, Worker


def test_numbers_are_told_in_words() -> None:
    assert telling.created(1).message == "created 1 worker"
    assert telling.cleaned(5).message == "removed 5 workers that ended"
    full = telling.full(Growth(create=2, wanted=10, capacity=2), 5)
    assert (full.reason, full.message, full.warning) == (
        Reason.CAPACITY_REACHED,
        "the pool may have 5 workers, and 8 jobs have no worker",
        True,
    )


def test_of_many_workers_three_are_named() -> None:
    assert telling.failed([f"w-{number}" for number in range(5)]).message == "failed: w-0, w-1, w-2 and 2 more"
    found = [Worker(name="w", phase=Phase.PENDING, trouble="ErrImagePull")]
    assert telling.stuck(found).message == "cannot start: w (ErrImagePull)"


def test_every_reason_of_the_seed_has_words() -> None:
    growth = Growth(create=0, wanted=1, capacity=0)
    told = [
        telling.adopted("prod-us"),
        telling.not_reconciled("why"),
        telling.cleaned(1),
        telling.failed(["w"]),
        telling.full(growth, 0),
        telling.created(1),
        telling.paused(),
        telling.shut_down(),
        telling.not_cleaned("why"),
    ]
    assert [one.reason for one in told] == list(Reason)
    assert all(one.message for one in told)
