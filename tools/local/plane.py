"""A plane: start all components at once, wait until they are ready, control each by name, stop them all.

with Plane.start(directory, Options(audit=True)) as plane:
    plane.kubectl("get", "nodes")
    plane.restart(Component.API_SERVER)
"""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.local import api, components, leftovers, ports, preparing, process, readiness
from tools.local.components import Component, Options
from tools.toolchain import finding

READY_SECONDS = 60.0
STOP_GRACE_SECONDS = 1.0  # an API server would wait a minute for its watchers; killing any of these is safe
GUEST_GRACE_SECONDS = 10.0  # enough to let go of a Lease
KUBECTL_SECONDS = 60.0
START_ATTEMPTS = 4
LOG_TAIL_LINES = 25
_COMPONENTS = frozenset(Component)
REPOSITORY = Path(__file__).parent.parent.parent
# Would send the components, and whoever sources our variables, to somebody else's account or cluster.
FOREIGN_VARIABLES = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


class PlaneError(Exception):
    """A plane or one of its components did not do what was asked; the message has the end of the log concerned."""


class PortTakenError(PlaneError):
    """Somebody else took a port between our choosing it and the component's listening on it."""


class Plane:
    """A control plane on this computer. Use `Plane.start`, or `Plane.attach` for one that runs already."""

    def __init__(self, blueprint: components.Blueprint, entry: leftovers.Entry, environment: Mapping[str, str]) -> None:
        self.blueprint = blueprint
        self._entry = entry
        self._environment = environment
        names = [*sorted(components.BUILT & blueprint.options.components), "kubectl"]
        self._programs = finding.paths(names, environment)
        self._children: dict[Component, subprocess.Popen[bytes]] = {}
        self._guests: dict[str, subprocess.Popen[bytes]] = {}
        self.api = api.Api(preparing.access_of("admin", self.paths.pki, blueprint.api_url))

    @classmethod
    def start(
        cls, directory: Path, options: Options | None = None, *, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Start a plane in a directory of its own and return once it is ready. Cleans up what others left behind."""
        chosen = options or Options()
        variables = dict(os.environ if environment is None else environment)
        # Before anything is made: the tools are there, and no dead owner's processes are in the way.
        finding.paths([*sorted(components.BUILT & chosen.components), "kubectl"], variables)
        leftovers.clean(variables)
        for _ in range(START_ATTEMPTS - 1):
            try:
                return cls._start_once(directory, chosen, variables)
            except PortTakenError:
                continue
        return cls._start_once(directory, chosen, variables)

    @classmethod
    def attach(cls, directory: Path, *, environment: Mapping[str, str] | None = None) -> Self:
        """Return the plane that was started in a directory and detached."""
        variables = dict(os.environ if environment is None else environment)
        root = directory.absolute()
        found = leftovers.of_directory(root, variables)
        try:
            blueprint = preparing.read_blueprint(root)
        except FileNotFoundError:
            found = []
        entry = next((entry for entry in found if entry.identifier == blueprint.identifier), None)
        if entry is None:
            raise PlaneError(f"no plane was started in {root}; start one with `make up`")
        return cls(blueprint, entry, variables)

    @classmethod
    def _start_once(cls, directory: Path, options: Options, environment: Mapping[str, str]) -> Self:
        root = directory.absolute()
        root.mkdir(parents=True, exist_ok=True)
        blueprint = components.Blueprint(
            identifier=f"plane-{secrets.token_hex(4)}",
            paths=components.Paths(root=root),
            ports=ports.choose(),
            options=options,
        )
        entry = leftovers.register(blueprint.identifier, root, environment)
        try:
            preparing.prepare(blueprint)
            plane = cls(blueprint, entry, environment)
        except BaseException:
            leftovers.release(entry)
            raise
        try:
            for wave in components.START_ORDER:
                for component in wave:
                    if component in options.components:
                        plane._launch(component)
                plane.wait_ready()
        except BaseException:
            plane.stop()
            raise
        return plane

    @property
    def paths(self) -> components.Paths:
        return self.blueprint.paths

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.paths.kubeconfig

    @property
    def aws_endpoint(self) -> str:
        return self.blueprint.aws_url

    @property
    def region(self) -> str:
        return self.blueprint.options.region

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point clients at this plane, to be laid over those of the process."""
        tools = self._programs["kubectl"].parent
        path = os.pathsep.join((str(tools), self._environment.get("PATH", os.defpath)))
        return components.client_environment(self.blueprint) | {"PATH": path}

    def processes(self) -> dict[Component, process.Identity]:
        """Return the components that are alive."""
        return {Component(name): known for name, known in self._entry.running().items() if name in _COMPONENTS}

    def guests(self) -> dict[str, process.Identity]:
        """Return the programs that were started beside the components and are alive."""
        return {name: known for name, known in self._entry.running().items() if name not in _COMPONENTS}

    def start_guest(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Path:
        """Start a program that ends with the plane at the latest, in the repository; return its log."""
        log = self.paths.logs / f"{name}.log"
        self._guests[name] = process.start(
            arguments,
            record=self._entry.record(name),
            log=log,
            environment=self._child_environment() | dict(environment),
            directory=REPOSITORY,
        )
        return log

    def stop_guests(self) -> None:
        """End the programs beside the components, in good order."""
        process.stop(list(self.guests().values()), grace_seconds=GUEST_GRACE_SECONDS)
        for ended in self._guests.values():
            ended.wait()
        self._guests.clear()

    def is_complete(self) -> bool:
        """Tell whether every component is alive."""
        return self.processes().keys() == self.blueprint.options.components

    def log_tail(self, component: Component, lines: int = LOG_TAIL_LINES) -> str:
        log = self.paths.log(component)
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (empty)"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return what it printed; raise PlaneError if it fails."""
        cache = {"KUBECACHEDIR": str(self.paths.data / "kubectl")}
        answer = subprocess.run(
            [self._programs["kubectl"], *arguments],
            env=self._child_environment() | cache,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            check=False,
        )
        if answer.returncode != 0:
            said = answer.stderr.strip() or answer.stdout.strip()
            raise PlaneError(f"`kubectl {' '.join(arguments)}` ended with {answer.returncode}: {said}")
        return answer.stdout

    def send(self, component: Component, number: signal.Signals) -> None:
        """Send a signal to one component, such as SIGSTOP to freeze it and SIGCONT to let it go on."""
        known = process.recorded(self._entry.record(component))
        if known is None or not process.send(known, number):
            raise PlaneError(f"cannot send {number.name} to {component}: it does not run")

    def stop_component(self, component: Component, *, grace_seconds: float = STOP_GRACE_SECONDS) -> None:
        """End one component and leave the others running; one that does not run is fine."""
        known = self.processes().get(component)
        if known is not None:
            process.stop([known], grace_seconds=grace_seconds)
        self._reap()

    def start_component(self, component: Component) -> None:
        """Start one component again, on the port it had, and wait until it is ready."""
        if component in self.processes():
            raise PlaneError(f"cannot start {component}: it runs already; stop it first")
        self._launch(component)
        self.wait_ready()

    def restart(self, component: Component) -> None:
        self.stop_component(component)
        self.start_component(component)

    def wait_ready(self, within_seconds: float = READY_SECONDS) -> None:
        """Wait until every component that runs is ready; raise PlaneError with its log if one is not in time."""
        deadline = time.monotonic() + within_seconds
        running = self.processes()
        checks = readiness.checks(self.blueprint, self.api)
        waiting = {component: check for component, check in checks.items() if component in self._expected(running)}
        while waiting:
            self._raise_if_ended()
            waiting = {component: check for component, check in waiting.items() if not check()}
            if waiting and time.monotonic() > deadline:
                raise PlaneError(self._not_ready(next(iter(waiting)), within_seconds))
            time.sleep(process.POLL_SECONDS)
        self._raise_if_ended()

    def detach(self) -> None:
        """Let the plane live on after this process; whoever attaches later, or `down`, ends it."""
        self._entry = leftovers.detach(self._entry)

    def stop(self) -> None:
        """End every component, remove the data, keep the logs. Stopping twice is fine."""
        self.stop_guests()
        for batch in components.STOP_ORDER:
            running = self.processes()
            process.stop(
                [running[component] for component in batch if component in running],
                grace_seconds=STOP_GRACE_SECONDS,
            )
        leftovers.release(self._entry)
        preparing.remove_blueprint(self.paths.root)
        self._reap()
        self.api.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, component: Component) -> None:
        self._children[component] = process.start(
            components.command(component, self.blueprint, self._programs),
            record=self._entry.record(component),
            log=self.paths.log(component),
            environment=self._child_environment(),
            directory=REPOSITORY if component in components.IN_PYTHON else self.paths.root,
        )

    def _child_environment(self) -> dict[str, str]:
        own = {name: value for name, value in self._environment.items() if name not in FOREIGN_VARIABLES}
        return own | self.environment | {"PYTHONUNBUFFERED": "1"}

    def _expected(self, running: Mapping[Component, process.Identity]) -> frozenset[Component]:
        """Whatever was launched must become ready, even if its record is only just being written."""
        return frozenset(running) | frozenset(self._children)

    def _raise_if_ended(self) -> None:
        for component, child in self._children.items():
            code = child.poll()
            if code is None:
                continue
            tail = self.log_tail(component)
            kind = PortTakenError if "address already in use" in tail.lower() else PlaneError
            log = self.paths.log(component)
            raise kind(f"{component} ended with {code}; the end of {log}:\n{tail}")

    def _not_ready(self, component: Component, seconds: float) -> str:
        log = self.paths.log(component)
        return f"{component} is not ready after {seconds:.0f} s; the end of {log}:\n{self.log_tail(component)}"

    def _reap(self) -> None:
        """Forget children that ended, so that they are no zombies and nobody takes them for failed."""
        for component, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[component]
