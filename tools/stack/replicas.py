"""The runtime's replicas on this computer, started as the Deployment in the cluster says, as its own account."""

import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tools.local import ports, tokens
from tools.local.plane import Plane, PlaneError
from tools.stack import hosting

READY_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
TOKEN_SECONDS: Final = 7 * 24 * 3600  # nobody renews the file, as a kubelet would
SELECTOR: Final = "app.kubernetes.io/part-of=sluice"
MARK: Final = "SLUICE_NAMESPACE"
"""A variable that the runtime's container alone has: its name is the config's, and others share the label."""


def deployment(plane: Plane) -> Mapping[str, Any]:
    """Find the runtime's Deployment in the cluster."""
    found = plane.api.get("/apis/apps/v1/deployments", {"labelSelector": SELECTOR})
    items = [one for one in found["items"] if is_runtime(one)]
    if len(items) != 1:
        raise PlaneError(f"there are {len(items)} Deployments of the runtime in the cluster, not one: `make up` first")
    one: Mapping[str, Any] = items[0]
    return one


def is_runtime(found: Mapping[str, Any]) -> bool:
    """Tell the runtime's Deployment from those of other parts, whatever it is called."""
    container = found["spec"]["template"]["spec"]["containers"][0]
    return any(variable["name"] == MARK for variable in container.get("env", ()))


def start(plane: Plane, found: Mapping[str, Any], *, aws_endpoint: str | None = None) -> tuple[str, ...]:
    """Start every replica anew, with the plane's AWS or another, and return where they answer, once all are ready."""
    plane.stop_guests()
    name = found["metadata"]["name"]
    addresses = [f"127.0.0.1:{port}" for port in ports.free(found["spec"]["replicas"])]
    logs = {
        address: _start_one(plane, found, pod_name=f"{name}-{number}", listen=address, aws_endpoint=aws_endpoint)
        for number, address in enumerate(addresses)
    }
    for address, log in logs.items():
        _wait_ready(address, log)
    return tuple(f"http://{address}" for address in addresses)


def _start_one(plane: Plane, found: Mapping[str, Any], *, pod_name: str, listen: str, aws_endpoint: str | None) -> Path:
    host = hosting.Host(
        pod_name=pod_name,
        directory=_write_account(plane, found, pod_name),
        api_host="127.0.0.1",
        api_port=plane.blueprint.ports.api_server,
        listen=listen,
    )
    command = hosting.command(found, host)
    # Its own token and nothing else: the administrator's kubeconfig must not be within its reach.
    account = {"KUBECONFIG": "", **({"AWS_ENDPOINT_URL": aws_endpoint} if aws_endpoint else {})}
    return plane.start_guest(pod_name, command.arguments, {**command.environment, **account})


def _write_account(plane: Plane, found: Mapping[str, Any], pod_name: str) -> Path:
    """Write what a kubelet projects into a pod."""
    namespace = found["metadata"]["namespace"]
    account = hosting.service_account(found)
    token = tokens.mint(plane.api, namespace=namespace, service_account=account, lifetime_seconds=TOKEN_SECONDS)
    directory = plane.paths.data / "accounts" / pod_name
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = directory / hosting.TOKEN_FILE
    file.touch(mode=0o600)
    file.write_text(token)
    (directory / hosting.AUTHORITY_FILE).write_bytes(plane.api.access.authority_pem)
    (directory / hosting.NAMESPACE_FILE).write_text(namespace)
    return directory


def _wait_ready(address: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_ready(address):
        if time.monotonic() > deadline:
            tail = "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-25:])
            raise PlaneError(
                f"the runtime at {address} is not ready after {READY_SECONDS:.0f} s; its log ends:\n{tail}"
            )
        time.sleep(POLL_SECONDS)


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
