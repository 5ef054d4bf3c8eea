"""How long the runtime takes to start and how much memory it holds, as a pod of its Deployment has it.

The packages are those of the image (`autoscaler/requirements.txt`, compiled as in the image), not those of a developer.
Another checkout, named by SLUICE_BENCH_BASE, is measured in turn with this one, so that both meet the same machine.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from autoscaler.api import crds, resources
from autoscaler.kube import kinds
from components.runtime import deployment
from tests import builders
from tests.bench import processes, results
from tests.components import accesses, places
from tools.local import ports, tokens
from tools.local.components import Component, Options
from tools.local.plane import REPOSITORY, Plane
from tools.stack import hosting

BASE: Final = "SLUICE_BENCH_BASE"
COMPONENTS: Final = frozenset({Component.ETCD, Component.API_SERVER, Component.MOTO})
ROUNDS: Final = 10
SETTLED_SECONDS: Final = 5.0
"""After the replica is ready: the account was read, and boto is there."""
WITHIN_SECONDS: Final = 60.0
FIRST_WATCH: Final = "watch_synced"
CONTROLLERS: Final = "workers,capacity"
"""Those that older checkouts know, too."""
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What is started: a checkout, and a Python with the packages of its image."""

    name: str
    directory: Path
    python: Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start."""

    first_watch_seconds: float
    ready_seconds: float
    first_watch_mb: float
    settled_mb: float
    cpu_seconds: float
    """Until it was ready."""


def starting(scale: float) -> None:
    """Start to first watch and memory (bars, against SLUICE_BENCH_BASE=checkout: 1 s sooner, 40 MB less)."""
    rounds = max(2, int(ROUNDS * scale))
    with tempfile.TemporaryDirectory() as scratch, _ground(Path(scratch)) as plane:
        checkouts = list(_checkouts(Path(scratch)))
        taken: dict[str, list[Start]] = {each.name: [] for each in checkouts}
        for checkout in checkouts:
            _start(plane, checkout, Path(scratch))  # the files are in memory from here on
        for _ in range(rounds):
            for checkout in checkouts:
                taken[checkout.name].append(_start(plane, checkout, Path(scratch)))
    for name, starts in taken.items():
        _tell(name, starts)


def _tell(name: str, starts: list[Start]) -> None:
    fields = [field.name for field in dataclasses.fields(Start)]
    medians = {field: statistics.median(getattr(each, field) for each in starts) for field in fields}
    spread = [round(each.first_watch_seconds, 2) for each in starts]
    results.tell("starting", checkout=name, rounds=len(starts), **medians, first_watch_each=sorted(spread))


def _checkouts(scratch: Path) -> Iterator[Checkout]:
    named = {"this": REPOSITORY}
    if base := os.environ.get(BASE):
        named = {"base": Path(base).absolute(), **named}
    for name, directory in named.items():
        venv = scratch / f"venv-{name}"
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
        python = venv / "bin" / "python"
        sync = [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--require-hashes", "--python", str(python)]
        subprocess.run([*sync, str(directory / "autoscaler" / "requirements.txt")], check=True)
        yield Checkout(name=name, directory=directory, python=python)


@contextlib.contextmanager
def _ground(scratch: Path) -> Iterator[Plane]:
    """A plane with what the stack puts there: definitions, an account, a pool, and the runtime's ServiceAccount."""
    with Plane.start(scratch / "plane", Options(components=COMPONENTS)) as plane:
        for definition in crds.all_crds():
            plane.api.create(kinds.DEFINITIONS.collection(), dict(definition))
        _until(lambda: plane.api.request("GET", kinds.custom(resources.InstancePool).collection()).ok)
        account = builders.resource("ProviderAccount", name="aws", region=plane.region)
        plane.api.create(kinds.custom(resources.ProviderAccount).collection(), account)
        pool = builders.resource("InstancePool", name="bench", providerAccount="aws")
        plane.api.create(kinds.custom(resources.InstancePool).collection(), pool)
        home, user = _home(), {"kind": "ServiceAccount", "name": _account(), "namespace": _home()}
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": home}})
        plane.api.create(f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": _account()}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": "bench"}, "roleRef": role, "subjects": [user]}
        plane.api.create(f"{_RBAC}/clusterrolebindings", binding)
        yield plane


def _start(plane: Plane, checkout: Checkout, scratch: Path) -> Start:
    command = hosting.command(_deployment(), _host(plane, scratch))
    # Of this machine's own variables nothing: a pod has what its Deployment says, and what the image sets.
    image = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**image, **command.environment, **_aws(plane), "SLUICE_CONTROLLERS": CONTROLLERS}
    arguments = [str(checkout.python), *command.arguments[1:]]
    errors = scratch / "errors"
    began = time.monotonic()
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            arguments, cwd=checkout.directory, env=environment, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        try:
            _until_said(process.stdout, FIRST_WATCH, errors)
            watched, at_first = time.monotonic() - began, processes.resident_mb(process.pid)
            _until(lambda: _is_ready(command.environment["SLUICE_LISTEN"]))
            ready, used = time.monotonic() - began, processes.cpu_seconds(process.pid)
            time.sleep(SETTLED_SECONDS)
            return Start(
                first_watch_seconds=watched,
                ready_seconds=ready,
                first_watch_mb=at_first,
                settled_mb=processes.resident_mb(process.pid),
                cpu_seconds=used,
            )
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _deployment() -> dict[str, object]:
    config = accesses.config()
    around = deployment.Surroundings(config=config, place=places.place(), image="bench")
    return {"metadata": {"namespace": _home()}, "spec": deployment.spec(around)}


def _home() -> str:
    return accesses.config().autoscaler.namespace


def _account() -> str:
    return accesses.config().autoscaler.service_account_name


def _host(plane: Plane, scratch: Path) -> hosting.Host:
    directory = scratch / "account"
    directory.mkdir(exist_ok=True)
    token = tokens.mint(plane.api, namespace=_home(), service_account=_account())
    (directory / hosting.TOKEN_FILE).write_text(token)
    (directory / hosting.AUTHORITY_FILE).write_bytes(plane.api.access.authority_pem)
    (number,) = ports.free(1)
    return hosting.Host(
        pod_name="bench",
        directory=directory,
        api_host="127.0.0.1",
        api_port=plane.blueprint.ports.api_server,
        listen=f"127.0.0.1:{number}",
    )


def _aws(plane: Plane) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": plane.aws_endpoint,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": plane.region,
    }


def _until_said(said: IO[bytes] | None, event: str, errors: Path) -> None:
    """Read the log until an event is told."""
    for line in said or ():
        if json.loads(line)["event"] == event:
            return
    raise RuntimeError(f"it ended before it told of {event}: {errors.read_text()[-2000:]}")


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5):
            return True
    except OSError:
        return False


def _until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_SECONDS:g} s")
        time.sleep(0.02)
