"""Each contract test runs twice: on the simulated cloud in `make test`, on moto behind the referee in `make e2e`."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.cloud import real, worlds
from tools.local.referee import Referee


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    """A moto with the referee before it, which all tests share."""
    with real.refereed(tmp_path_factory.mktemp("moto")) as started:
        yield started


@pytest.fixture(
    params=[
        pytest.param("simulated", marks=pytest.mark.simulated),
        pytest.param("real", marks=pytest.mark.real),
    ]
)
def world(request: pytest.FixtureRequest) -> worlds.SimulatedStage | real.RealStage:
    """The world of an async test, which gets it opened."""
    if request.param == "simulated":
        return worlds.SimulatedStage()
    return real.RealStage(referee=request.getfixturevalue("referee"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in the world it asks for."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in wanted if name != "world"}
    stage = pyfuncitem.funcargs["world"]
    assert isinstance(stage, worlds.SimulatedStage | real.RealStage)
    stage.run(lambda world: test(world=world, **arguments))
    return True
