"""Each contract test runs twice: on the simulated cluster in `make test`, on the real API server in `make e2e`."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.api import crds, manifests, policies, resources
from autoscaler.kube import kinds
from tests import builders
from tests.contract import stages, worlds
from tests.e2e import waiting
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

COMPONENTS = USUAL - {Component.MOTO, Component.NODE_REGISTRAR}


@pytest.fixture(scope="session")
def contract_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with our definitions and policies in force, and no nodes but those a test makes."""
    with Plane.start(tmp_path_factory.mktemp("contract"), Options(components=COMPONENTS)) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(policies.manifests()))
        nameless = {**builders.resource("Machine"), "metadata": {"name": "nameless"}}
        served = [kinds.custom(kind).collection() for kind in resources.KINDS]
        waiting.eventually(lambda: all(plane.api.request("GET", path).ok for path in served))
        waiting.eventually(lambda: "machine-group" in str(_refusal(plane, nameless)))
        yield plane


@pytest.fixture(params=stages.BOTH)
def world(request: pytest.FixtureRequest) -> stages.Stage:
    """The world of an async test, which gets it opened."""
    if request.param == stages.SIMULATED:
        return worlds.SimulatedStage()
    return worlds.RealStage(plane=request.getfixturevalue("contract_plane"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in the world it asks for, here and in the folders below."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in wanted if name != "world"}
    stage = pyfuncitem.funcargs["world"]
    assert isinstance(stage, stages.Stage)
    stage.run(lambda world: test(world=world, **arguments))
    return True


def _refusal(plane: Plane, body: dict[str, Any]) -> Any:
    return plane.api.request("POST", "/apis/sluice.dev/v1alpha1/machines", body, query={"dryRun": "All"}).body
