"""Kubeconfigs, and the commands by which a user gets one. Pure.

No kubeconfig written here holds a token: it names a program that asks AWS for one when it is needed, because a token
would be dead after fifteen minutes and readable for ever.
"""

import json
import shlex
from dataclasses import dataclass
from typing import Any, Final
from urllib import parse

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """As whom tokens are asked for; by default as the aws command finds it."""

    profile: str | None = None
    role_arn: str | None = None

    @property
    def options(self) -> list[str]:
        """The options of the aws command."""
        given = {"--profile": self.profile, "--role-arn": self.role_arn}
        return [part for option, value in given.items() if value is not None for part in (option, value)]


ITSELF: Final = Caller()


def of_eks(*, cluster: str, region: str, endpoint: str, certificate_authority: str, caller: Caller = ITSELF) -> str:
    """Write a kubeconfig for a cluster of EKS, as JSON, which is YAML."""
    token = ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"]
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": [*token, *caller.options],
        "interactiveMode": "Never",
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": endpoint, "certificate-authority-data": certificate_authority},
                }
            ],
            "users": [{"name": cluster, "user": {"exec": command}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "current-context": cluster,
        }
    )


def server(kubeconfig: str, context: str | None) -> str | None:
    """Return the API server's address that a kubeconfig names, and nothing else of it; None where it names none."""
    try:
        config: Any = yaml.safe_load(kubeconfig)
        chosen = _named(config["contexts"], context or config["current-context"])["context"]
        parts = parse.urlsplit(_named(config["clusters"], chosen["cluster"])["cluster"]["server"])
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except (yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return None
    literal = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{literal}{port}" if parts.scheme in {"http", "https"} and host else None


def _named(entries: Any, name: str) -> Any:  # noqa: ANN401  # YAML
    return next(entry for entry in entries if entry["name"] == name)


def eks_command(cluster: str, region: str) -> str:
    """Write the command that puts a cluster of EKS into the user's kubeconfig."""
    return shlex.join(["aws", "eks", "update-kubeconfig", "--name", cluster, "--region", region])


def existing_command(*, secret: str | None, context: str | None) -> str:
    """Write the command that leads to a cluster that was there already."""
    if secret is not None:
        path = shlex.quote(f"sluice:secrets[{json.dumps(secret)}]")
        return f"pulumi config get --path {path} > kubeconfig"
    return shlex.join(["kubectl", "config", *(["use-context", context] if context else ["current-context"])])
