"""An image is never built; its digest follows from its inputs, and a preview does not know it."""

from pathlib import Path

from tests.tools.engine import builders
from tools.engine.providers import docker_build, recorder, wire

TYPE = "docker-build:index:Image"
INPUTS = {"tags": ["repository/sluice:abc"], "push": True, "registries": [{"password": wire.Secret("hunter2")}]}


def test_the_digest_follows_from_the_inputs(tmp_path: Path) -> None:
    provider = docker_build.DockerBuild("0.0.22", recorder.Recorder(directory=tmp_path))

    first = provider.create(builders.create(TYPE, INPUTS)).outputs
    again = provider.create(builders.create(TYPE, INPUTS)).outputs
    other = provider.create(builders.create(TYPE, INPUTS | {"push": False})).outputs

    assert first["digest"] == again["digest"] != other["digest"]
    assert first["ref"] == f"repository/sluice@{first['digest']}"
    assert first["registries"] == INPUTS["registries"]


def test_a_preview_knows_no_digest_and_writes_nothing(tmp_path: Path) -> None:
    provider = docker_build.DockerBuild("0.0.22", recorder.Recorder(directory=tmp_path))

    made = provider.create(builders.create(TYPE, INPUTS, preview=True))
    changed = provider.update(builders.update(TYPE, INPUTS, INPUTS, preview=True))

    assert (made.id, "digest" in made.outputs) == ("", False)
    assert changed.outputs["digest"] is wire.UNKNOWN
    assert list(tmp_path.iterdir()) == []
