"""Whatever writes a line, it is one JSON object; tracebacks hold no variables."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tools.local.plane import REPOSITORY

START = """
import asyncio, gc, logging, sys, threading, warnings
from autoscaler.runtime.observability import log_bridge, telemetry
telemetry.configure_logging("info")
log_bridge.install()

def fail():
    token = "VERY" + "SECRET"
    raise RuntimeError("broken")
"""


def said(program: str, *, code: int = 0) -> dict[str, Any]:
    """Run a program that writes one line, on standard output and nowhere else."""
    ran = subprocess.run(
        [sys.executable, "-c", START + program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (code, "")
    assert "VERYSECRET" not in ran.stdout
    (line,) = ran.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert told["timestamp"]
    return told


@pytest.mark.parametrize(
    ("program", "want"),
    [
        (
            "logging.getLogger('aiohttp.server').error('cannot %s', 'serve')",
            ("error", "aiohttp.server", "cannot serve"),
        ),
        ("logging.getLogger('botocore').warning('%d of', 'x')", ("warning", "botocore", "%d of")),
        ("logging.getLogger('odd').log(35, 'between')", ("warning", "odd", "between")),
    ],
)
def test_a_librarys_line_is_an_event(program: str, want: tuple[str, str, str]) -> None:
    told = said(program)
    assert told["event"] == "library_logged"
    assert (told["level"], told["logger"], told["message"]) == want


def test_a_librarys_chatter_is_not_shown() -> None:
    """Boto's finer lines hold signed headers."""
    told = said("logging.getLogger('botocore').debug('signature'); logging.getLogger('botocore').info('signature')\n"
                "logging.getLogger('botocore').warning('shown')")  # fmt: skip
    assert told["message"] == "shown"


def test_a_warning_is_an_event() -> None:
    told = said("warnings.warn('old', UserWarning)")
    assert (told["event"], told["logger"], told["level"]) == ("library_logged", "py.warnings", "warning")
    assert "UserWarning: old" in told["message"]


@pytest.mark.parametrize(
    ("program", "event", "code"),
    [
        ("fail()", "uncaught_exception", 1),
        ("made = threading.Thread(target=fail, name='made'); made.start(); made.join()", "thread_failed", 0),
        ("class Odd:\n    def __del__(self): fail()\nodd = Odd(); del odd", "exception_ignored", 0),
    ],
)
def test_an_exception_that_nobody_caught_is_an_event(program: str, event: str, code: int) -> None:
    told = said(program, code=code)
    assert told["event"] == event
    assert told["error"] == "RuntimeError('broken')"
    assert told["exception"][0]["frames"][-1]["name"] == "fail"


def test_a_task_that_nobody_waited_for_is_an_event() -> None:
    program = """
async def work():
    fail()
async def main():
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()
asyncio.run(main())
"""
    told = said(program)
    assert (told["event"], told["logger"], told["level"]) == ("library_logged", "asyncio", "error")
    assert told["exception"][0]["exc_value"] == "broken"
