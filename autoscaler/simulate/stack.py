"""What a stack makes, asked of the Pulumi program in a process of its own: the runtime never imports it."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.api.settings.queued_jobs import QueuedJobs
from autoscaler.api.settings.scaling import Scaling

CHECKOUT: Final = Path(__file__).parents[2]
"""Where the Pulumi program is, beside the runtime."""
TIMEOUT_SECONDS: Final = 120


class StackError(Exception):
    """A stack's file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The node groups of one cluster, the objects that are declared in it, and how it scales and queues."""

    groups: NodeGroups
    objects: tuple[Manifest, ...]
    scaling: Scaling = field(default_factory=Scaling)
    """How its nodes are scaled, and what they cost."""
    queued_jobs: QueuedJobs = field(default_factory=QueuedJobs)
    """How its queued jobs are handled."""


def read(file: Path, cluster: str | None = None) -> Stack:
    """Evaluate a stack's file as `pulumi up` would, without making anything."""
    chosen = [str(file.resolve()), *(() if cluster is None else ("--cluster", cluster))]
    shown = json.loads(_ask("simulation", *chosen))
    return Stack(
        groups=NodeGroups.model_validate(shown["groups"]),
        objects=tuple(shown["objects"]),
        scaling=Scaling.model_validate(shown["scaling"]),
        queued_jobs=QueuedJobs.model_validate(shown["queuedJobs"]),
    )


def _ask(*arguments: str) -> str:
    asked = [sys.executable, "-m", "components", *arguments]
    try:
        done = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise StackError(f"python -m components {' '.join(arguments)} took more than {TIMEOUT_SECONDS} s") from error
    if done.returncode:
        raise StackError(done.stderr.strip() or f"python -m components {' '.join(arguments)} failed: run it by hand")
    return done.stdout
