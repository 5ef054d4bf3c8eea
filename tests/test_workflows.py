"""Workflows of GitHub's: their scripts are shell, and the commands in them take the flags that they give."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler import __main__ as command

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def scripts(file: Path) -> list[str]:
    """Return what the steps of a workflow run, with a word for each expression."""
    jobs: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    return [re.sub(r"\$\{\{.*?\}\}", "word", run) for run in runs]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_every_script_is_shell(file: Path) -> None:
    found = scripts(file)
    assert found
    for script in found:
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, (script, checked.stderr)


def test_the_preview_plays_a_day_with_flags_that_there_are() -> None:
    (script,) = [each for each in scripts(ROOT / ".github/workflows/preview.yml") if "autoscaler simulate" in each]
    line = script.replace("\\\n", " ").partition("-m autoscaler ")[2].partition("2>")[0]
    given = command._parser().parse_args(shlex.split(line))
    assert (given.command, given.format, given.against) == (
        "simulate",
        "markdown",
        Path("before/stacks/Pulumi.word.yaml"),
    )
