"""Machines: room held on chosen nodes for machine types that guests ask for by name (seed 001)."""

from autoscaler import control
from autoscaler.machines import controller
from autoscaler.options import Options


def build(context: control.ControllerContext, options: Options) -> control.Controller:
    """Handle the Machines of the cluster."""
    return controller.Controller(context, image=options.sleeper_image)
