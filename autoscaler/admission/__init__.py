"""Elastic jobs under quota: queued jobs wait, are admitted, and may grow and shrink (seed 004)."""

from autoscaler import control
from autoscaler.admission import controller
from autoscaler.admission.jobs import KINDS
from autoscaler.admission.state.job_state import Policy
from autoscaler.options import Options


def build(context: control.ControllerContext, options: Options) -> control.Controller:
    """Handle the queued jobs of the cluster."""
    policy = Policy(elastic=options.elastic_jobs, pods_ready_timeout_seconds=options.pods_ready_timeout_seconds)
    return controller.Controller(context, job_kinds=KINDS, policy=policy)
