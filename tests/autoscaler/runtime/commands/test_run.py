"""`python -m autoscaler run` as a pod starts it: what it imports before anybody answers, and what it writes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.local import certificates
from tools.local.plane import REPOSITORY

LATE = {"boto3", "botocore", "kubernetes", "requests", "yaml"}
"""What costs much to import and is for later, or for others than a pod."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A pod's, whose API server does not answer."""
    (tmp_path / "token").write_text("token")
    (tmp_path / "ca.crt").write_bytes(certificates.write(tmp_path / "pki").authority.read_bytes())
    return {
        "PATH": os.environ["PATH"],
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "9",
        "SLUICE_TOKEN_DIRECTORY": str(tmp_path),
        "SLUICE_NAMESPACE": "sluice-system",
        "SLUICE_CLUSTER": "test",
        "SLUICE_LISTEN": "127.0.0.1:0",
    }


def test_a_pod_starts_without_what_it_does_not_need_yet(environment: dict[str, str], tmp_path: Path) -> None:
    imports = tmp_path / "imports"  # not a pipe, which would fill up while we read the other
    command = [sys.executable, "-X", "importtime", "-m", "autoscaler", "run"]
    with (
        imports.open("w") as stderr,
        subprocess.Popen(
            command, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=30)
    assert json.loads(first)["event"] == "api_server_not_ready"
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in imports.read_text().splitlines()}
    assert {"aiohttp", "pydantic", "autoscaler"} <= imported
    assert not imported & LATE


def test_what_ends_the_process_unexpectedly_is_told_in_json(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment["SLUICE_LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        ran = subprocess.run(
            [sys.executable, "-m", "autoscaler", "run"],
            env=environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (1, "")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert told[-1]["event"] == "uncaught_exception"
    assert "address already in use" in told[-1]["error"]
