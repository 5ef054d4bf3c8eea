"""Rules between the parts of a cluster's config. Each yields problems with paths that begin at the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from autoscaler.api import keys, names
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.resources.types import TaintEffect
from components import userdata
from components.config.base import Location, Problem, absent
from components.config.node_pools import SERVICES, SERVICES_TAINT
from components.config.validation import machine_checks, queue_checks, scaler_checks
from components.config.validation.known import known

if TYPE_CHECKING:
    from components.config.clusters import Cluster
    from components.config.node_pools import NodePool

RETENTION_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922)
"""The periods that CloudWatch knows, up to eight years."""
DEFAULT_ACCOUNT: Final = "aws"


def services_pool(cluster: Cluster) -> Iterator[Problem]:
    """Demand a place for the runtime and the cluster's own services, which nothing could start from zero."""
    services = {name: pool for name, pool in cluster.node_pools.items() if pool.node_type == SERVICES}
    if not services:
        yield absent(
            "nodePools", message=f"must have a pool with nodeType {SERVICES}, where the cluster's services run"
        )
    elif not any(pool.min_per_group and pool.capacity_type is CapacityType.ON_DEMAND for pool in services.values()):
        name, pool = next(iter(services.items()))
        yield Problem(
            path=("nodePools", name, "minPerGroup"),
            value=pool.min_per_group,
            message=f"must be 1 or more in one on-demand pool with nodeType {SERVICES}: the runtime runs there",
        )


def node_pool(name: str, pool: NodePool, *, new_cluster: bool) -> Iterator[Problem]:
    """Check a pool's labels, taints and tags against what we set ourselves and what a kubelet may set."""
    here = ("nodePools", name)
    if pool.node_type == SERVICES:
        yield from _for_services(here, pool)
    for label, reason in userdata.refused_labels(pool.labels).items():
        yield Problem(path=(*here, "labels", label), value=pool.labels[label], message=reason)
    for key in pool.labels:
        if key in _OWN or key.startswith(_PREFIXES):
            yield Problem(path=(*here, "labels", key), value=pool.labels[key], message="is set by Sluice itself")
    for index, taint in enumerate(pool.taints):
        if taint.key in _OWN or taint.key.startswith(_PREFIXES):
            yield Problem(path=(*here, "taints", index, "key"), value=taint.key, message="is set by Sluice itself")
    yield from _taints(here, pool)
    yield from _startup_taints(here, pool, new_cluster=new_cluster)
    tags = [tag.partition("=")[0] for tag in pool.tags]
    for index, tag in enumerate(tags):
        if tag in tags[:index]:
            yield Problem(path=(*here, "tags", index), value=pool.tags[index], message=f"gives tag {tag} a second time")


def _for_services(here: tuple[str, ...], pool: NodePool) -> Iterator[Problem]:
    """Demand that the cluster's services can always run there."""
    if pool.ephemeral or not pool.instance_wide:
        message = f"must be neither ephemeral nor of one scope alone: nodeType {SERVICES} is for the cluster's services"
        yield absent(*here, message=message)
    if not pool.enabled:
        message = f"must be true: the cluster's services run on nodeType {SERVICES}"
        yield Problem(path=(*here, "enabled"), value=False, message=message)


def _taints(here: tuple[str, ...], pool: NodePool) -> Iterator[Problem]:
    """Refuse taints that a tag could not tell, and those that would keep the cluster's services away."""
    seen: set[str] = set()
    for index, taint in enumerate(pool.taints):
        path: Location = (*here, "taints", index)
        if taint.key in seen:
            yield Problem(
                path=(*path, "key"), value=taint.key, message="is given twice; a group's tags tell one of them only"
            )
        seen.add(taint.key)
        is_hard = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if pool.node_type == SERVICES and is_hard and taint.key != SERVICES_TAINT.key:
            message = (
                f"must be PreferNoSchedule: the cluster's services run on nodeType {SERVICES} and tolerate "
                f"{SERVICES_TAINT.key} alone"
            )
            yield Problem(path=(*path, "effect"), value=str(taint.effect), message=message)


def _startup_taints(here: tuple[str, ...], pool: NodePool, *, new_cluster: bool) -> Iterator[Problem]:
    """Refuse start-up taints that pods would have to tolerate after all, and those that keep none away."""
    seen = {taint.key for taint in pool.taints_in(new_cluster=new_cluster)}
    for index, taint in enumerate(pool.startup_taints):
        path: Location = (*here, "startupTaints", index)
        if taint.key in _OWN or taint.key.startswith(_PREFIXES):
            yield Problem(path=(*path, "key"), value=taint.key, message="is set by Sluice itself")
        if taint.key in seen:
            message = "is given twice: a node has it from its start to its end, or loses it by itself"
            yield Problem(path=(*path, "key"), value=taint.key, message=message)
        seen.add(taint.key)
        if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
            message = "must be NoSchedule or NoExecute: PreferNoSchedule keeps no pod away"
            yield Problem(path=(*path, "effect"), value=str(taint.effect), message=message)


_OWN: Final = frozenset({keys.NODE_TYPE, keys.ZONE, keys.ZONE_BETA, keys.REGION, keys.INSTANCE_TYPE, keys.ARCHITECTURE})
_PREFIXES: Final = (keys.PREFIX, keys.tag_label(""), keys.machine_label(""))


