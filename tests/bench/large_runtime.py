"""`python -m tests.bench.large_runtime INSTANCES FILE`: the runtime as a user starts it, on an account in memory."""

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path

from autoscaler.api import controllers
from autoscaler.cloud import port as cloud
from autoscaler.runtime import controllers as real
from autoscaler.runtime import process, registry, settings
from autoscaler.runtime.commands import run
from tests.bench import large_cloud


def main() -> int:
    """Run until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("instances", type=int)
    parser.add_argument("calls", type=Path)
    settings.add_arguments(parser, settings.CONTROLLERS)
    given = parser.parse_args()

    async def open_cloud(*_: object) -> cloud.Cloud:
        return large_cloud.LargeCloud(given.instances, given.calls)

    def assemble(chosen: settings.Settings) -> Mapping[str, process.Registration]:
        options = dataclasses.replace(real.options(chosen), open_cloud=open_cloud)
        names = [each.name for each in controllers.chosen(chosen.controllers)]
        return registry.registrations(names, options, classes=chosen.classes)

    return run.run(settings.read(given, settings.CONTROLLERS), assemble)


if __name__ == "__main__":
    sys.exit(main())
