"""The controllers of this version, and how each is put together from the settings. It starts nothing."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api import names
from autoscaler.api.permissions import CAPACITY, WORKERS, WorkerScope
from autoscaler.capacity import account_clouds, model
from autoscaler.capacity import controller as capacity
from autoscaler.capacity.snapshot import Ceilings
from autoscaler.cloud import interruption_queue
from autoscaler.cloud.prices import Prices
from autoscaler.queues import access, endpoints, lookups, sources, sqs
from autoscaler.runtime import process, settings
from autoscaler.workers import controller as workers

log = structlog.get_logger()
KUBE_SYSTEM: Final = "kube-system"


def registrations(chosen: settings.Settings) -> Mapping[str, process.Registration]:
    """Return what runs under these settings, by name."""
    return {name: made for part in chosen.controllers for name, made in _PARTS[part](chosen).items()}


def _workers(chosen: settings.Settings) -> dict[str, process.Registration]:
    """Handle the pools of our class, and those without one, each under a Lease of its own.

    So two operators may share the pools without a class and no other: one of them then stands by for these alone.
    Operators of the whole cluster meet on a Lease in one namespace, wherever they themselves run.
    """
    classes = [None] * chosen.default_class + [chosen.class_name] * (chosen.class_name is not None)
    everywhere = chosen.scope is WorkerScope.CLUSTER
    return {
        WORKERS if name is None else f"{WORKERS} {name}": process.Registration(
            lease=names.worker_lease(name),
            lease_namespace=KUBE_SYSTEM if everywhere else None,
            build=partial(_build_workers, chosen, name),
        )
        for name in classes
    }


def _build_workers(
    chosen: settings.Settings, class_name: str | None, context: control.ControllerContext
) -> workers.Controller:
    return workers.Controller(
        context,
        class_name=class_name,
        namespace=None if chosen.scope is WorkerScope.CLUSTER else chosen.namespace,
        open_queues=lambda: _open_queues(chosen, context.api_server),
    )


def _open_queues(chosen: settings.Settings, api_server: str) -> sources.Sources:
    policy = endpoints.Policy(
        api_servers=tuple(endpoints.Server.of(url) for url in (api_server, *chosen.api_servers)),
        allow_loopback=chosen.allow_loopback_queues,
        queue_access=access.Access.of(chosen.queue_access, cluster_domain=lookups.cluster_domain()),
    )
    override = None
    if chosen.aws_endpoint is not None and chosen.aws_region is not None:
        override = sqs.Override(endpoint=chosen.aws_endpoint, region=chosen.aws_region)
    return sources.Sources.open(policy, aws=override)


def _capacity(chosen: settings.Settings) -> dict[str, process.Registration]:
    """Scale the node groups that are tagged with the cluster's name; without a name there are none."""
    if chosen.cluster is None:
        log.warning("capacity_off", advice="give the cluster's name in AWS with --cluster to scale its node groups")
        return {}
    build = partial(_build_capacity, chosen, chosen.cluster)
    return {CAPACITY: process.Registration(lease=names.CLUSTER_LEASE, lease_namespace=KUBE_SYSTEM, build=build)}


def _build_capacity(chosen: settings.Settings, cluster: str, context: control.ControllerContext) -> capacity.Controller:
    queue, cores = chosen.interruption_queue, chosen.max_cores
    return capacity.Controller(
        context,
        open_cloud=partial(account_clouds.open_cloud, context.api, cluster),
        open_news=partial(interruption_queue.open_queue, queue) if queue is not None else None,
        ceilings=Ceilings(
            nodes=chosen.max_nodes,
            cpu_millis=None if cores is None else cores * 1000,
            launches_per_minute=chosen.max_launches_per_minute,
        ),
        policy=model.Policy(expanders=chosen.expanders),
        prices=Prices.of(chosen.prices),
    )


_PARTS: Final[Mapping[str, Callable[[settings.Settings], dict[str, process.Registration]]]] = {
    WORKERS: _workers,
    CAPACITY: _capacity,
}
