"""A simulated day handles queued jobs as the stack's file says, like the runtime that the stack starts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml

from autoscaler.simulate import play, stack
from autoscaler.simulate.world import World

LOCAL = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"


def with_autoscaler(directory: Path, **fields: Any) -> Path:
    """Write the stack of this computer with other settings of its runtime."""
    document = yaml.safe_load(LOCAL.read_text())
    document["config"]["sluice:clusters"]["local"]["autoscaler"].update(fields)
    made = directory / "Pulumi.local.yaml"
    made.write_text(yaml.safe_dump(document))
    return made


def test_a_simulated_day_has_the_gates_and_the_timeout_of_its_stack(tmp_path: Path) -> None:
    file = with_autoscaler(tmp_path, featureGates={"elasticJobs": False}, podsReadyTimeoutMinutes=45)
    world = cast("World", SimpleNamespace(trace=SimpleNamespace(seed=1)))
    options = play._options(world, stack.read(file))
    assert (options.elastic_jobs, options.pods_ready_timeout_seconds) == (False, 2700.0)
