"""A first part of the exhaustive exploration of admission; `make model` has the rest."""

import pytest

from tests.model import explorer, mutations, scenarios
from tests.model.breaking import Mutation
from tests.model.scenario import Scenario

QUICK = [each for each in mutations.MUTATIONS if not each.slow]


@pytest.mark.accept("E8")
@pytest.mark.accept("E16", part="usage, grants and gates on a toy cluster, in every order of every write")
@pytest.mark.accept("E10", part="nobody is evicted in vain, no eviction without end, on a toy cluster")
@pytest.mark.parametrize("scenario", scenarios.SMALL, ids=lambda each: each.name)
def test_every_order_of_events_keeps_the_invariants_and_can_end_well(scenario: Scenario) -> None:
    result = explorer.explore(scenario, most=scenarios.SMALL_MOST)
    assert result.violation is None, str(result.violation)
    assert result.is_whole
    assert result.ends > 0


@pytest.mark.accept("E16", part="the exploration notices when a rule of admission loses a clause")
@pytest.mark.parametrize("mutation", QUICK, ids=lambda each: f"{each.rule} {each.name}")
def test_the_exploration_notices_when_a_rule_loses_a_clause(mutation: Mutation) -> None:
    assert mutations.is_found(mutation)
