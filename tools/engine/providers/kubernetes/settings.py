"""The options of a Kubernetes provider resource, and from them how to reach its API server.

Only servers on loopback are accepted: a stand-in must never act on somebody's real cluster.
"""

import base64
import dataclasses
import json
import os
import subprocess
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.engine.providers import calls, wire
from tools.local import kubeconfig

EXEC_SECONDS = 30.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options that the stand-in honours; all others are accepted and make no difference."""

    kubeconfig: str | None  # the text, or a path; None is KUBECONFIG of the environment
    context: str | None
    namespace: str | None
    server_side_apply: bool
    patch_force: bool
    upsert: bool
    mutable_config_maps: bool
    mutable_secrets: bool

    @classmethod
    def of(cls, properties: Mapping[str, wire.Value]) -> "Settings":
        """Read the options as the SDK sends them: text as text, all else as JSON inside text."""
        plain: dict[str, Any] = wire.plain(properties)
        return cls(
            kubeconfig=plain.get("kubeconfig"),
            context=plain.get("context"),
            namespace=plain.get("namespace"),
            server_side_apply=_truth(plain.get("enableServerSideApply"), default=True),
            patch_force=_truth(plain.get("enablePatchForce")),
            upsert=_truth(plain.get("upsertExistingObjects")),
            mutable_config_maps=_truth(plain.get("enableConfigMapMutable")),
            mutable_secrets=_truth(plain.get("enableSecretMutable")),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An API server, an identity on it, and the namespace of objects that name none."""

    access: kubeconfig.Access
    namespace: str


def target(settings: Settings) -> Target:
    """Find the API server, running the kubeconfig's exec plugin if it has one."""
    document = _document(settings.kubeconfig)
    name = settings.context or document.get("current-context", "")
    context = _named(document, "context", name)
    cluster = _named(document, "cluster", context["cluster"])
    user = _named(document, "user", context["user"])
    _require_loopback(cluster["server"])
    access = kubeconfig.Access(
        server=cluster["server"],
        authority_pem=_pem(cluster, "certificate-authority"),
        credential=_credential(user),
    )
    return Target(access=access, namespace=settings.namespace or context.get("namespace") or "default")


def _document(text: str | None) -> dict[str, Any]:
    source = text or os.environ.get("KUBECONFIG")
    if not source:
        raise calls.RefusedError("no kubeconfig: give the provider one, or set KUBECONFIG (`make up` prints it)")
    is_path = "\n" not in source and not source.lstrip().startswith("{")
    try:
        content = Path(source).read_text() if is_path else source
    except OSError as error:
        raise calls.RefusedError(f"cannot read the kubeconfig {source}: {error.strerror}") from error
    document: dict[str, Any] = yaml.safe_load(content)
    return document


def _named(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    for entry in document.get(f"{kind}s") or ():
        if entry["name"] == name:
            found: dict[str, Any] = entry[kind]
            return found
    raise calls.RefusedError(f"the kubeconfig has no {kind} named {name!r}")


def _require_loopback(server: str) -> None:
    if urllib.parse.urlsplit(server).hostname not in LOOPBACK:
        raise calls.RefusedError(
            f"the stand-in provider does not talk to {server}: only API servers on loopback; "
            "for a real cluster use the Kubernetes provider itself"
        )


def _credential(user: Mapping[str, Any]) -> kubeconfig.ClientCertificate | kubeconfig.BearerToken:
    if "exec" in user:
        return _executed(user["exec"])
    if "token" in user:
        return kubeconfig.BearerToken(token=user["token"])
    return kubeconfig.ClientCertificate(
        certificate_pem=_pem(user, "client-certificate"), key_pem=_pem(user, "client-key")
    )


def _executed(plugin: Mapping[str, Any]) -> kubeconfig.ClientCertificate | kubeconfig.BearerToken:
    command = [plugin["command"], *(plugin.get("args") or ())]
    extra = {pair["name"]: pair["value"] for pair in plugin.get("env") or ()}
    try:
        answer = subprocess.run(
            command, env=os.environ | extra, capture_output=True, text=True, timeout=EXEC_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise calls.RefusedError(f"the kubeconfig's command `{plugin['command']}` failed: {said.strip()}") from error
    status: dict[str, str] = json.loads(answer.stdout)["status"]
    if "token" in status:
        return kubeconfig.BearerToken(token=status["token"])
    return kubeconfig.ClientCertificate(
        certificate_pem=status["clientCertificateData"].encode(), key_pem=status["clientKeyData"].encode()
    )


def _pem(entry: Mapping[str, str], name: str) -> bytes:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    if name in entry:
        return Path(entry[name]).read_bytes()
    raise calls.RefusedError(f"the kubeconfig has no {name}")


def _truth(value: object, *, default: bool = False) -> bool:
    return default if value is None else value in {True, "true"}
