"""The real Pulumi engine in a directory of its own: previews, updates, refreshes and destroys of any program.

Everything goes through the plain `pulumi` command, as a user would call it; backend, home, plugins and secrets are
in the directory, and the network is not needed. Secrets are printed by nobody: the command blacks them out, and
`outputs` returns them only to a caller who asks.

with a plane: Engine.open(directory, layout.Surroundings.of_plane(plane)).up("local")
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self, cast

import yaml

from tools.engine import layout, locks, results, variables
from tools.engine.providers import journal
from tools.toolchain import finding

RUN_SECONDS = 1800.0
STOP_SECONDS = 60.0
PARALLEL = 32

Listener = Callable[[str], None]


class EngineError(Exception):
    """The engine failed; the message has what it said unless a listener heard it, `result` what it did before."""

    def __init__(self, message: str, result: results.Result) -> None:
        super().__init__(message)
        self.result = result


class Engine:
    """One program with its stacks. Use `Engine.open`."""

    def __init__(self, files: layout.Layout, program: Path, environment: Mapping[str, str]) -> None:
        self.layout = files
        self.program = program
        self._environment = environment
        self._pulumi = finding.paths(["pulumi"], os.environ)["pulumi"]

    @classmethod
    def open(
        cls,
        directory: Path,
        surroundings: layout.Surroundings,
        *,
        program: Path = layout.REPOSITORY,
        stacks: Path | None = None,
    ) -> Self:
        """Prepare a directory for a program, or take up the state that an earlier engine left in it."""
        files = layout.Layout(root=directory.absolute())
        place = program.absolute()
        layout.prepare(
            files, program=place, stacks=(stacks or place / "stacks").absolute(), clusters=surroundings.clusters
        )
        return cls(files, place, surroundings.environment)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the command and the plugins run with."""
        return variables.of_run(self.layout, self._environment, os.environ)

    def preview(self, stack: str, *options: str, listener: Listener | None = None) -> results.Result:
        return self._run("preview", stack, *options, listener=listener)

    def up(self, stack: str, *options: str, listener: Listener | None = None) -> results.Result:
        return self._run("up", stack, "--yes", "--skip-preview", *options, listener=listener)

    def refresh(self, stack: str, *options: str, listener: Listener | None = None) -> results.Result:
        return self._run("refresh", stack, "--yes", "--skip-preview", *options, listener=listener)

    def destroy(self, stack: str, *options: str, listener: Listener | None = None) -> results.Result:
        return self._run("destroy", stack, "--yes", "--skip-preview", *options, listener=listener)

    def preview_destroy(self, stack: str, *options: str, listener: Listener | None = None) -> results.Result:
        """Do what `pulumi destroy` does before it asks whether to go on."""
        return self._run("destroy", stack, "--preview-only", *options, listener=listener)

    def outputs(self, stack: str, *, show_secrets: bool = False) -> dict[str, Any]:
        """Return the stack's exports; secret ones as `[secret]` unless asked for."""
        flags = ("--show-secrets",) if show_secrets else ()
        found: dict[str, Any] = json.loads(self._command("stack", "output", "--json", "--stack", stack, *flags))
        return found

    def state(self, stack: str, *, show_secrets: bool = False) -> dict[str, Any]:
        """Return the deployment as the backend keeps it, secrets encrypted unless asked for."""
        flags = ("--show-secrets",) if show_secrets else ()
        found: dict[str, Any] = json.loads(self._command("stack", "export", "--stack", stack, *flags))
        return found

    def import_state(self, stack: str, state: Mapping[str, Any]) -> None:
        """Make a deployment that was exported elsewhere the stack's; secrets in plain are encrypted now."""
        self._require_stack(stack)
        self._command("stack", "import", "--stack", stack, stdin=json.dumps(state))

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """Return the resources in the state."""
        found: list[dict[str, Any]] = self.state(stack)["deployment"].get("resources", [])
        return found

    def write_stack(self, stack: str, document: Mapping[str, Any] | str) -> None:
        """Write a stack's file, given as YAML or as what it means."""
        parsed = yaml.safe_load(document) if isinstance(document, str) else document
        layout.write_stack(self.layout, stack, parsed)

    def set_secret(self, stack: str, path: str, value: str) -> None:
        """Encrypt one value into a stack's file; it goes through a pipe, not through the command line."""
        self._require_stack(stack)
        self._command("config", "set", "--secret", "--path", path, "--stack", stack, stdin=value)

    def journal(self) -> tuple[journal.Entry, ...]:
        """Return what the stand-ins did so far."""
        return journal.read(self.layout.journal)

    def fail_once(self, *, type: str = "*", name: str = "*", method: str = "create") -> None:  # noqa: A002
        """Make the next operation that fits the patterns fail."""
        journal.Faults(path=self.layout.faults).add(journal.Fault(type=type, name=name, method=method))

    def _run(self, operation: str, stack: str, *options: str, listener: Listener | None) -> results.Result:
        self._require_stack(stack)
        locks.remove_dead(self.layout.backend)
        self.layout.events.unlink(missing_ok=True)
        arguments = [operation, "--stack", stack, "--event-log", str(self.layout.events), f"--parallel={PARALLEL}"]
        code, output = self._stream([*arguments, "--suppress-outputs", *options], listener)
        events = self.layout.events.read_text().splitlines() if self.layout.events.exists() else []
        result = results.read(events, output)
        if code != 0:
            said = f":\n{output}" if listener is None else "; what it said is above"
            raise EngineError(f"`pulumi {operation}` of {stack} ended with {code}{said}", result)
        return result

    def _require_stack(self, stack: str) -> None:
        if not self.layout.state_file(stack).exists():
            self._command("stack", "init", stack, "--no-select")

    def _stream(self, arguments: list[str], listener: Listener | None) -> tuple[int, str]:
        """Run the command and hand its lines on as they come."""
        process = subprocess.Popen(
            self._line(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        lines: list[str] = []
        reader = threading.Thread(target=_drain, args=(cast("IO[str]", process.stdout), lines, listener))
        reader.start()
        try:
            code = process.wait(timeout=RUN_SECONDS)
        except BaseException:
            _interrupt(process)
            raise
        finally:
            reader.join()
        return code, "".join(lines)

    def _command(self, *arguments: str, stdin: str | None = None) -> str:
        answer = subprocess.run(
            self._line(*arguments),
            env=self.environment,
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=STOP_SECONDS,
            check=False,
        )
        if answer.returncode != 0:
            said = answer.stderr.strip() or answer.stdout.strip()
            nothing = results.read((), said)
            raise EngineError(f"`pulumi {' '.join(arguments)}` ended with {answer.returncode}: {said}", nothing)
        return answer.stdout

    def _line(self, *arguments: str) -> list[str]:
        return [str(self._pulumi), *arguments, "--non-interactive", "--cwd", str(self.layout.project)]


def _drain(stream: IO[str], lines: list[str], listener: Listener | None) -> None:
    with stream:
        for line in stream:
            lines.append(line)
            if listener is not None:
                listener(line.rstrip("\n"))


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Let the engine finish what it is at and save the state; it obeys one interrupt."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_SECONDS)
        return
    process.kill()
    process.wait()
