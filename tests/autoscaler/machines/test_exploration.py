"""A first part of the exhaustive exploration of machines; `make model` has the rest."""

import pytest

from tests.model.breaking import Mutation
from tests.model.machines import explorer, mutations, scenarios
from tests.model.machines.scenario import Scenario


@pytest.mark.accept("M10", part="open sleepers and guests are never more than maximum, in every order of every write")
@pytest.mark.accept("M13", part="no write comes again and again, on a toy cluster")
@pytest.mark.accept("M14", part="no state from which a waiting guest with room cannot be bound, on a toy cluster")
@pytest.mark.parametrize("scenario", scenarios.SMALL, ids=lambda each: each.name)
def test_every_order_of_events_keeps_the_maximum_and_can_end_well(scenario: Scenario) -> None:
    result = explorer.explore(scenario, most=scenarios.SMALL_MOST)
    assert result.violation is None, str(result.violation)
    assert result.is_whole
    assert result.ends > 0


@pytest.mark.accept("M14", part="the exploration notices when a rule of machines loses a clause")
@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=lambda each: f"{each.rule} {each.name}")
def test_the_exploration_notices_when_a_rule_loses_a_clause(mutation: Mutation) -> None:
    assert mutations.is_found(mutation)
