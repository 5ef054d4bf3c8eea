"""What the runtime may do in AWS, from config to one IAM document. Pure.

A right is bound to what the config declares: its queues and its provider accounts' roles. A worker pool that asks a
queue which no config declares is told by AWS that it may not.
"""

import re
from typing import Final

from autoscaler.api.resources.worker_pools import SourceType
from components.access import policies
from components.config.clusters import Cluster
from components.place import Place
from components.runtime import deployment

_QUEUE: Final = re.compile(
    r"https://sqs\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<account>[0-9]{12})/(?P<name>[A-Za-z0-9_.-]+)"
)


def document(config: Cluster, place: Place, *, interruption_queue_arn: str | None) -> policies.Document:
    """Write the document; without any right it has no statement, and a role with it would be of no use."""
    bounds = policies.RuntimeBounds(
        interruption_queue_arn=interruption_queue_arn,
        worker_queue_arns=worker_queue_arns(config, place),
        provider_role_arns=provider_role_arns(config),
    )
    return policies.runtime(place, deployment.controllers(config.autoscaler), bounds)


def worker_queue_arns(config: Cluster, place: Place) -> tuple[str, ...]:
    """Name the SQS queues that declared worker pools follow."""
    sources = [pool.queue.source for pools in config.worker_pools.values() for pool in pools.values()]
    found = [_QUEUE.fullmatch(source.endpoint) for source in sources if source.type is SourceType.SQS]
    return tuple(sorted({_arn(match, place.partition) for match in found if match}))


def provider_role_arns(config: Cluster) -> tuple[str, ...]:
    """Name the roles that declared provider accounts are used under."""
    return tuple(sorted({one.role_arn for one in config.provider_accounts.values() if one.role_arn}))


def _arn(match: re.Match[str], partition: str) -> str:
    return f"arn:{partition}:sqs:{match['region']}:{match['account']}:{match['name']}"
