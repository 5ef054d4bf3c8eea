"""Nothing is started whose expected life would pass a budget, and idle instances go once it is used."""

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.pools import CapacityType, InstancePoolSpec
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.capacity.model import Limit, LimitKind, Reason
from autoscaler.capacity.records import accounting, instance_status
from autoscaler.capacity.records.accounting import Durations, ScopePool
from autoscaler.capacity.scaleup.limits import budgets, costs
from autoscaler.capacity.scaleup.limits.budgets import Books, State
from autoscaler.capacity.scaleup.limits.lasting import Lasting
from autoscaler.cloud.prices import Prices
from tests.autoscaler.capacity import books
from tests.autoscaler.capacity.books import START

PRICES = Prices(hourly_micros={("m5.xlarge", CapacityType.ON_DEMAND): 3_600_000})


def pool(*, idle: int = 100, ephemeral: bool = False, **limits: Any) -> InstancePoolSpec:
    return InstancePoolSpec.model_validate(
        {
            "providerAccount": "aws",
            "ephemeral": ephemeral,
            "specifications": {"instanceTypes": ["m5.xlarge"]},
            "limits": {"maxIdleSeconds": idle, **limits},
        }
    )


def scope(seconds: int) -> ScopeSpec:
    limits = {"targetMaxSecondsPerMonth": seconds}
    return ScopeSpec.model_validate({"pools": [{"name": "gpu", "limits": limits}]})


def instance(number: int, phase: str, created_at: float, **more: Any) -> Instance:
    known: dict[str, Any] = {"phase": phase, "instanceCreatedAt": books.date(created_at), "instanceType": "m5.xlarge"}
    return books.instance(number, **known | more).resource


def work(started_at: float, *, share: int = 1_000_000) -> dict[str, Any]:
    return {"podUID": "p", "scope": "team", "startedAt": books.date(started_at), "shareMillionths": share}


def ended(at: datetime) -> dict[str, Any]:
    return {"type": instance_status.ENDED, "status": "True", "reason": "StateTransition", "lastTransitionTime": at}


def all_of(made: Books) -> tuple[Limit, ...]:
    hourly = costs.hourly_micros(made.instances, made.pools, made.prices)
    return budgets.budgets(made, accounting.month_to_date(made.instances, made.now, hourly))


def only(made: Books) -> Limit:
    (found,) = all_of(made)
    return found


def test_a_pool_without_limits_has_no_budget() -> None:
    assert all_of(Books(now=START, pools={"gpu": pool()})) == ()


def test_a_first_instance_is_expected_to_take_as_long_as_a_pod_and_then_to_idle() -> None:
    got = only(Books(now=START, pools={"gpu": pool(targetMaxSecondsPerMonth=2100)}))
    assert (got.each, got.more(), budgets.state(got)) == (700, 3, State.WITHIN)


def test_pods_are_expected_to_take_as_long_as_they_did() -> None:
    durations = {
        ScopePool("team", "gpu"): Durations(mean_seconds=100, samples=3),
        ScopePool("lab", "gpu"): Durations(mean_seconds=300, samples=1),
        ScopePool("lab", "cpu"): Durations(mean_seconds=9999, samples=99),
    }
    got = only(Books(now=START, pools={"gpu": pool(targetMaxSecondsPerMonth=1000)}, durations=durations))
    assert got.each == 150 + 100


def test_instances_are_expected_to_live_as_long_as_those_that_are_gone() -> None:
    gone = [
        instance(number, "Terminated", START - 9000, conditions=[ended(books.date(START - 9000 + seconds))])
        for number, seconds in ((1, 1000), (2, 2001))
    ]
    got = only(Books(now=START, pools={"gpu": pool(targetMaxSecondsPerMonth=9000)}, instances=tuple(gone)))
    assert got.each == 1501


def test_a_life_counts_until_the_month_is_over() -> None:
    now = books.at(2026, 11, 30, 23, 59)
    got = only(Books(now=now, pools={"gpu": pool(targetMaxSecondsPerMonth=600)}, unrecorded={"gpu": 2}))
    assert (got.each, got.expected, got.more()) == (60, 120, 8)


