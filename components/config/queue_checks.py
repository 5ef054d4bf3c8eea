"""Rules between queues and flavors of a cluster's config. Each yields problems with paths that begin there.

What can be told from one ClusterQueue alone, such as borrowing without a cohort, the API server refuses by its rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.config.base import Problem
from components.config.known import known

if TYPE_CHECKING:
    from components.config.clusters import Cluster


def queues(cluster: Cluster) -> Iterator[Problem]:
    """Check that queues name what is there."""
    yield from _cluster_queues(cluster)
    yield from _local_queues(cluster)


def _cluster_queues(cluster: Cluster) -> Iterator[Problem]:
    for queue, spec in cluster.cluster_queues.items():
        for index, group in enumerate(spec.resource_groups):
            for position, flavor in enumerate(group.flavors):
                if flavor.name not in cluster.resource_flavors:
                    yield Problem(
                        path=("clusterQueues", queue, "resourceGroups", index, "flavors", position, "name"),
                        value=flavor.name,
                        message=known("must be one of resourceFlavors", cluster.resource_flavors),
                    )


def _local_queues(cluster: Cluster) -> Iterator[Problem]:
    for namespace, doors in cluster.local_queues.items():
        for queue, local in doors.items():
            if local.cluster_queue not in cluster.cluster_queues:
                yield Problem(
                    path=("localQueues", namespace, queue, "clusterQueue"),
                    value=local.cluster_queue,
                    message=known("must be one of clusterQueues", cluster.cluster_queues),
                )
