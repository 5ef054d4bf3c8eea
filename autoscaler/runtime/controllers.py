"""What runs under the settings, and the world outside that it reaches: real queues and clouds. It starts nothing."""

from collections.abc import Iterable, Mapping
from functools import partial

import structlog

from autoscaler import control
from autoscaler.api import controllers
from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.cloud import port as cloud
from autoscaler.cloud.aws import interruption_queue
from autoscaler.options import Options
from autoscaler.queues import access, endpoints, lookups, sources, sqs
from autoscaler.runtime import account_credentials, process, registry, settings

log = structlog.get_logger()


def registrations(chosen: settings.Settings) -> Mapping[str, process.Registration]:
    """Return what runs under these settings, by name."""
    return registry.registrations(_able(chosen), options(chosen), classes=chosen.classes)


def _able(chosen: settings.Settings) -> Iterable[str]:
    """Leave out what cannot run: without the cluster's name in AWS there are no node groups to scale."""
    for each in controllers.chosen(chosen.controllers):
        if each.needs_cluster and chosen.cluster is None:
            advice = "give the cluster's name in AWS with --cluster to scale its node groups"
            log.warning("controller_off", controller=each.name, advice=advice)
        else:
            yield each.name


def options(chosen: settings.Settings) -> Options:
    """Return how controllers run under these settings, and what they reach."""
    queue = chosen.interruption_queue
    return Options(
        open_queues=lambda context: _open_queues(chosen, context.api_server),
        open_cloud=partial(_open_cloud, chosen.cluster or ""),
        open_interruptions=None
        if queue is None
        else partial(interruption_queue.open_queue, queue, region=chosen.aws_region),
        scope=chosen.scope,
        scaling=chosen.scaling,
        elastic_jobs=chosen.queued_jobs.feature_gates.elastic_jobs,
        pods_ready_timeout_seconds=chosen.queued_jobs.pods_ready_timeout_seconds,
        sleeper_image=chosen.sleeper_image,
    )


async def _open_cloud(
    cluster: str, context: control.ControllerContext, name: str, spec: ProviderAccountSpec
) -> cloud.Cloud:
    return await account_credentials.open_cloud(context.api, cluster, name, spec)


def _open_queues(chosen: settings.Settings, api_server: str) -> sources.Sources:
    policy = endpoints.Policy(
        api_servers=tuple(endpoints.Server.of(url) for url in (api_server, *chosen.api_servers)),
        allow_loopback=chosen.allow_loopback_queues,
        queue_access=access.Access(grants=chosen.queue_access.root, cluster_domain=lookups.cluster_domain()),
    )
    override = None
    if chosen.aws_endpoint is not None and chosen.aws_region is not None:
        override = sqs.Account(endpoint=chosen.aws_endpoint, region=chosen.aws_region)
    return sources.Sources.open(policy, aws=override)
