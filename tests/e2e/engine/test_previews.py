"""Previews: no cluster, no AWS, no look-up; the grid is shown, and a wrong config ends before anything happens."""

from pathlib import Path

import pytest

from tests.e2e.engine import stacks
from tools.engine.engine import Engine, EngineError
from tools.engine.layout import Surroundings


@pytest.mark.accept("S5", "S2", "G1")
def test_every_environment_is_previewed_from_its_file_alone(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.nowhere())
    for stack, groups in {"dev": 9, "prod": 27}.items():
        result = engine.preview(stack)
        assert len(result.of("create", type="aws:autoscaling/group:Group")) == groups
        assert f"**{groups} Auto Scaling groups**" in result.diagnostics
    assert "is left out of us-east-1e: not offered" in result.diagnostics
    assert {entry.method for entry in engine.journal()} <= {"create"}  # planned; no read, no invoke
    assert not any(entry.calls for entry in engine.journal())


@pytest.mark.accept("S3", "G5")
def test_a_wrong_config_ends_before_anything_is_made(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "engine", Surroundings.nowhere())
    wrong = stacks.eks(nodePools={"work": {"nodeType": "w", "instanceTypes": ["m5.large"], "minPerGruop": 1}})
    engine.write_stack("wrong", stacks.document({"a": wrong}, asgQuota=2))
    with pytest.raises(EngineError) as caught:
        engine.up("wrong")
    said = str(caught.value)
    assert "the stack config has 2 problems; nothing was made:" in said
    assert "sluice:asgQuota = 2: the node pools make 6 Auto Scaling groups" in said
    assert "sluice:clusters.a.nodePools.work.minPerGruop: unknown key; did you mean minPerGroup?" in said
    assert "Traceback" not in said
    assert engine.journal() == ()
