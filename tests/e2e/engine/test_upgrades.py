"""A stack of an older release is taken over by this one: nothing is replaced or deleted, and definitions come first.

The older release is a recorded one (tests/fixtures/releases): its state is imported, and its objects are put into a
cluster as it had made them. AWS is not asked: these are previews, and updates in the cluster alone.
"""

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import waiting
from tests.e2e.engine import stacks
from tools.engine import results
from tools.engine.engine import Engine, EngineError
from tools.engine.layout import Surroundings
from tools.local.components import Component, Options
from tools.local.plane import Plane
from tools.releases import fixtures
from tools.stack import commands

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
POOL = "kubernetes:sluice.dev/v1alpha1:InstancePool"
POOLS = "local.definitions.instancepool"
NEW_KIND = "local.definitions.machinenodepool"
FIELD = "drainSeconds"
HARMLESS = {"same", "create", "update"}


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    """A cluster without AWS."""
    return start_plane(Options(components=frozenset({Component.ETCD, Component.API_SERVER})))


@pytest.mark.accept("S2", "S11")
def test_a_recorded_release_is_upgraded_definitions_first(plane: Plane, tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))
    release = fixtures.latest()
    document, state = release.stack("local"), _older(release.state("local"))
    engine.write_stack("local", document)
    engine.import_state("local", state)
    _replay(plane, state)

    # The definitions in the cluster lack a field that this release defaults, and a kind. Nobody asked for the field:
    # nobody writes it.
    foreseen = engine.preview("local")
    assert _operations(foreseen) <= HARMLESS
    assert not [step.changed for step in foreseen.of("update", type=POOL) if f"spec.{FIELD}" in step.changed]

    # Somebody does: the preview asks the cluster, whose definitions are still the old ones.
    document["config"]["sluice:clusters"]["local"]["nodePools"]["workers"][FIELD] = 120
    engine.write_stack("local", document)
    with pytest.raises(EngineError, match=rf"spec\.{FIELD}: field not declared in schema"):
        engine.preview("local")

    # So the definitions go first, and alone; then the rest, as if nothing had been the matter.
    first = engine.up("local", *commands.DEFINITIONS_FIRST)
    assert {step.type for step in first.changes} <= {DEFINITION, "pulumi:providers:kubernetes"}
    assert [step.name for step in first.of("create")] == [NEW_KIND]
    assert _operations(first) <= HARMLESS
    foreseen = engine.preview("local")
    assert _operations(foreseen) <= HARMLESS
    assert not foreseen.of("update", type=DEFINITION)
    assert f"spec.{FIELD}" in foreseen.step("local.objects.instancepool.workers").changed
    assert set(stacks.objects(plane, "instancepools")) == {"services", "workers", "gpu"}


@pytest.mark.accept("S2", "S11")
def test_a_recorded_cluster_of_eks_is_neither_replaced_nor_deleted(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.nowhere())
    release = fixtures.latest()
    engine.write_stack("dev", release.stack("dev"))
    engine.import_state("dev", release.state("dev"))
    foreseen = engine.preview("dev")
    assert _operations(foreseen) <= HARMLESS
    assert not foreseen.of("create", type="aws:autoscaling/group:Group")


def _operations(result: results.Result) -> set[str]:
    return {step.operation for step in result.steps.values()}


def _older(state: dict[str, Any]) -> dict[str, Any]:
    """Make a state of the release before the one that brought the field and the kind."""
    older = copy.deepcopy(state)
    resources = [one for one in older["deployment"]["resources"] if not one["urn"].endswith(NEW_KIND)]
    older["deployment"]["resources"] = resources
    for resource in resources:
        known = resource.get("dependencies", [])
        resource["dependencies"] = [urn for urn in known if not urn.endswith(NEW_KIND)]
        for part in ("inputs", "outputs"):
            if resource["type"] == POOL:
                resource[part]["spec"].pop(FIELD, None)
            if resource["urn"].endswith(POOLS):
                whole = resource[part]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                del whole["properties"]["spec"]["properties"][FIELD]
    return older


def _replay(plane: Plane, state: dict[str, Any]) -> None:
    """Put what a state says is in the cluster into one, by the same field managers."""
    for resource in state["deployment"]["resources"]:
        if resource["type"].startswith("kubernetes:"):
            body, query = resource["inputs"], {"fieldManager": resource["outputs"]["__fieldManager"]}
            # A definition is served a little later than it is made.
            path = waiting.eventually(functools.partial(_collection, plane, body))
            plane.api.request("POST", path, body, query=query).required()


def _collection(plane: Plane, body: dict[str, Any]) -> str:
    """Find where objects of this kind are made; empty where the kind is not served."""
    root = f"/apis/{body['apiVersion']}" if "/" in body["apiVersion"] else f"/api/{body['apiVersion']}"
    answer = plane.api.request("GET", root)
    listed = answer.body["resources"] if answer.ok else ()
    served = {one["kind"]: one["name"] for one in listed if "/" not in one["name"]}
    if body["kind"] not in served:
        return ""
    namespace = body["metadata"].get("namespace")
    return "/".join((root, *(("namespaces", namespace) if namespace else ()), served[body["kind"]]))