def references(cluster: Cluster) -> Iterator[Problem]:
    """Check that what one part names, another part has."""
    yield from _pools(cluster)
    yield from _scopes(cluster)
    yield from queue_checks.queues(cluster)
    yield from _workers(cluster)
    yield from machine_checks.machines(cluster)
    yield from scaler_checks.upstream(cluster)
    yield from _secret_namespaces(cluster)
    yield from _system_namespaces(cluster)


def _pools(cluster: Cluster) -> Iterator[Problem]:
    accounts = {DEFAULT_ACCOUNT, *cluster.provider_accounts}
    for field, pools in (("nodePools", cluster.node_pools), ("instancePools", cluster.instance_pools)):
        for name, pool in pools.items():
            if pool.provider_account not in accounts:
                yield Problem(
                    path=(field, name, "providerAccount"),
                    value=pool.provider_account,
                    message=known("must be one of providerAccounts", accounts),
                )
    for name in cluster.instance_pools.keys() & cluster.node_pools.keys():
        yield absent("instancePools", name, message="is the name of a node pool too; choose another one")
    for name, account in cluster.provider_accounts.items():
        if name == DEFAULT_ACCOUNT and account.provider != "aws":
            path = ("providerAccounts", name, "provider")
            yield Problem(
                path=path,
                value=account.provider,
                message="must be aws, which this account always is; choose another name",
            )
        if account.provider == "aws" and account.region is None:
            yield absent("providerAccounts", name, "region", message="must be given where provider is aws")


def _scopes(cluster: Cluster) -> Iterator[Problem]:
    pools = {**cluster.node_pools, **cluster.instance_pools}
    users: dict[str, list[str]] = {name: [] for name in pools}
    owner: dict[str, str] = {}
    for scope, declared in cluster.scopes.items():
        listed: set[str] = set()
        for index, pool in enumerate(declared.pools):
            here = ("scopes", scope, "pools", index, "name")
            if pool.name not in pools:
                yield Problem(path=here, value=pool.name, message=known("must be a pool of this cluster", pools))
            elif pool.name in listed:
                yield Problem(path=here, value=pool.name, message="is listed twice")
            else:
                users[pool.name].append(scope)
            listed.add(pool.name)
        for index, namespace in enumerate(declared.namespaces):
            if namespace in owner:
                yield Problem(
                    path=("scopes", scope, "namespaces", index),
                    value=namespace,
                    message=f"is in scope {owner[namespace]} already; a namespace may be in one scope only",
                )
            owner.setdefault(namespace, scope)
    yield from _exclusive(cluster, users)


def _exclusive(cluster: Cluster, users: dict[str, list[str]]) -> Iterator[Problem]:
    for field, pools in (("nodePools", cluster.node_pools), ("instancePools", cluster.instance_pools)):
        for name, pool in pools.items():
            scopes = users[name]
            if not pool.instance_wide and len(scopes) != 1:
                told = f"it is listed by {', '.join(scopes)}" if scopes else "none lists it, so nobody could use it"
                yield Problem(
                    path=(field, name, "instanceWide"),
                    value=False,
                    message=f"needs exactly one scope that lists the pool; {told}",
                )


def _workers(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = cluster.autoscaler
    for namespace, pools in cluster.worker_pools.items():
        if autoscaler.scope is WorkerScope.NAMESPACE and namespace != autoscaler.namespace:
            yield absent(
                "workerPools",
                namespace,
                message=f"would be handled by nobody: autoscaler.scope is namespace, which is {autoscaler.namespace}; "
                "set it to cluster, or move the pools",
            )
        for name in pools:
            if len(name) > names.WORKER_POOL_MAX or "." in name:
                yield absent(
                    "workerPools",
                    namespace,
                    name,
                    message=f"must have at most {names.WORKER_POOL_MAX} characters and no dots",
                )


def _secret_namespaces(cluster: Cluster) -> Iterator[Problem]:
    """Demand that a new cluster has the namespaces in which the runtime gets a role."""
    if cluster.existing is not None:
        return
    there = {*cluster.workload_namespaces(), cluster.autoscaler.namespace}
    for index, namespace in enumerate(cluster.autoscaler.secret_namespaces or ()):
        if namespace not in there:
            path = ("autoscaler", "secretNamespaces", index)
            yield Problem(path=path, value=namespace, message=known("must be one of this cluster's namespaces", there))


def _system_namespaces(cluster: Cluster) -> Iterator[Problem]:
    """Refuse the cluster's own namespaces: our Pod Security labels there would stop the cluster's own pods."""
    named: dict[Location, str] = {("autoscaler", "namespace"): cluster.autoscaler.namespace}
    for scope, declared in cluster.scopes.items():
        named |= {("scopes", scope, "namespaces", at): one for at, one in enumerate(declared.namespaces)}
    for field, keyed in (
        ("namespaces", cluster.namespaces),
        ("localQueues", cluster.local_queues),
        ("workerPools", cluster.worker_pools),
    ):
        named |= {(field, name): name for name in keyed}
    for path, name in named.items():
        if name.startswith("kube-"):
            yield absent(*path, message=f"must not be {name}: it is Kubernetes' own, and its pods must not be hindered")
    if cluster.autoscaler.namespace == "default":
        path = ("autoscaler", "namespace")
        yield Problem(path=path, value="default", message="must be one of the runtime's own, which the stack makes")
