"""Worker pools on the shared plane: one operator that most tests share, and replicas of a test's own."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.api import crds, manifests, version
from tests.e2e import groups, replicas, waiting
from tests.e2e.workers import ground, queue_servers
from tools.local.plane import Plane

SHARED_CLASS = "shared"
SHARED_IDENTITY = "shared-operator"
FLAGS = ("--controllers", "workers", "--allow-loopback-queues")
"""How every replica of these tests is started."""
Start = Callable[..., replicas.Replica]


@pytest.fixture(scope="module")
def queues() -> Iterator[queue_servers.Queues]:
    with queue_servers.Queues() as served:
        yield served


@pytest.fixture(scope="session")
def served(plane: Plane) -> Plane:
    """The shared plane with our definitions."""
    install(plane)
    return plane


def install(plane: Plane) -> None:
    """Apply all definitions and wait until worker pools are served."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests.dump(crds.all_crds()))
    path = f"/apis/{version.GROUP_VERSION}/workerpools"
    waiting.eventually(lambda: plane.api.request("GET", path).ok)


@pytest.fixture(scope="session")
def node(served: Plane) -> Iterator[str]:
    """A node for workers that shall run."""
    name = f"workers-{secrets.token_hex(4)}"
    served.api.create("/api/v1/nodes", ground.node(name))
    waiting.eventually(lambda: groups.is_schedulable(served.api.get(f"/api/v1/nodes/{name}")))
    yield name
    served.api.delete(f"/api/v1/nodes/{name}")


@pytest.fixture(scope="session")
def operator(served: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[replicas.Replica]:
    """The operator that most tests share: it handles the pools of one class, in all namespaces."""
    with (
        replicas.copy_of(served, tmp_path_factory.mktemp("operator")) as kubeconfig,
        replicas.Replica(
            kubeconfig,
            "default",
            SHARED_IDENTITY,
            *FLAGS,
            *("--scope", "cluster", "--class-name", SHARED_CLASS, "--no-default-class"),
            program=replicas.RUNTIME,
            environment=served.environment,
        ) as replica,
    ):
        yield replicas.ready(replica)
        assert replica.process.poll() is None, replica.log.read_text()
        assert not replica.entries("pool_failed"), replica.entries("pool_failed")
        assert not replica.entries("cycle_failed"), replica.entries("cycle_failed")


@pytest.fixture
def site(served: Plane, namespace: str, operator: replicas.Replica) -> Iterator[ground.Ground]:
    """A namespace with a source, where pools are handled by the shared operator."""
    del operator
    made = ground.Ground(plane=served, namespace=namespace, class_name=SHARED_CLASS)
    made.make_source()
    yield made
    made.clear()


@pytest.fixture
def alone(served: Plane, namespace: str) -> Iterator[ground.Ground]:
    """A namespace with a source, where nobody handles pools unless the test starts a replica."""
    made = ground.Ground(plane=served, namespace=namespace)
    made.make_source()
    yield made
    made.clear()


@pytest.fixture
def start(served: Plane, tmp_path: Path) -> Iterator[Start]:
    """Start replicas of the runtime that end with the test."""
    with replicas.copy_of(served, tmp_path) as kubeconfig, contextlib.ExitStack() as stack:

        def begin(identity: str, namespace: str, *flags: str, config: Path = kubeconfig) -> replicas.Replica:
            made = replicas.Replica(config, namespace, identity, *FLAGS, *flags, program=replicas.RUNTIME)
            return stack.enter_context(made)

        yield begin
