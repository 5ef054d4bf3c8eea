"""Which pools are to be told of a budget that is nearly used, committed or spent. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from autoscaler.capacity import messages
from autoscaler.capacity.model import Limit, LimitKind
from autoscaler.capacity.plan import PoolEvent
from autoscaler.capacity.scaleup.limits import budgets

Warned = Mapping[tuple[str, str, LimitKind], frozenset[budgets.State]]
"""By pool, scope and kind of a budget: what its pool was told of it."""


def warnings(budget: Limit) -> frozenset[budgets.State]:
    """Return all that a person should know of a budget: one that is spent is nearly used as well."""
    told = {
        budgets.State.NEAR: budgets.is_near(budget),
        budgets.State.COMMITTED: budget.more() == 0,
        budgets.State.SPENT: budgets.is_spent(budget),
    }
    return frozenset(state for state, holds in told.items() if holds)


def warned_of(limits: Iterable[Limit]) -> Warned:
    """Return what pools know of these budgets, once they are told."""
    return {(each.pool, each.scope, each.kind): warnings(each) for each in limits}


def due(limits: Iterable[Limit], warned: Warned, pools: Collection[str]) -> Iterator[PoolEvent]:
    """Yield what these pools are to be told of their budgets, once each time one becomes so."""
    for budget in limits:
        known = warned.get((budget.pool, budget.scope, budget.kind), frozenset())
        new = warnings(budget) - known if budget.pool in pools else frozenset[budgets.State]()
        for state in budgets.State:  # in the order in which a budget becomes so
            if state in new:
                yield PoolEvent(pool=budget.pool, reason=state, text=messages.limit(budget), limit=budget)
