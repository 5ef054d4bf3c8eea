"""Everything that a stack puts into its cluster for users, as objects in the order of their creation. Pure.

`CustomResources` and `Namespaces` send it through the engine; here it is for them, and for those who need it without an
engine. Definitions, admission policies and the runtime itself are not among it.
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from components import specs
from components.config.clusters import Cluster
from components.config.validation import checks
from components.nodes import grid


def objects(config: Cluster, region: str, groups: grid.Grid) -> Iterator[Manifest]:
    """Write the namespaces for workloads, accounts, pools, scopes, queues, worker pools and machines of a cluster."""
    for namespace in config.workload_namespaces():
        yield _namespace(config, namespace)
    yield from custom(config, region, groups)


def custom(config: Cluster, region: str, groups: grid.Grid) -> Iterator[Manifest]:
    """Write the objects of our own kinds that a cluster's config declares."""
    accounts = {checks.DEFAULT_ACCOUNT: specs.account(region), **_declared(config.provider_accounts)}
    yield from _all("ProviderAccount", accounts)
    node_pools = {key: specs.instance_pool(pool, groups.of_pool(key)) for key, pool in config.node_pools.items()}
    for key, spec in {**node_pools, **_declared(config.instance_pools)}.items():
        yield _object("InstancePool", key, spec, labels=specs.pool_labels(config, key, spec))
    scopes = {key: {"pools": [specs.declared(pool) for pool in one.pools]} for key, one in config.scopes.items()}
    yield from _all("Scope", scopes)
    yield from _all("ResourceFlavor", _declared(config.resource_flavors))
    yield from _all("ClusterQueue", _declared(config.cluster_queues))
    for namespace, doors in config.local_queues.items():
        yield from _all("LocalQueue", _declared(doors), namespace=namespace)
    for namespace, workers in config.worker_pools.items():
        yield from _all("WorkerPool", _declared(workers), namespace=namespace)
    for key, machine in config.machines.items():
        yield _object("Machine", key, specs.declared(machine), labels={keys.MACHINE_GROUP: key})


def _namespace(config: Cluster, name: str) -> Manifest:
    labels = {**specs.STAMP, **specs.namespace_labels(config, name)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _all(kind: str, declared: Mapping[str, Manifest], *, namespace: str | None = None) -> Iterator[Manifest]:
    return (_object(kind, key, spec, namespace=namespace) for key, spec in declared.items())


def _object(
    kind: str, name: str, spec: Manifest, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
) -> Manifest:
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {"app.kubernetes.io/part-of": "sluice", **(labels or {})},
    }
    return {"apiVersion": version.GROUP_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _declared(models: Mapping[str, BaseModel]) -> dict[str, Manifest]:
    return {key: specs.declared(model) for key, model in models.items()}
