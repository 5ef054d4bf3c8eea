"""Cluster and network outlive a change of the config that would replace them, and a careless destroy."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tools.engine.engine import Engine, EngineError
from tools.engine.layout import Surroundings
from tools.releases import fixtures

PROTECTED = ("aws:ec2/vpc:Vpc::bench", "aws:eks/cluster:Cluster::bench")


def _protected(state: dict[str, Any]) -> dict[str, Any]:
    """Make a recorded state what it is after one `up` with protection."""
    after = copy.deepcopy(state)
    for resource in after["deployment"]["resources"]:
        resource["protect"] = resource["urn"].endswith(PROTECTED)
    return after


@pytest.mark.accept("S19", part="the engine refuses to replace or delete cluster and network, and nothing is touched")
def test_what_is_protected_is_neither_replaced_nor_destroyed(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.nowhere())
    release = fixtures.latest()
    document, state = release.stack("dev"), _protected(release.state("dev"))
    engine.write_stack("dev", document)
    engine.import_state("dev", state)

    (cluster,) = document["config"]["sluice:clusters"].values()
    cluster["network"]["cidr"] = "10.64.0.0/16"
    engine.write_stack("dev", document)
    with pytest.raises(EngineError, match=r"unable to replace resource .*ec2/vpc:Vpc::bench"):
        engine.preview("dev")

    cluster["network"]["cidr"] = "10.32.0.0/16"
    cluster["name"] = "another"
    engine.write_stack("dev", document)
    with pytest.raises(EngineError, match=r"unable to replace resource .*eks/cluster:Cluster::bench"):
        engine.preview("dev")

    # Pulumi shows first what it would destroy, and ends there.
    with pytest.raises(EngineError, match=r"eks/cluster:Cluster::bench\" cannot be deleted"):
        engine.preview_destroy("dev")
