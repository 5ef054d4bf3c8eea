"""Worker pools: the length of a queue becomes worker pods (seed 000)."""

from functools import partial

from autoscaler import control
from autoscaler.api.permissions import WorkerScope
from autoscaler.options import Options
from autoscaler.workers import controller, worker_pods


def build(context: control.ControllerContext, options: Options) -> control.Controller:
    """Handle the worker pools of one class, in the runtime's namespace or in all."""
    return controller.Controller(
        context,
        class_name=options.class_name,
        classes=options.classes,
        namespace=None if options.scope is WorkerScope.CLUSTER else context.namespace,
        open_queues=partial(options.open_queues, context),
        suffix=options.suffix or worker_pods.random_suffix,
    )
