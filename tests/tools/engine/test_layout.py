"""The directory of an engine: copies, launchers, and clusters that only the owner can read."""

import importlib.metadata
import json
import os
import stat
from pathlib import Path

import pytest
import yaml

from tools.engine import layout
from tools.local import kubeconfig

ACCESS = kubeconfig.Access(
    server="https://127.0.0.1:1",
    authority_pem=b"authority",
    credential=kubeconfig.ClientCertificate(certificate_pem=b"CERT", key_pem=b"KEY"),
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    directory = tmp_path / "program"
    (directory / "stacks").mkdir(parents=True)
    (directory / "Pulumi.yaml").write_text("name: mine\nruntime: python\nstackConfigDir: stacks\n")
    (directory / "stacks" / "Pulumi.dev.yaml").write_text("config: {'mine:a': b}\n")
    return directory


def prepared(program: Path, root: Path) -> layout.Layout:
    files = layout.Layout(root=root)
    layout.prepare(files, program=program, stacks=program / "stacks", clusters={layout.ANY_CLUSTER: ACCESS})
    return files


def test_the_project_is_a_copy_that_runs_the_program_in_place(program: Path, tmp_path: Path) -> None:
    before = (program / "Pulumi.yaml").read_text()
    files = prepared(program, tmp_path / "engine")
    project = yaml.safe_load((files.project / "Pulumi.yaml").read_text())
    assert (project["name"], project["main"]) == ("mine", str(program))
    assert yaml.safe_load(files.stack_file("dev").read_text()) == {"config": {"mine:a": "b"}}
    assert (program / "Pulumi.yaml").read_text() == before


def test_the_salt_of_a_stack_survives_a_new_copy(program: Path, tmp_path: Path) -> None:
    files = prepared(program, tmp_path / "engine")
    path = files.stack_file("dev")
    path.write_text("encryptionsalt: v1:abc\n" + path.read_text())
    prepared(program, tmp_path / "engine")
    assert yaml.safe_load(path.read_text()) == {"encryptionsalt": "v1:abc", "config": {"mine:a": "b"}}


def test_a_program_without_a_project_file_gets_one(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    files = prepared(tmp_path / "bare", tmp_path / "engine")
    assert yaml.safe_load((files.project / "Pulumi.yaml").read_text())["runtime"] == "python"
    assert files.state_file("x").parts[-2:] == ("program", "x.json")


def test_every_stand_in_is_installed_in_the_version_of_its_sdk(program: Path, tmp_path: Path) -> None:
    files = prepared(program, tmp_path / "engine")
    prepared(program, tmp_path / "engine")
    version = importlib.metadata.version("pulumi_kubernetes")
    launcher = files.home / "plugins" / f"resource-kubernetes-v{version}" / "pulumi-resource-kubernetes"
    assert os.access(launcher, os.X_OK)
    assert "tools.engine.providers kubernetes" in launcher.read_text()
    assert len(list((files.home / "plugins").iterdir())) == len(layout.PROVIDERS)
    assert os.access(files.binaries / "pulumi-language-python", os.X_OK)


def test_the_clusters_are_for_the_owners_eyes(program: Path, tmp_path: Path) -> None:
    files = prepared(program, tmp_path / "engine")
    want = {
        "*": {
            "endpoint": "https://127.0.0.1:1",
            "certificateAuthority": "YXV0aG9yaXR5",
            "clientCertificateData": "CERT",
            "clientKeyData": "KEY",
        }
    }
    assert json.loads(files.clusters.read_text()) == want
    assert stat.S_IMODE(files.clusters.stat().st_mode) == 0o600
