"""Rules between queues, flavors and pools of a cluster's config. Each yields problems with paths that begin there.

What can be told from one ClusterQueue alone, such as borrowing without a cohort, the API server refuses by its rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from autoscaler.api import keys
from components.config.base import Problem
from components.config.validation.known import known

if TYPE_CHECKING:
    from components.config.clusters import Cluster
    from components.config.node_pools import NodePool

ATTEMPTS: Final = 2
"""So many instances may fail to register, one after the other, before a job is taken for one that cannot start."""


def queues(cluster: Cluster) -> Iterator[Problem]:
    """Check that queues and flavors name what is there, and that admitted jobs have the time to start."""
    yield from _cluster_queues(cluster)
    yield from _local_queues(cluster)
    yield from _flavors(cluster)
    yield from _pods_ready_timeout(cluster)


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


def _flavors(cluster: Cluster) -> Iterator[Problem]:
    """Refuse a flavor of a pool that is not there, or of a pool whose nodes have another value of a label."""
    pools = {*cluster.node_pools, *cluster.instance_pools}
    for name, flavor in cluster.resource_flavors.items():
        here = ("resourceFlavors", name, "nodeLabels")
        pool = flavor.node_labels.get(keys.INSTANCE_POOL)
        if pool is not None and pool not in pools:
            message = known("must be a pool of this cluster", pools)
            yield Problem(path=(*here, keys.INSTANCE_POOL), value=pool, message=message)
        given = node_labels(cluster.node_pools[pool]) if pool in cluster.node_pools else {}
        for key, value in flavor.node_labels.items():
            if key in given and value != given[key]:
                message = f'must be "{given[key]}", as nodes of pool {pool} have it: no node would have both'
                yield Problem(path=(*here, key), value=value, message=message)


def node_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that each node of a pool has, whatever its zone and type."""
    tags = dict(tag.partition("=")[::2] for tag in pool.tags)
    return {
        **pool.labels,
        **{keys.tag_label(tag): value for tag, value in tags.items()},
        keys.NODE_TYPE: pool.node_type,
    }


def _pods_ready_timeout(cluster: Cluster) -> Iterator[Problem]:
    """Demand the time for a second instance where the first does not register, if jobs are queued here at all."""
    given = "pods_ready_timeout_minutes" in cluster.autoscaler.model_fields_set
    if not given and not cluster.cluster_queues:
        return
    timeouts = {
        f"{field}.{name}.registrationTimeoutSeconds": pool.registration_timeout_seconds
        for field, pools in (("nodePools", cluster.node_pools), ("instancePools", cluster.instance_pools))
        for name, pool in pools.items()
    }
    if not timeouts:
        return
    slowest = max(timeouts, key=lambda key: timeouts[key])
    minutes, least = cluster.autoscaler.pods_ready_timeout_minutes, math.ceil(ATTEMPTS * timeouts[slowest] / 60)
    if minutes < least:
        yield Problem(
            path=("autoscaler", "podsReadyTimeoutMinutes"),
            value=minutes,
            message=f"must be at least {least}, twice {slowest}, which is {timeouts[slowest]}: one instance may fail "
            "to start before a job is taken for one that cannot",
        )
