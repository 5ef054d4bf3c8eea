"""Group lists: a ConfigMap for each pool that says which node groups it has, and goes before any of these does.

A list is never changed. When the pool's groups change, another one is made under another name and the old one is
deleted, after all else was made. The runtime holds it by a finalizer until those of its groups that no other list has
are drained; then Pulumi deletes them. A fixed name would not do: the new list must be there while the old one goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api import keys
from autoscaler.api.settings import group_list
from components import kube, specs
from components.config.clusters import Cluster
from components.nodes import grid
from components.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListsArgs:
    """The pools and their groups, and who drains them."""

    config: Cluster
    place: Place
    provider: k8s.Provider
    grid: grid.Grid
    groups_by_pool: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)
    """The Auto Scaling groups of each node pool."""
    after: Sequence[pulumi.Resource] = ()
    """The runtime, which must still be there when a list goes."""


class GroupLists(pulumi.ComponentResource):
    """A list for each node pool."""

    def __init__(self, name: str, args: GroupListsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:GroupLists", name, None, opts)
        for pool, groups in args.groups_by_pool.items():
            self._add(f"{name}.{pool}", pool, groups, args)
        self.register_outputs({})

    def _add(self, name: str, pool: str, groups: Sequence[pulumi.Resource], args: GroupListsArgs) -> None:
        drain_seconds = args.config.node_pools[pool].drain_seconds
        metadata = {
            "namespace": args.config.autoscaler.namespace,
            "labels": {"app.kubernetes.io/part-of": "sluice", keys.GROUP_LIST: pool},
        }
        opts = pulumi.ResourceOptions(
            parent=self,
            provider=args.provider,
            depends_on=[*args.after, *groups],
            replace_on_changes=["data"],
            custom_timeouts=pulumi.CustomTimeouts(delete=f"{specs.removal_seconds(drain_seconds)}s"),
        )
        data = {group_list.FIELD: listed(pool, args).to_json()}
        kube.make(k8s.core.v1.ConfigMap, name, opts, metadata=metadata, data=data, immutable=True)


def listed(pool: str, args: GroupListsArgs) -> group_list.GroupList:
    """Return the list of a pool, in an order that depends on nothing else."""
    groups = tuple(sorted(spec.key for spec in args.grid.of_pool(pool)))
    return group_list.GroupList(cluster=args.place.cluster, pool=pool, groups=groups)
