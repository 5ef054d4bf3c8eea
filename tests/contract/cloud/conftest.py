"""Each contract test runs twice: on the simulated cloud in `make test`, on moto behind the referee in `make e2e`."""

from collections.abc import Iterator

import pytest

from tests.contract import stages
from tests.contract.cloud import real, worlds
from tools.local.referee import Referee


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    """A moto with the referee before it, which all tests share."""
    with real.refereed(tmp_path_factory.mktemp("moto")) as started:
        yield started


@pytest.fixture(params=stages.BOTH)
def world(request: pytest.FixtureRequest) -> stages.Stage:
    """The world of an async test, which gets it opened."""
    if request.param == stages.SIMULATED:
        return worlds.SimulatedStage()
    return real.RealStage(referee=request.getfixturevalue("referee"))