@pytest.mark.parametrize(
    ("one", "want"),
    [
        (instance(1, "Launching", START - 50), (50, 700 - 50)),
        (instance(1, "Launching", START - 5000), (5000, 0)),
        (instance(1, "Ready", START - 500, idleSince=books.date(START - 30)), (500, 70)),
        (instance(1, "Ready", START - 500, running=[work(START - 200)]), (500, 400 + 100)),
        (instance(1, "Ready", START - 5000, running=[work(START - 2000)]), (5000, 100)),
        (instance(1, "Draining", START - 500, idleSince=books.date(START - 300)), (500, 0)),
    ],
)
def test_what_runs_is_used_and_what_it_will_use_is_expected(one: Instance, want: tuple[int, int]) -> None:
    got = only(Books(now=START, pools={"gpu": pool(targetMaxSecondsPerMonth=99_999)}, instances=(one,)))
    assert (got.used, got.expected) == want


def test_an_ephemeral_instance_does_not_idle_after_its_work() -> None:
    one = instance(1, "Ready", START - 500, running=[work(START - 200)])
    spec = pool(ephemeral=True, targetMaxSecondsPerMonth=99_999)
    assert only(Books(now=START, pools={"gpu": spec}, instances=(one,))).expected == 400


def test_a_scope_has_what_its_pods_used_and_will_use_by_their_share_and_all_that_starts() -> None:
    one = instance(1, "Ready", START - 500, running=[work(START - 200, share=250_000)])
    two = instance(2, "Launching", START - 50)
    made = Books(
        now=START,
        pools={"gpu": pool()},
        scopes={"team": scope(5000), "lab": ScopeSpec()},
        instances=(one, two),
        unrecorded={"gpu": 1},
    )
    got = only(made)
    assert (got.kind, got.scope) == (LimitKind.SCOPE_SECONDS, "team")
    assert (got.used, got.expected, got.each) == (50, 100 + 2 * 700, 700)
    assert budgets.limits((got,)) == ()
    assert budgets.scope_limits((got,)) == {ScopePool("team", "gpu"): got}


def test_what_does_not_end_and_what_a_minimum_keeps_is_expected_to_use_the_rest_of_the_month() -> None:
    left = accounting.month_end(START) - int(START)
    ready = [instance(number, "Ready", START - 500, running=[work(START - 200)]) for number in (1, 2)]
    idle = instance(3, "Ready", START - 500, idleSince=books.date(START - 30))
    pools = {"gpu": pool(targetMaxSecondsPerMonth=2 * left)}
    kept = Lasting(
        pods=frozenset(), instances=frozenset({ready[0].metadata.name, idle.metadata.name}), unrecorded=Counter()
    )
    got = only(Books(now=START, pools=pools, instances=(*ready, idle), lasting=kept))
    assert (got.expected, got.each, got.each_endless) == (2 * left + 500, 700, left)
    running = Lasting(pods=frozenset({"p"}), instances=frozenset(), unrecorded=Counter({ScopePool("team", "gpu"): 2}))
    made = Books(now=START, pools={"gpu": pool()}, scopes={"team": scope(5000)}, instances=ready[:1], lasting=running)
    assert only(made).expected == 3 * left


def test_money_is_reckoned_with_the_dearest_type() -> None:
    one = instance(1, "Ready", START - 500, idleSince=books.date(START - 30))
    spec = pool(targetMaxCostPerMonth=2)
    got = only(Books(now=START, pools={"gpu": spec}, instances=(one,), prices=PRICES))
    want = Limit(
        kind=LimitKind.POOL_COST,
        pool="gpu",
        most=2_000_000,
        used=500_000,
        expected=70_000,
        each=700_000,
        each_endless=(accounting.month_end(START) - int(START)) * 1000,
    )  # a thousandth a second
    assert got == want
    assert got.more() == 2


