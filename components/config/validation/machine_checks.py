"""Rules between machine groups, pools and the runtime of a cluster's config. Each yields problems with their paths.

What can be told from one Machine alone, such as a type that is not among its machineTypes, the API server refuses by
its rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from autoscaler.api import keys
from components.config.autoscaler import NodeScaler
from components.config.base import Location, Problem
from components.config.validation import queue_checks
from components.config.validation.known import known

if TYPE_CHECKING:
    from autoscaler.api.resources.machines import MachineSpec, NodeSelector
    from autoscaler.api.resources.pools import InstancePoolSpec
    from components.config.clusters import Cluster
    from components.config.node_pools import NodePool


def machines(cluster: Cluster) -> Iterator[Problem]:
    """Check that each node is of one group, that selected nodes can be there, and that somebody provides them."""
    yield from _claimed_once(cluster)
    for group, spec in cluster.machines.items():
        for path, selector in _selectors(group, spec):
            yield from _selectable(cluster, path, selector)
        if spec.provision:
            yield from _provided(cluster, group, spec)


def _claimed_once(cluster: Cluster) -> Iterator[Problem]:
    """Refuse a node, or a selection of nodes, that another group has already."""
    owner: dict[object, str] = {}
    for group, spec in cluster.machines.items():
        for index, entry in enumerate(spec.node_pool):
            field, said = ("name", entry.name) if entry.name else ("nodeSelector", entry.node_selector)
            claimed = entry.name or frozenset((entry.node_selector or {}).items())
            if owner.setdefault(claimed, group) != group:
                message = f"is of machine group {owner[claimed]} already; a node belongs to one group at most"
                yield Problem(path=("machines", group, "nodePool", index, field), value=said, message=message)


def _selectors(group: str, spec: MachineSpec) -> Iterator[tuple[Location, NodeSelector]]:
    for index, entry in enumerate(spec.node_pool):
        if entry.node_selector is not None:
            yield ("machines", group, "nodePool", index, "nodeSelector"), entry.node_selector


def _selectable(cluster: Cluster, path: Location, selector: NodeSelector) -> Iterator[Problem]:
    """Refuse nodes of a pool that is not there, of one whose nodes are for one pod each, or with other labels."""
    name = selector.get(keys.INSTANCE_POOL)
    if name is None:
        return
    pools = {**_ephemeral(cluster.node_pools), **_ephemeral(cluster.instance_pools)}
    here = (*path, keys.INSTANCE_POOL)
    if name not in pools:
        yield Problem(path=here, value=name, message=known("must be a pool of this cluster", pools))
    elif pools[name]:
        message = "must not be an ephemeral pool: each of its nodes is for one pod, and room cannot be held there"
        yield Problem(path=here, value=name, message=message)
    elif name in cluster.node_pools:
        given = queue_checks.node_labels(cluster.node_pools[name])
        for key, value in selector.items():
            if key in given and value != given[key]:
                message = f'must be "{given[key]}", as nodes of pool {name} have it: no node would have both'
                yield Problem(path=(*path, key), value=value, message=message)


def _ephemeral(pools: Mapping[str, NodePool] | Mapping[str, InstancePoolSpec]) -> dict[str, bool]:
    return {name: pool.ephemeral for name, pool in pools.items()}


def _provided(cluster: Cluster, group: str, spec: MachineSpec) -> Iterator[Problem]:
    """Demand of a group that pulls nodes that they can come: a node that is named is there or is not."""
    path = ("machines", group, "provision")
    if cluster.autoscaler.node_scaler is not NodeScaler.NATIVE:
        message = "needs autoscaler.nodeScaler native: no other scaler knows how much room is to be held"
        yield Problem(path=path, value=True, message=message)
    if all(entry.node_selector is None for entry in spec.node_pool):
        message = "needs a nodePool entry with nodeSelector: nodes that are named cannot be pulled from zero"
        yield Problem(path=path, value=True, message=message)
