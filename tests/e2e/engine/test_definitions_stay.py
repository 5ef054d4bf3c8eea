"""Definitions, and the objects people made, survive everything a stack does; the runtime's rights follow its scope."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import crds
from tests import builders
from tests.e2e.engine import stacks
from tools.engine.engine import Engine
from tools.engine.layout import Surroundings
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

ALL = {one["metadata"]["name"] for one in crds.all_crds()}
WORKER_POOLS = "workerpools.sluice.dev"
ACCOUNT = "system:serviceaccount:sluice-system:sluice"


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    """A cluster with one node, and without AWS."""
    started = start_plane(Options(components=USUAL - {Component.MOTO, Component.NODE_REGISTRAR}))
    node = {
        "metadata": {"name": "node", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }
    started.api.create("/api/v1/nodes", node)
    return started


def document(*, install: bool = True, destroy: bool = False, scope: str = "namespace") -> dict[str, Any]:
    autoscaler = {"crds": {"installWorkerPool": install}, "scope": scope}
    return stacks.document({"here": stacks.bare(autoscaler=autoscaler, destroyCustomResources=destroy)})


def may(plane: Plane, verb: str, resource: str, namespace: str) -> bool:
    """Ask the API server whether the runtime may do something."""
    group, name = ("", resource) if resource == "secrets" else ("sluice.dev", resource)
    attributes = {"verb": verb, "group": group, "resource": name, "namespace": namespace}
    review = {"spec": {"user": ACCOUNT, "resourceAttributes": attributes}}
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.accept("S11", "S13", "W2", "W3")
def test_definitions_outlive_flips_upgrades_and_the_stack(plane: Plane, tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))
    empty = stacks.inventory(plane)

    # Left to somebody else from the start: not made, and everything else works.
    engine.write_stack("test", document(install=False))
    engine.up("test")
    assert stacks.definitions(plane) == ALL - {WORKER_POOLS}

    # From false to true it is made, and again when it is there already.
    engine.write_stack("test", document())
    engine.up("test")
    assert stacks.definitions(plane) == ALL
    pool = builders.resource("WorkerPool", name="kept")
    plane.api.create(f"{stacks.GROUPS}/namespaces/default/workerpools", pool)

    # The scope says whose worker pools, and their Secrets, the runtime sees.
    assert may(plane, "list", "workerpools", "sluice-system")
    assert not may(plane, "list", "workerpools", "default")
    assert may(plane, "get", "secrets", "sluice-system")
    assert not may(plane, "get", "secrets", "default")
    assert may(plane, "list", "instancepools", "")  # the other controllers see the whole cluster

    # From true to false deletes nothing.
    engine.write_stack("test", document(install=False, scope="cluster"))
    engine.up("test")
    assert "kept" in stacks.objects(plane, "workerpools")
    assert may(plane, "list", "workerpools", "default")
    assert not may(plane, "get", "secrets", "default")
    engine.write_stack("test", document())
    engine.up("test")

    # A destroy keeps them, and a later `up` takes them over.
    engine.destroy("test")
    stacks.only_left(plane, empty | {"workerpools default/kept"})
    assert stacks.definitions(plane) == ALL
    assert "kept" in stacks.objects(plane, "workerpools")
    engine.up("test")
    assert engine.up("test").changes == ()

    # Unless the config says otherwise.
    engine.write_stack("test", document(destroy=True))
    engine.up("test")
    engine.destroy("test")
    assert stacks.definitions(plane) == set()
