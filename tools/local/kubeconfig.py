"""Kubeconfig files: written self-contained (certificates inside), read back only as far as our own client needs."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import yaml


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    certificate_pem: bytes
    key_pem: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    token: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one identity reaches one API server."""

    server: str
    authority_pem: bytes
    credential: ClientCertificate | BearerToken


def write(path: Path, access: Access, *, user: str, namespace: str = "default") -> None:
    """Write a kubeconfig that only its owner can read."""
    name = "sluice-local"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _cluster(access)}],
        "users": [{"name": user, "user": _user(access.credential)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
    }
    path.unlink(missing_ok=True)  # an existing file would keep its mode
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def read(path: Path) -> Access:
    """Read a kubeconfig with one cluster and one user, as `write` makes them."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    user = document["users"][0]["user"]
    credential: ClientCertificate | BearerToken
    if "token" in user:
        credential = BearerToken(token=user["token"])
    else:
        credential = ClientCertificate(
            certificate_pem=base64.b64decode(user["client-certificate-data"]),
            key_pem=base64.b64decode(user["client-key-data"]),
        )
    authority = base64.b64decode(cluster["certificate-authority-data"])
    return Access(server=cluster["server"], authority_pem=authority, credential=credential)


def _cluster(access: Access) -> dict[str, str]:
    return {"server": access.server, "certificate-authority-data": _encoded(access.authority_pem)}


def _user(credential: ClientCertificate | BearerToken) -> dict[str, str]:
    match credential:
        case BearerToken(token=token):
            return {"token": token}
        case ClientCertificate(certificate_pem=certificate, key_pem=key):
            return {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
