"""`python -m tests.bench.toy_runtime`: the runtime as a user starts it, with admission for the toy kind alone."""

import argparse
import sys
from collections.abc import Mapping

from autoscaler.admission import controller
from autoscaler.admission.state.job_state import Policy
from autoscaler.api import controllers, names
from autoscaler.runtime import process, settings
from autoscaler.runtime.commands import run
from tests import toy_jobs


def main() -> int:
    """Run until told to stop."""
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, settings.CONTROLLERS)
    return run.run(settings.read(parser.parse_args(), settings.CONTROLLERS), _assemble)


def _assemble(chosen: settings.Settings) -> Mapping[str, process.Registration]:
    del chosen
    return {
        controllers.ADMISSION: process.Registration(
            lease=names.CLUSTER_LEASE,
            lease_namespace=controllers.KUBE_SYSTEM,
            build=lambda context: controller.Controller(context, job_kinds=(toy_jobs.ToyJob(),), policy=Policy()),
        )
    }


if __name__ == "__main__":
    sys.exit(main())
