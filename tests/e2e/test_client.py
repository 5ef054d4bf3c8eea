"""The product's client as a pod has it: the ServiceAccount's token from a file, read again when it is renewed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from autoscaler.kube import port
from autoscaler.kube.connection import client, credentials
from tests.e2e import replicas, waiting
from tools.local import tokens
from tools.local.plane import REPOSITORY, Plane

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def in_cluster(plane: Plane, directory: Path) -> credentials.InCluster:
    (directory / "ca.crt").write_bytes(plane.api.access.authority_pem)
    return credentials.InCluster(host="127.0.0.1", port=plane.blueprint.ports.api_server, directory=directory)


def test_a_renewed_token_is_picked_up_when_the_old_one_is_refused(plane: Plane, namespace: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(tokens.mint(plane.api, namespace=namespace, service_account="default"))
    who = port.Request(method="POST", path=REVIEW, body=b"{}")

    async def ask_twice() -> tuple[bytes, bytes]:
        async with contextlib.aclosing(await client.Client.connect(in_cluster(plane, tmp_path))) as api:
            first = port.required(await api.send(who))
            api._credentials._header = "Bearer expired"
            return first, port.required(await api.send(who))

    first, second = asyncio.run(ask_twice())
    assert f"system:serviceaccount:{namespace}:default".encode() in first
    assert f"system:serviceaccount:{namespace}:default".encode() in second


def test_missing_credentials_are_an_error_that_says_where(plane: Plane, tmp_path: Path) -> None:
    origin = in_cluster(plane, tmp_path)
    with pytest.raises(credentials.CredentialsError, match=str(tmp_path)):
        asyncio.run(client.Client.connect(origin))


def test_a_server_that_is_not_there_is_unreachable(plane: Plane, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    nowhere = credentials.InCluster(host="127.0.0.1", port=9, directory=in_cluster(plane, tmp_path).directory)

    async def ask() -> None:
        async with contextlib.aclosing(await client.Client.connect(nowhere)) as api:
            await api.send(port.Request(method="GET", path="/version"))

    with pytest.raises(port.UnreachableError, match="GET /version"):
        asyncio.run(ask())


@pytest.mark.accept("R8")
def test_the_run_command_starts_serves_and_ends_as_in_a_pod(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """Run it with nothing but a ServiceAccount's token and the rights to watch what worker pools are made of."""
    (tmp_path / "token").write_text(tokens.mint(plane.api, namespace=namespace, service_account="default"))
    origin = in_cluster(plane, tmp_path)
    role = f"engine-{namespace}"
    plane.kubectl("create", "clusterrole", role, "--verb=list,watch", "--resource=namespaces,crd")
    plane.kubectl(
        "create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={namespace}:default"
    )
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["sluice.dev"], "resources": ["workerpools"], "verbs": ["list", "watch"]},
    ]
    group = "/apis/rbac.authorization.k8s.io/v1"
    plane.api.create(f"{group}/namespaces/{namespace}/roles", {"metadata": {"name": "workers"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    binding = {
        "metadata": {"name": "workers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "workers"},
        "subjects": [subject],
    }
    plane.api.create(f"{group}/namespaces/{namespace}/rolebindings", binding)
    environment = {
        "PATH": os.environ["PATH"],
        "KUBERNETES_SERVICE_HOST": origin.host,
        "KUBERNETES_SERVICE_PORT": str(origin.port),
        "SLUICE_TOKEN_DIRECTORY": str(tmp_path),
        "SLUICE_NAMESPACE": namespace,
        "SLUICE_CONTROLLERS": "workers",
        "SLUICE_LISTEN": f"127.0.0.1:{replicas.free_port()}",
    }
    url = f"http://{environment['SLUICE_LISTEN']}/readyz"
    command = [sys.executable, "-m", "autoscaler", "run"]
    with subprocess.Popen(command, env=environment, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            waiting.eventually(lambda: _answers(url))
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert '"event": "stopped"' in said
    plane.kubectl("delete", "clusterrolebinding,clusterrole", role)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False
