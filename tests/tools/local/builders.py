"""Values of tools.local with everything defaulted; a test sets what matters to it."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from autoscaler.cloud import catalogue
from tools.local import components
from tools.local.registrar import registrar_nodes

PORTS = components.Ports(
    etcd=20001, etcd_peer=20002, api_server=20003, controller_manager=20004, scheduler=20005, kwok=20006, moto=20007
)
M5_LARGE = catalogue.bundled()["m5.large"]


def wait_until(check: Callable[[], object], *, within_seconds: float = 10.0) -> None:
    """Wait for a process of the test's own to get somewhere."""
    deadline = time.monotonic() + within_seconds
    while not check():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def blueprint(options: components.Options | None = None, root: Path = Path("/plane")) -> components.Blueprint:
    return components.Blueprint(
        identifier="plane-1", paths=components.Paths(root=root), ports=PORTS, options=options or components.Options()
    )


def group(tags: Mapping[str, str] | None = None, zone: str = "eu-west-1b") -> registrar_nodes.Group:
    return registrar_nodes.Group.from_tags("workers", zone, tags or {})


def instance(
    identifier: str = "i-1",
    *,
    launched_at: float = 0.0,
    kind: catalogue.InstanceType = M5_LARGE,
    of: registrar_nodes.Group | None = None,
) -> registrar_nodes.Instance:
    return registrar_nodes.Instance(
        identifier=identifier,
        group=of or group(),
        type=kind,
        launched_at=launched_at,
        private_address="10.0.0.9",
    )
