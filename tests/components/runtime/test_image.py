import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import version
from components.config.autoscaler import Image
from components.runtime import image
from tests.components import monitor, places

DIGEST = f"sha256:{'0' * 64}"


def run(**fields: Any) -> monitor.World:
    return made(image.ImageArgs(place=places.place(), config=Image.model_validate(fields)))


def made(args: image.ImageArgs) -> monitor.World:
    return monitor.run(
        lambda: {"reference": image.RuntimeImage("bench", args).reference},
        cloud=lambda type_, name, inputs: {**monitor.of_the_cloud(type_, name, inputs), "ref": f"{name}@built"},
    )


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"repository": "example.org/sluice"}, f"example.org/sluice:{version.VERSION}"),
        ({"repository": "example.org/sluice", "tag": "x"}, "example.org/sluice:x"),
        ({"repository": "example.org/sluice", "tag": "x", "digest": DIGEST}, f"example.org/sluice@{DIGEST}"),
    ],
)
def test_a_given_image_is_used_and_nothing_is_made(fields: dict[str, str], want: str) -> None:
    world = run(**fields)
    assert world.types() == []
    assert world.outputs["reference"] == want


def test_otherwise_it_is_built_from_the_checkout_and_named_by_what_is_in_it() -> None:
    world = run()
    assert world.types() == [
        "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        "aws:ecr/repository:Repository",
        "docker-build:index:Image",
    ]
    component = world.one("sluice:index:RuntimeImage")
    assert all(one.parent == component.urn for one in world.made if one.custom)
    built = world.one("docker-build:index:Image").inputs
    assert built["tags"] == [f"registry.example/bench:{image.content_digest(image.ROOT)}"]
    assert built["context"] == {"location": "."}
    assert built["dockerfile"] == {"location": "autoscaler/Dockerfile"}
    assert built["platforms"] == ["linux/amd64"]
    assert built["push"] is True
    assert built["buildOnPreview"] is False
    assert "registries" not in built
    assert world.outputs["reference"] == "bench@built"


def test_it_is_built_for_the_platforms_it_will_run_on() -> None:
    args = image.ImageArgs(place=places.place(), config=Image(), platforms=("linux/arm64", "linux/amd64"))
    assert made(args).one("docker-build:index:Image").inputs["platforms"] == ["linux/arm64", "linux/amd64"]


def test_the_repository_is_scanned_can_be_pushed_to_again_and_goes_with_the_stack() -> None:
    world = run()
    made = world.one(":Repository").inputs
    assert made["name"] == "test-bench/sluice"
    assert made["imageTagMutability"] == "MUTABLE"  # pods run by digest; the same sources may be built again
    assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    assert made["encryptionConfigurations"] == [{"encryptionType": "AES256"}]
    assert made["forceDelete"] is True
    assert made["tags"] == places.OWNED
    rules = json.loads(world.one(":LifecyclePolicy").inputs["policy"])["rules"]
    assert [(rule["rulePriority"], rule["selection"]["tagStatus"]) for rule in rules] == [
        (1, "tagged"),
        (2, "untagged"),
    ]
    assert all(rule["action"] == {"type": "expire"} for rule in rules)


@given(cluster=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,59}\Z"))
def test_every_clusters_name_makes_a_repository_that_ecr_allows(cluster: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*/sluice", image.repository_name(cluster))


def checkout(root: Path) -> Path:
    (root / "autoscaler" / "kube").mkdir(parents=True)
    (root / "autoscaler" / "Dockerfile").write_text("FROM scratch\n")
    (root / "autoscaler" / "kube" / "a.py").write_text("a")
    return root


def test_only_what_goes_into_the_image_changes_its_digest(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    want = image.content_digest(root)
    (root / "README.md").write_text("x")
    for left_out in image.LEFT_OUT:
        (root / left_out / "cloud").mkdir(parents=True)
        (root / left_out / "cloud" / "a.py").write_text("x")
    (root / "autoscaler" / "__pycache__").mkdir()
    (root / "autoscaler" / "__pycache__" / "a.pyc").write_text("x")
    os.utime(root / "autoscaler" / "Dockerfile", (0, 0))
    assert image.content_digest(root) == want


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_whatever_goes_into_the_image_changes_its_digest(tmp_path: Path, change: str) -> None:
    root = checkout(tmp_path)
    before = image.content_digest(root)
    file = root / "autoscaler" / "kube" / "a.py"
    match change:
        case "content":
            file.write_text("b")
        case "name":
            file.rename(file.with_name("b.py"))
        case _:
            (root / "autoscaler" / "requirements.txt").write_text("")
    assert image.content_digest(root) != before


def test_the_image_is_no_more_than_the_runtime_as_nobody() -> None:
    dockerfile = (image.ROOT / "autoscaler" / "Dockerfile").read_text()
    copied = {line.split()[-2] for line in dockerfile.splitlines() if line.startswith("COPY autoscaler")}
    assert copied == {"autoscaler", "autoscaler/requirements.txt"}
    assert "--require-hashes" in dockerfile
    assert "USER 65532:65532\n" in dockerfile
    assert dockerfile.rstrip().endswith('ENTRYPOINT ["python", "-m", "autoscaler"]')
    ignored = [line for line in (image.ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored == ["*", "!autoscaler", *image.LEFT_OUT, "**/__pycache__"]


def test_what_is_left_out_of_the_image_is_there_to_leave_out() -> None:
    assert all((image.ROOT / one / "__init__.py").is_file() for one in image.LEFT_OUT)


@pytest.mark.parametrize(
    ("arguments", "code", "want"),
    [
        (["version"], 0, version.VERSION),
        (["run", "--help"], 0, "Run the controllers until SIGTERM"),
        (["simulate", "--stack", "a", "--trace", "b"], 1, "simulate is not part of the runtime's image"),
    ],
)
def test_the_image_runs_without_simulations_and_says_so(
    tmp_path: Path, arguments: list[str], code: int, want: str
) -> None:
    for path in image.sources(image.ROOT):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((image.ROOT / path).read_bytes())
    ended = subprocess.run(
        [sys.executable, "-m", "autoscaler", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code
    assert want in ended.stdout + ended.stderr
