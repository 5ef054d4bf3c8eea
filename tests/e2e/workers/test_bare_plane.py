"""A plane where no other operator is: the definition comes late, rivals meet, and pools go while nobody is there."""

import contextlib
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from autoscaler.api import crds, keys, manifests, version
from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, ground, queue_servers, test_partition
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

COMPONENTS = USUAL - {Component.MOTO, Component.NODE_REGISTRAR}
DEFINITION = f"workerpools.{version.GROUP}"
NAMESPACES = ("one", "two")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane that nobody else uses, with two namespaces in which pods may be created."""
    with Plane.start(tmp_path_factory.mktemp("bare"), Options(components=COMPONENTS)) as plane:
        for name in NAMESPACES:
            plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            waiting.eventually(partial(plane.api.get, path))
            ground.Ground(plane=plane, namespace=name).make_source()
        plane.api.create("/api/v1/nodes", ground.node("workers"))
        yield plane


@pytest.fixture
def start(bare: Plane, tmp_path: Path) -> Iterator[conftest.Start]:
    with contextlib.ExitStack() as stack:
        for name in NAMESPACES:
            stack.callback(ground.Ground(plane=bare, namespace=name).clear)
        kubeconfig = stack.enter_context(replicas.copy_of(bare, tmp_path))

        def begin(identity: str, namespace: str, *flags: str) -> replicas.Replica:
            made = replicas.Replica(kubeconfig, namespace, identity, *conftest.FLAGS, *flags, program=replicas.RUNTIME)
            return stack.enter_context(made)

        yield begin


@pytest.mark.accept("W2")
def test_without_the_definition_the_runtime_says_so_and_works_once_it_is_there(
    bare: Plane, start: conftest.Start, queues: queue_servers.Queues
) -> None:
    others = [one for one in crds.all_crds() if one["metadata"]["name"] != DEFINITION]
    bare.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(others))
    bare.kubectl("delete", "crd", "--ignore-not-found", DEFINITION)
    waiting.eventually(lambda: bare.api.request("GET", f"/apis/{version.GROUP_VERSION}/workerpools").status == 404)
    replica = replicas.ready(start("patient", "one"))
    (entry,) = waiting.eventually(lambda: replica.entries("kind_not_served"))
    assert (entry["kind"], entry["level"]) == ("WorkerPool", "warning")
    assert replica.get("/healthz") == (200, "ok\n")

    conftest.install(bare)
    site = ground.Ground(plane=bare, namespace="one")
    site.make_pool("first", queues.fill("first", 2))
    site.wait_for_workers("first", 2)
    site.wait_for_status("first", managedBy="patient", pendingWorkers=2)


@pytest.mark.accept("W3", "W4")
def test_two_default_operators_of_the_cluster_meet_wherever_they_run(
    bare: Plane, start: conftest.Start, queues: queue_servers.Queues
) -> None:
    conftest.install(bare)
    first = replicas.ready(start("first", "one", "--scope", "cluster"))
    waiting.eventually(lambda: test_partition.leads(first))
    second = replicas.ready(start("second", "two", "--scope", "cluster"))
    site = ground.Ground(plane=bare, namespace="two")
    test_partition.check_rivals(site, queues, first, second)


@pytest.mark.accept("W20")
def test_pools_that_are_shut_down_or_deleted_leave_no_worker_behind_also_while_the_runtime_is_away(
    bare: Plane, start: conftest.Start, queues: queue_servers.Queues
) -> None:
    conftest.install(bare)
    alone = ground.Ground(plane=bare, namespace="one")
    first = replicas.ready(start("keeper", alone.namespace))
    alone.make_source("runs", ground.running_pods("runs"))
    for pool in ("deleted", "shut", "freed", "kept"):
        source = "runs" if pool in {"deleted", "freed"} else ground.SOURCE
        alone.make_pool(pool, queues.fill(pool, 3), poolCapacity=3, workerSpec__podTemplate__source__name=source)
    for pool in ("deleted", "shut", "freed", "kept"):
        alone.wait_for_workers(pool, 3)
        alone.wait_for_status(pool, workers=3)
        assert alone.pool(pool)["metadata"]["finalizers"] == [keys.FINALIZER]
    kept = alone.names("kept")
    first.send(signal.SIGKILL)
    first.wait()

    alone.plane.kubectl("-n", "one", "delete", "--wait=false", "wp", "deleted")
    alone.change("shut", status="Shutdown")
    alone.plane.api.merge(alone.pool_path("freed"), {"metadata": {"finalizers": None}})
    alone.plane.kubectl("-n", "one", "delete", "wp", "freed")
    # The garbage collector does this too, but it may take half a minute to learn of a new kind.
    alone.plane.kubectl("-n", "one", "delete", "--wait=false", "pods", "-l", f"{keys.WORKER_POOL}=freed")
    assert not alone.is_gone("deleted"), "it waits for us"
    assert len(alone.workers("deleted")) == len(alone.workers("shut")) == len(alone.workers("freed")) == 3

    replicas.ready(start("keeper", alone.namespace))
    for pool in ("deleted", "shut", "freed"):
        alone.wait_for_workers(pool, 0)
    waiting.eventually(lambda: alone.is_gone("deleted"))
    alone.wait_for_status("shut", workers=0, pendingWorkers=0, currentCapacity=3)
    assert alone.names("kept") == kept

    alone.change("kept", status="Shutdown")
    alone.wait_for_workers("kept", 0)
    alone.change("shut", status="Active")
    alone.wait_for_workers("shut", 3)
    alone.plane.kubectl("-n", "one", "delete", "--timeout=30s", "wp", "shut", "kept")  # waits until they are gone
    assert not alone.workers("shut")
