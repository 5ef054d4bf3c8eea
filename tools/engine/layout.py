"""The directory an engine works in: where everything is, and the files that are written before the first run.

The program runs in place. Pulumi.yaml and the stack files are copies, because the command writes the encryption salt
into them. Nothing outside the directory is written.
"""

import base64
import dataclasses
import importlib.metadata
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tools.local import kubeconfig

if TYPE_CHECKING:  # every plugin process reads this module, and a plane takes long to import
    from tools.local.plane import Plane

REPOSITORY = Path(__file__).parent.parent.parent
# The stand-ins, and the SDK package whose version each of them must report.
PROVIDERS = {"aws": "pulumi_aws", "kubernetes": "pulumi_kubernetes", "docker-build": "pulumi_docker_build"}
ANY_CLUSTER = "*"
DEFAULT_PROJECT = {"name": "program", "runtime": "python", "stackConfigDir": "stacks"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The world that the stand-ins reach: variables, and which API server each EKS cluster turns out to be."""

    environment: Mapping[str, str]
    clusters: Mapping[str, kubeconfig.Access]

    @classmethod
    def of_plane(cls, plane: "Plane") -> "Surroundings":
        """Every EKS cluster is this plane, and AWS is its moto."""
        return cls(environment=plane.environment, clusters={ANY_CLUSTER: plane.api.access})

    @classmethod
    def nowhere(cls) -> "Surroundings":
        """No cluster and no AWS: enough for previews."""
        return cls(environment={}, clusters={})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where an engine keeps its files."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def backend(self) -> Path:
        return self.root / "backend"

    @property
    def binaries(self) -> Path:
        """First on the PATH of the engine: the language plugin and the `aws` command."""
        return self.root / "bin"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def faults(self) -> Path:
        return self.root / "faults.json"

    @property
    def clusters(self) -> Path:
        return self.root / "clusters.json"

    @property
    def recorded(self) -> Path:
        """One file for each resource that no server plays."""
        return self.root / "recorded"

    def stack_file(self, stack: str) -> Path:
        return self.project / _stack_directory(self.project / "Pulumi.yaml") / f"Pulumi.{stack}.yaml"

    def state_file(self, stack: str) -> Path:
        name: str = yaml.safe_load((self.project / "Pulumi.yaml").read_text())["name"]
        return self.backend / ".pulumi" / "stacks" / name / f"{stack}.json"


def prepare(layout: Layout, *, program: Path, stacks: Path, clusters: Mapping[str, kubeconfig.Access]) -> None:
    """Write the files of an engine; those of an earlier one in the same directory are renewed, its state is kept."""
    for directory in (layout.project, layout.home, layout.backend, layout.binaries, layout.recorded):
        directory.mkdir(parents=True, exist_ok=True)
    _copy_project(layout, program)
    for source in sorted(stacks.glob("Pulumi.*.yaml")):
        name = source.name.removeprefix("Pulumi.").removesuffix(".yaml")
        write_stack(layout, name, yaml.safe_load(source.read_text()) or {})
    write_clusters(layout, clusters)
    _install(layout)


def write_stack(layout: Layout, stack: str, document: Mapping[str, Any]) -> None:
    """Write a stack's file, with the salt it already had."""
    target = layout.stack_file(stack)
    target.parent.mkdir(parents=True, exist_ok=True)
    known = yaml.safe_load(target.read_text()) if target.exists() else None
    salt = {key: value for key, value in (known or {}).items() if key == "encryptionsalt"}
    target.write_text(yaml.safe_dump(salt | dict(document), sort_keys=False))


def write_clusters(layout: Layout, clusters: Mapping[str, kubeconfig.Access]) -> None:
    """Write which API server each EKS cluster is; only the owner may read it."""
    layout.clusters.unlink(missing_ok=True)
    layout.clusters.touch(mode=0o600)
    layout.clusters.write_text(json.dumps({name: _cluster(access) for name, access in clusters.items()}))


def versions() -> dict[str, str]:
    """Return the version of each stand-in: that of the SDK package it answers to."""
    return {name: importlib.metadata.version(package) for name, package in PROVIDERS.items()}


def _copy_project(layout: Layout, program: Path) -> None:
    source = program / "Pulumi.yaml"
    document = yaml.safe_load(source.read_text()) if source.exists() else DEFAULT_PROJECT
    # Found on PATH it would do as well, with a warning in every run.
    plugins = {"languages": [{"name": "python", "path": str(layout.binaries)}]}
    added = {"main": str(program), "plugins": plugins}
    (layout.project / "Pulumi.yaml").write_text(yaml.safe_dump(document | added, sort_keys=False))


def _stack_directory(project: Path) -> str:
    directory: str = yaml.safe_load(project.read_text()).get("stackConfigDir", ".")
    return directory


def _cluster(access: kubeconfig.Access) -> dict[str, str]:
    match access.credential:
        case kubeconfig.ClientCertificate(certificate_pem=certificate, key_pem=key):
            credential = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}
        case kubeconfig.BearerToken(token=token):
            credential = {"token": token}
    authority = base64.b64encode(access.authority_pem).decode()
    return {"endpoint": access.server, "certificateAuthority": authority, **credential}


def _install(layout: Layout) -> None:
    _launcher(layout, layout.binaries / "pulumi-language-python", "tools.engine.language_host")
    _launcher(layout, layout.binaries / "aws", "tools.engine.aws_command")
    plugins = layout.home / "plugins"
    shutil.rmtree(plugins, ignore_errors=True)
    for name, version in versions().items():
        target = plugins / f"resource-{name}-v{version}" / f"pulumi-resource-{name}"
        target.parent.mkdir(parents=True)
        _launcher(layout, target, f"tools.engine.providers {name}")


def _launcher(layout: Layout, path: Path, module: str) -> None:
    """Write a script that runs a module of ours with this interpreter, wherever it is called from."""
    variables = {"PYTHONPATH": str(REPOSITORY), "SLUICE_ENGINE_DIRECTORY": str(layout.root)}
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    path.write_text(f'#!/bin/sh\n{settings} exec {shlex.quote(sys.executable)} -P -m {module} "$@"\n')
    path.chmod(0o755)


def of_process() -> Layout:
    """Return the layout that this process was launched from."""
    return Layout(root=Path(os.environ["SLUICE_ENGINE_DIRECTORY"]))
