"""Capacity: pods that wait become nodes, idle nodes become nothing (seeds 002 and 003)."""

from functools import partial

from autoscaler import control
from autoscaler.capacity import controller, model
from autoscaler.capacity.snapshot import Ceilings
from autoscaler.cloud.prices import Prices
from autoscaler.options import Options


def build(context: control.ControllerContext, options: Options) -> control.Controller:
    """Scale the node groups of the clouds that there are ProviderAccounts for."""
    wanted = options.scaling
    return controller.Controller(
        context,
        open_cloud=partial(options.open_cloud, context),
        open_news=options.open_interruptions,
        ceilings=Ceilings(
            nodes=wanted.nodes,
            cpu_millis=None if wanted.cores is None else wanted.cores * 1000,
            launches_per_minute=wanted.launches_per_minute,
        ),
        policy=model.Policy(expanders=wanted.expanders),
        prices=Prices.of(wanted.prices),
    )
