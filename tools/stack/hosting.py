"""A Deployment's container as a command on this computer. Pure: the same command and environment, paths rewritten.

What a kubelet adds is added here: the API server's address, the files of the ServiceAccount, the downward fields. What
cannot be honoured on a host (an unknown field, a Secret's value) is an error, not silently left out.
"""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ENTRYPOINT: Final = ("python", "-m", "autoscaler")
"""The image's, for a container that gives arguments alone."""
TOKEN_FILE: Final = "token"  # noqa: S105 - a file's name
AUTHORITY_FILE: Final = "ca.crt"
NAMESPACE_FILE: Final = "namespace"


class HostingError(Exception):
    """The Deployment asks for something that this computer cannot give it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The computer in a kubelet's place."""

    pod_name: str
    directory: Path
    """Where the ServiceAccount's files are."""
    api_host: str
    api_port: int
    listen: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def service_account(deployment: Mapping[str, Any]) -> str:
    """Name the ServiceAccount that its pods run as."""
    name: str = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
    return name


def command(deployment: Mapping[str, Any], host: Host) -> Command:
    """Turn the Deployment's one container into a command."""
    pod: Mapping[str, Any] = deployment["spec"]["template"]["spec"]
    container: Mapping[str, Any] = pod["containers"][0]
    words: list[str] = [*container.get("command", ENTRYPOINT), *container.get("args", ())]
    program, *rest = words
    environment = _environment(container, namespace=deployment["metadata"]["namespace"], host=host)
    mounts = _token_mounts(pod, container)
    return Command(
        arguments=(sys.executable if program == "python" else program, *rest),
        environment={
            "KUBERNETES_SERVICE_HOST": host.api_host,
            "KUBERNETES_SERVICE_PORT": str(host.api_port),
            **{name: _rewritten(value, mounts, host.directory) for name, value in environment.items()},
            "SLUICE_LISTEN": host.listen,
        },
    )


def _environment(container: Mapping[str, Any], *, namespace: str, host: Host) -> dict[str, str]:
    if container.get("envFrom"):
        raise HostingError("envFrom cannot be honoured on this computer; give the stack plain values")
    fields = {
        "metadata.name": host.pod_name,
        "metadata.namespace": namespace,
        "status.podIP": "127.0.0.1",
        "spec.nodeName": "this-computer",
    }
    return {one["name"]: _value(one, fields) for one in container.get("env", ())}


def _value(variable: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    source = variable.get("valueFrom")
    if source is None:
        value: str = variable.get("value", "")
        return value
    field = source.get("fieldRef", {}).get("fieldPath")
    if field not in fields:
        raise HostingError(f"{variable['name']}: {source} cannot be honoured on this computer")
    return fields[field]


def _token_mounts(pod: Mapping[str, Any], container: Mapping[str, Any]) -> list[str]:
    """Return where the ServiceAccount's files are mounted."""
    projected = {
        volume["name"]
        for volume in pod.get("volumes", ())
        if any("serviceAccountToken" in source for source in volume.get("projected", {}).get("sources", ()))
    }
    return [mount["mountPath"] for mount in container.get("volumeMounts", ()) if mount["name"] in projected]


def _rewritten(value: str, mounts: list[str], directory: Path) -> str:
    for mount in mounts:
        if value == mount or value.startswith(f"{mount}/"):
            return f"{directory}{value.removeprefix(mount)}"
    return value
