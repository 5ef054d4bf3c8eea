"""Start, freeze, kill and question replicas of the runtime in tests."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.e2e import waiting
from tools.local.plane import REPOSITORY, Plane

LEASE_SECONDS = 3
ENGINE = ("tests.e2e.replica",)
"""The engine with small controllers of a test's own."""
RUNTIME = ("autoscaler", "run")
"""The runtime as it is."""


class Replica:
    """One process of the runtime: the engine with the controllers of tests/e2e/replica.py, or the runtime as it is."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        identity: str,
        *flags: str,
        program: tuple[str, ...] = ENGINE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.identity = identity
        self.port = free_port()
        self.log = kubeconfig.parent / f"{identity}-{self.port}.log"
        command = [
            *(sys.executable, "-m", *program),
            *("--kubeconfig", str(kubeconfig), "--namespace", namespace, "--identity", identity),
            *("--listen", f"127.0.0.1:{self.port}", "--lease-seconds", str(LEASE_SECONDS)),
            *flags,
        ]
        variables = {**os.environ, **(environment or {})}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=REPOSITORY, env=variables
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        return self.process.wait(timeout=30)

    def get(self, path: str) -> tuple[int, str]:
        """Ask its HTTP server."""
        try:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            return answer.status, answer.read().decode()

    def is_ready(self) -> bool:
        """Tell whether it says it is ready."""
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return False

    def entries(self, event: str) -> list[dict[str, Any]]:
        """Return what it logged under a name."""
        lines = self.log.read_text().splitlines()
        parsed = [json.loads(line) for line in lines if line.startswith("{")]
        return [entry for entry in parsed if entry.get("event") == event]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def ready(replica: Replica) -> Replica:
    """Wait until a replica is ready."""
    waiting.eventually(replica.is_ready)
    return replica


def beats(plane: Plane, namespace: str, identity: str | None = None) -> set[str]:
    """Return the names of all beats, or those of one replica."""
    selector = "role=beat" + (f",by={identity}" if identity else "")
    listed = plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps", {"labelSelector": selector})
    return {item["metadata"]["name"] for item in listed["items"]}


def through(plane: Plane, port: int, directory: Path) -> Path:
    """Write an administrator's kubeconfig that reaches the API server through another port."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = directory / f"kubeconfig-{port}"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


@contextlib.contextmanager
def copy_of(plane: Plane, directory: Path) -> Iterator[Path]:
    """Give a test its own copy of the administrator's kubeconfig, beside which logs are kept."""
    path = directory / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(plane.kubeconfig.read_text())
    yield path


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
