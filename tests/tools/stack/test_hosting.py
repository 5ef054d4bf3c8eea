"""A Deployment's container on a host: the same command, its downward fields filled in, its token's path rewritten."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tools.stack import hosting

HOST = hosting.Host(
    pod_name="sluice-0", directory=Path("/accounts/0"), api_host="127.0.0.1", api_port=6443, listen="127.0.0.1:9"
)


def deployment(**container: Any) -> dict[str, Any]:
    token = {"name": "account", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    spec = {
        "serviceAccountName": "sluice",
        "containers": [{"args": ["run"], **container}],
        "volumes": [token, {"name": "tmp", "emptyDir": {}}],
    }
    return {"metadata": {"name": "sluice", "namespace": "system"}, "spec": {"template": {"spec": spec}}}


def test_arguments_follow_the_images_entrypoint() -> None:
    assert hosting.command(deployment(), HOST).arguments == (sys.executable, "-m", "autoscaler", "run")


def test_a_command_takes_the_entrypoints_place() -> None:
    made = hosting.command(deployment(command=["python", "-m", "other"]), HOST)
    assert made.arguments == (sys.executable, "-m", "other", "run")


def test_values_downward_fields_and_the_tokens_path_arrive() -> None:
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SLUICE_TOKEN_DIRECTORY", "value": "/var/run/account"},
        {"name": "FILE", "value": "/var/run/account/token"},
        {"name": "OTHER", "value": "/var/run/accounts"},
    ]
    mounts = [{"name": "account", "mountPath": "/var/run/account"}, {"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108
    made = hosting.command(deployment(env=env, volumeMounts=mounts), HOST)
    assert made.environment == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "PLAIN": "x",
        "NAMESPACE": "system",
        "POD": "sluice-0",
        "SLUICE_TOKEN_DIRECTORY": "/accounts/0",
        "FILE": "/accounts/0/token",
        "OTHER": "/var/run/accounts",
        "SLUICE_LISTEN": "127.0.0.1:9",
    }


@pytest.mark.parametrize(
    "container",
    [
        {"envFrom": [{"secretRef": {"name": "x"}}]},
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]},
    ],
)
def test_what_a_host_cannot_give_is_refused(container: dict[str, Any]) -> None:
    with pytest.raises(hosting.HostingError, match="cannot be honoured on this computer"):
        hosting.command(deployment(**container), HOST)
