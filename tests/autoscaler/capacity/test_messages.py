"""What was decided is said in words and units that people use, and every reason and limit has its words."""

from typing import Any

import pytest

from autoscaler.capacity import messages
from autoscaler.capacity.model import LimitKind, Reason, Rejection
from autoscaler.capacity.scaleup.scopes.latency import Patience, Target
from tests.autoscaler.capacity import builders


def said(reason: Reason, **numbers: Any) -> str:
    return messages.rejection(Rejection(reason=reason, **numbers))


@pytest.mark.parametrize(
    ("what", "wanted", "available", "want"),
    [
        ("cpu", 64_000, 31_830, "cpu: wants 64, has 31.83"),
        ("memory", 3 << 39, 64_532_000_000, "memory: wants 1.5 TiB, has 60.1 GiB"),
        ("memory", 1 << 60, 16_138_633_216, "memory: wants 1 EiB, has 15.0 GiB"),
        ("nvidia.com/gpu", 8, 4, "nvidia.com/gpu: wants 8, has 4"),
    ],
)
def test_amounts_have_the_units_of_their_resource(what: str, wanted: int, available: int, want: str) -> None:
    assert said(Reason.INSUFFICIENT, what=what, wanted=wanted, available=available) == want


@pytest.mark.parametrize(
    ("kind", "of", "want"),
    [
        (LimitKind.POOL_INSTANCES, {}, "the pool has 8000 of at most 9000 instances"),
        (LimitKind.CLUSTER_NODES, {}, "the cluster has 8000 of at most 9000 nodes"),
        (LimitKind.CLUSTER_CPU, {}, "the cluster has 8 of at most 9 cores"),
        (LimitKind.LAUNCHES, {}, "8000 of at most 9000 instances were started within a minute"),
        (LimitKind.STATED, {"message": "it is used up"}, "it is used up"),
        (
            LimitKind.POOL_SECONDS,
            {"expected": 50, "each": 60},
            "the pool may use 2 h 30 min of instances a month: 2 h 13 min used, 50 s expected, one more takes 1 min",
        ),
        (
            LimitKind.SCOPE_SECONDS,
            {"scope": "a", "pool": "gpu", "most": 7200, "used": 3600},
            "scope a may use 2 h of instances a month in pool gpu: 1 h used, 0 s expected, one more takes 1 s",
        ),
        (
            LimitKind.POOL_COST,
            {"most": 2_000_000, "used": 500_000, "expected": 70_000, "each": 5_700_000},
            "the pool may cost 2.00 a month: 0.50 used, 0.07 expected, one more takes 5.70",
        ),
    ],
)
def test_a_limit_is_told_with_what_is_used_of_it(kind: LimitKind, of: dict[str, Any], want: str) -> None:
    numbers = builders.limit(**{"most": 9000, "used": 8000, "kind": kind, **of})
    assert said(Reason.LIMIT, numbers=numbers) == want
    steady = messages.lasting(Rejection(reason=Reason.LIMIT, numbers=numbers))
    assert want.startswith(steady)
    assert "used" not in steady or kind is LimitKind.STATED


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_words(reason: Reason) -> None:
    limit = builders.limit(1)
    each = Rejection(reason=reason, what="THIS", message="THAT", wanted=71, available=72, numbers=limit)
    told = messages.rejection(each)
    assert told
    assert "{" not in told


@pytest.mark.parametrize("kind", LimitKind)
def test_every_limit_has_words(kind: LimitKind) -> None:
    assert messages.limit(builders.limit(1, kind, message="THAT"))


def test_a_full_group_says_how_many_it_has() -> None:
    assert said(Reason.AT_MAXIMUM, wanted=2, available=2) == "the group has 2 of at most 2"


def test_what_is_unavailable_says_for_how_long_but_not_in_a_status() -> None:
    each = Rejection(reason=Reason.UNAVAILABLE, what="InsufficientCapacity", message="none left", wanted=90)
    assert messages.rejection(each) == "unavailable for 1 min 30 s more (InsufficientCapacity): none left"
    assert messages.lasting(each) == "unavailable (InsufficientCapacity): none left"


