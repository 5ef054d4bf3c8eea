"""How a provider resource finds its API server, and that it finds no real one."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tools.engine.providers import calls, wire
from tools.engine.providers.kubernetes import settings
from tools.local import kubeconfig

AUTHORITY = base64.b64encode(b"authority").decode()


def document(user: dict[str, Any], server: str = "https://127.0.0.1:6443") -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": AUTHORITY}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "here"}}],
            "current-context": "x",
        }
    )


def target(text: str, **options: Any) -> settings.Target:
    return settings.target(settings.Settings.of({"kubeconfig": text} | options))


def test_options_come_as_json_inside_text() -> None:
    sent = {"upsertExistingObjects": "true", "enableServerSideApply": "false", "enablePatchForce": wire.Secret("true")}
    found = settings.Settings.of(sent)
    assert (found.upsert, found.server_side_apply, found.patch_force, found.mutable_secrets) == (
        True,
        False,
        True,
        False,
    )


def test_a_token_is_read_from_the_text() -> None:
    found = target(document({"token": "t"}))
    want = kubeconfig.Access(
        server="https://127.0.0.1:6443", authority_pem=b"authority", credential=kubeconfig.BearerToken(token="t")
    )
    assert found == settings.Target(access=want, namespace="here")


def test_a_path_and_the_environment_do_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(document({"token": "t"}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert target(str(path)) == settings.target(settings.Settings.of({}))
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(calls.RefusedError, match="no kubeconfig"):
        settings.target(settings.Settings.of({}))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"token": "abc"}, kubeconfig.BearerToken(token="abc")),
        (
            {"clientCertificateData": "CERT", "clientKeyData": "KEY"},
            kubeconfig.ClientCertificate(certificate_pem=b"CERT", key_pem=b"KEY"),
        ),
    ],
)
def test_an_exec_plugin_is_run(tmp_path: Path, status: dict[str, str], want: object) -> None:
    command = tmp_path / "plugin"
    command.write_text(
        f'#!/bin/sh\n[ "$1" = get-token ] && [ "$WHO" = me ] && echo \'{json.dumps({"status": status})}\'\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    env = [{"name": "WHO", "value": "me"}]
    found = target(document({"exec": {"command": str(command), "args": ["get-token"], "env": env}}))
    assert found.access.credential == want


def test_a_failing_exec_plugin_is_named() -> None:
    with pytest.raises(calls.RefusedError, match="`/nowhere/aws` failed"):
        target(document({"exec": {"command": "/nowhere/aws"}}))


def test_a_real_cluster_is_refused() -> None:
    with pytest.raises(calls.RefusedError, match="only API servers on loopback"):
        target(document({"token": "t"}, server="https://api.example.com"))


def test_a_context_that_is_not_there_is_named() -> None:
    with pytest.raises(calls.RefusedError, match="no context named 'other'"):
        target(document({"token": "t"}), context="other")
