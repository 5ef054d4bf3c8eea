"""Each contract test runs twice: on the simulated cloud in `make test`, on moto behind the ASG rules in `make e2e`."""

from collections.abc import Iterator

import pytest

from tests.contract import stages
from tests.contract.cloud import real, worlds
from tools.local.asg.asg_rules import AsgRules


@pytest.fixture(scope="session")
def asg_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgRules]:
    """A moto with the ASG rules before it, which all tests share."""
    with real.with_asg_rules(tmp_path_factory.mktemp("moto")) as started:
        yield started


@pytest.fixture(params=stages.BOTH)
def world(request: pytest.FixtureRequest) -> stages.Stage:
    """The world of an async test, which gets it opened."""
    if request.param == stages.SIMULATED:
        return worlds.SimulatedStage()
    return real.RealStage(asg_rules=request.getfixturevalue("asg_rules"))