def test_a_type_without_a_price_may_not_start_under_a_limit_of_money() -> None:
    told = budgets.unpriced(pool(targetMaxCostPerMonth=2), "m5.large", PRICES)
    assert told is not None
    assert (told.reason, told.what, told.wanted) == (Reason.NO_PRICE, "m5.large on-demand", 2)
    assert budgets.unpriced(pool(targetMaxCostPerMonth=2), "m5.xlarge", PRICES) is None
    assert budgets.unpriced(pool(), "m5.large", PRICES) is None


@pytest.mark.parametrize(
    ("used", "expected", "want"),
    [
        (0, 0, State.WITHIN),
        (799, 0, State.WITHIN),
        (800, 0, State.NEAR),
        (800, 101, State.COMMITTED),
        (0, 901, State.COMMITTED),
        (1000, 0, State.SPENT),
    ],
)
def test_a_budget_warns_then_starts_nothing_then_removes_what_is_idle(used: int, expected: int, want: State) -> None:
    got = Limit(kind=LimitKind.POOL_SECONDS, pool="gpu", most=1000, used=used, expected=expected, each=100)
    assert budgets.state(got) is want
    assert budgets.is_near(got) is (used >= 800)
    assert budgets.spent_pools((got,)) == ({"gpu": got} if want is State.SPENT else {})


def test_a_scope_that_has_spent_its_part_removes_no_instances_of_others() -> None:
    spent = Limit(kind=LimitKind.SCOPE_SECONDS, pool="gpu", scope="team", most=1, used=1, expected=0, each=1)
    assert budgets.spent_pools((spent,)) == {}


@given(*(st.integers(0, 10**9) for _ in range(3)), st.integers(0, 10**7))
def test_nothing_is_started_beyond_a_limit_and_nothing_less_than_it_allows(
    limit: int, used: int, expected: int, each: int
) -> None:
    got = Limit(kind=LimitKind.POOL_SECONDS, pool="gpu", most=limit, used=used, expected=expected, each=each)
    assert got.more() == 0 or got.used + got.expected + got.more() * each <= limit
    assert got.used + got.expected + (got.more() + 1) * max(1, each) > limit
    assert not (budgets.is_spent(got) and got.more())


@given(st.integers(0, 50), st.integers(0, 20_000))
def test_what_was_started_counts_at_once(already: int, limit: int) -> None:
    spec = pool(targetMaxSecondsPerMonth=limit)
    first = only(Books(now=START, pools={"gpu": spec}, unrecorded={"gpu": already}))
    then = only(Books(now=START, pools={"gpu": spec}, unrecorded={"gpu": already + first.more()}))
    assert then.more() == 0


def test_last_month_is_no_matter() -> None:
    now = books.at(2026, 12, 1, 0, 10)
    one = instance(1, "Ready", now - 9000, idleSince=books.date(now - 60), months={"2026-11": {"seconds": 99_999}})
    got = only(Books(now=now, pools={"gpu": pool(targetMaxSecondsPerMonth=10_000)}, instances=(one,)))
    assert (got.used, got.expected) == (600, 40)


def test_a_pool_has_an_excess_beyond_the_most_instances() -> None:
    assert [budgets.excess(pool(maxActiveInstances=3), active) for active in (2, 3, 5)] == [0, 0, 2]
    assert budgets.excess(pool(), 1000) == 0


def test_the_order_of_what_is_known_does_not_matter() -> None:
    ones = tuple(instance(number, "Launching", START - number) for number in range(1, 6))
    limit: dict[str, Any] = {"targetMaxSecondsPerMonth": 99_999}
    made = Books(now=START, pools={"gpu": pool(**limit), "cpu": pool(**limit)}, instances=ones)
    turned = Books(now=START, pools={"cpu": pool(**limit), "gpu": pool(**limit)}, instances=ones[::-1])
    assert all_of(made) == all_of(turned)
    assert accounting.month_to_date(ones, START) == accounting.month_to_date(ones[::-1], START)
