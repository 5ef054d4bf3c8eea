"""Machine groups on real parts: a plane of the folder's own, our policies in force, and the runtime as a process."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.api import keys
from tests.e2e import replicas, waiting
from tests.e2e.machines import ground
from tests.e2e.machines.ground import RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tools.local import kubeconfig, tokens
from tools.local.api import Api
from tools.local.components import Options
from tools.local.plane import Plane

BOOT_SECONDS = 5.0
"""From a launch to a node: little for an instance, and far more than a guest needs where room is held."""


@pytest.fixture(scope="session")
def machine_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with our definitions and policies, and no nodes but those a test makes or has started."""
    with ground.prepared(tmp_path_factory.mktemp("machines"), Options(boot_seconds=BOOT_SECONDS)) as plane:
        yield plane


@pytest.fixture(scope="session")
def runtime_kubeconfig(machine_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of the ServiceAccount that the policies take for the runtime."""
    path = tmp_path_factory.mktemp("runtime") / "kubeconfig"
    tokens.write_kubeconfig(machine_plane.api, path, namespace=RUNTIME_NAMESPACE, service_account=RUNTIME_ACCOUNT)
    return path


@pytest.fixture(scope="session")
def runtime_api(runtime_kubeconfig: Path) -> Iterator[Api]:
    """A connection as the runtime."""
    with Api(kubeconfig.read(runtime_kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module")
def runtime(machine_plane: Plane, runtime_kubeconfig: Path) -> Iterator[replicas.Replica]:
    """The runtime that the tests of a module share."""
    with ground.replica(machine_plane, runtime_kubeconfig) as replica:
        yield replicas.ready(replica)
        assert replica.process.poll() is None, replica.log.read_text()
        assert not replica.entries("cycle_failed"), replica.entries("cycle_failed")
        replica.send(signal.SIGTERM)  # it lets go of its Lease: the next module's need not wait for that to end
        replica.wait()


@contextlib.contextmanager
def opened(plane: Plane) -> Iterator[Ground]:
    """A machine group and a namespace for its guests, cleared away in the end."""
    made = Ground(plane=plane, group=ground.unique())
    labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": made.group, "labels": labels}})
    account = f"/api/v1/namespaces/{made.group}/serviceaccounts/default"
    waiting.eventually(lambda: plane.api.get(account))
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture
def alone(machine_plane: Plane) -> Iterator[Ground]:
    """A namespace for guests, where nobody handles machines unless the test starts a replica."""
    with opened(machine_plane) as made:
        yield made


@pytest.fixture
def second(machine_plane: Plane) -> Iterator[Ground]:
    """Another group beside the first."""
    with opened(machine_plane) as made:
        yield made


@pytest.fixture
def site(runtime: replicas.Replica, alone: Ground) -> Ground:
    """A group that the module's runtime handles."""
    del runtime
    return alone