def test_pods_left_to_wait_for_a_slot_are_told_the_numbers() -> None:
    target = Target(target_seconds=720, boot_seconds=120, duration_seconds=600)
    want = (
        "40 of 100 waiting pods get a slot now, 10 slots are busy; the others wait for one that is free in time, or"
        " sooner than a new one (target 12 min, boot 2 min, a pod runs 10 min)"
    )
    assert said(Reason.PATIENCE, numbers=Patience(waiting=100, slots=40, target=target, busy=10)) == want


def test_a_pod_is_told_every_reason_with_the_first_groups_that_say_so() -> None:
    full = Rejection(reason=Reason.AT_MAXIMUM, wanted=2, available=2, groups=tuple(map(builders.key, "abcd")))
    off = Rejection(reason=Reason.DISABLED, groups=(builders.key("a"),))
    key = builders.key().instance_type
    want = (
        "pod didn't trigger scale-up: the group has 2 of at most 2"
        f" (4 groups: pool/a/{key}, pool/b/{key}, pool/c/{key}, …); the pool is disabled (1 group: pool/a/{key})"
        "; `python -m autoscaler explain pod` lists all 5 groups"
    )
    assert messages.not_triggered([full, off]) == want
    assert messages.not_triggered([]) == "pod didn't trigger scale-up: there is no node group"


def test_of_many_groups_the_nearest_are_told_and_where_to_see_the_rest() -> None:
    """A limit may be raised and a shortage ends; what another pool's nodes lack comes last."""
    key = builders.key
    given = [
        Rejection(reason=Reason.NOT_ALLOWED, groups=(key("a", pool="x"), key("b", pool="x"))),
        Rejection(reason=Reason.UNAVAILABLE, what="No", wanted=60, groups=(key("a", pool="u"),)),
        Rejection(reason=Reason.SELECTOR, what="a=b", groups=tuple(key(zone, pool="y") for zone in "abcde")),
        Rejection(reason=Reason.INSUFFICIENT, what="cpu", wanted=64_000, available=3_920, groups=(key("a", pool="z"),)),
        Rejection(reason=Reason.AT_MAXIMUM, wanted=2, available=2, groups=(key("b"), key("c"))),
    ]
    told = messages.not_triggered(given)
    full, short, small, rest = told.removeprefix("pod didn't trigger scale-up: ").split("; ")
    assert full.startswith("the group has 2 of at most 2 (2 groups: pool/b/")
    assert short.startswith("unavailable for 1 min more (No)")
    assert small.startswith("cpu: wants 64, has 3.92 (1 group: z/a/")
    assert rest == "`python -m autoscaler explain pod` lists all 11 groups"


@pytest.mark.parametrize(
    ("used", "expected", "want"),
    [
        (0, 0, ""),
        (800, 0, "the pool may use 16 min of instances a month: 80 % or more is used"),
        (100, 850, "the pool may use 16 min of instances a month: what runs is expected to use it up"),
        (1000, 0, "the pool may use 16 min of instances a month: 100 % or more is used"),
    ],
)
def test_a_budget_warns_in_few_steps(used: int, expected: int, want: str) -> None:
    assert (
        messages.warning(builders.limit(1000, LimitKind.POOL_SECONDS, used=used, expected=expected, each=100)) == want
    )


def test_the_log_has_the_limits_as_data() -> None:
    limit = builders.limit(3, LimitKind.POOL_INSTANCES, pool="gpu", used=3)
    (got,) = messages.limits([Rejection(reason=Reason.LIMIT, numbers=limit), Rejection(reason=Reason.DISABLED)])
    assert (got["kind"], got["pool"], got["most"], got["used"]) == (LimitKind.POOL_INSTANCES, "gpu", 3, 3)
