"""The definitions of our kinds, the namespaces of workloads, and the objects that the config declares, in order.

It must never delete a definition unless the config asks for it: that would delete all objects of its kind. It must
never write a status, nor a field of an object that the runtime writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s
from pydantic import BaseModel

from autoscaler.api import crds, keys, version
from autoscaler.api.manifests import Manifest
from components import grid, kube, specs
from components.config import checks
from components.config.clusters import Cluster
from components.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsArgs:
    """Which definitions to install, and whether they outlive the stack."""

    provider: k8s.Provider
    """A provider that takes over what is there already: definitions outlive stacks."""
    install_worker_pool: bool = True
    """False leaves the WorkerPool definition to somebody else; one that is there stays."""
    retain: bool = True
    """False lets the definitions go with the stack, and all objects of their kinds with them."""
    after: Sequence[pulumi.Resource] = ()


class Definitions(pulumi.ComponentResource):
    """The definitions of all kinds."""

    def __init__(self, name: str, args: DefinitionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Definitions", name, None, opts)
        self.made: list[pulumi.Resource] = []
        for manifest in crds.all_crds():
            kind = manifest["spec"]["names"]["kind"]
            if kind == "WorkerPool" and not args.install_worker_pool:
                continue
            self.made.append(self._add(f"{name}.{kind.lower()}", manifest, args))
        self.register_outputs({})

    def _add(self, name: str, manifest: Manifest, args: DefinitionsArgs) -> pulumi.Resource:
        opts = pulumi.ResourceOptions(
            parent=self, provider=args.provider, retain_on_delete=args.retain, depends_on=[*args.after]
        )
        metadata = manifest["metadata"]
        return kube.make(
            k8s.apiextensions.v1.CustomResourceDefinition, name, opts, metadata=metadata, spec=manifest["spec"]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacesArgs:
    """The cluster whose namespaces for workloads these are."""

    config: Cluster
    provider: k8s.Provider
    after: Sequence[pulumi.Resource] = ()


class Namespaces(pulumi.ComponentResource):
    """The namespaces for workloads, but for the runtime's own, which comes with the runtime."""

    def __init__(self, name: str, args: NamespacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Namespaces", name, None, opts)
        self.by_name: dict[str, pulumi.Resource] = {
            namespace: add_namespace(
                f"{name}.{namespace}",
                namespace,
                args.config,
                opts=pulumi.ResourceOptions(parent=self, provider=args.provider, depends_on=[*args.after]),
            )
            for namespace in args.config.workload_namespaces()
            if namespace != args.config.autoscaler.namespace
        }
        self.register_outputs({})


def add_namespace(name: str, namespace: str, config: Cluster, *, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Make a namespace, or label one that is there already, touching nothing else of it."""
    marks = specs.namespace_labels(config, namespace)
    if specs.is_existing_namespace(config, namespace):
        return kube.make(k8s.core.v1.NamespacePatch, name, opts, metadata={"name": namespace, "labels": marks})
    labelled = {"name": namespace, "labels": {**specs.STAMP, **marks}}
    return kube.make(k8s.core.v1.Namespace, name, opts, metadata=labelled)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResourcesArgs:
    """What the config declares, and what must be there before."""

    config: Cluster
    place: Place
    provider: k8s.Provider
    grid: grid.Grid
    groups_by_pool: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)
    """The Auto Scaling groups of each node pool: an InstancePool is removed, and so drained, before they are."""
    namespaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    """The namespaces that the stack makes or labels, the runtime's own included."""
    after: Sequence[pulumi.Resource] = ()
    """Definitions, runtime and policies: an object is checked when it is made, and drained when it goes."""


class CustomResources(pulumi.ComponentResource):
    """Every object that the config declares."""

    def __init__(self, name: str, args: CustomResourcesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:CustomResources", name, None, opts)
        self._name, self._args = name, args
        config = args.config
        accounts = {checks.DEFAULT_ACCOUNT: specs.account(args.place.region), **_declared(config.provider_accounts)}
        made = {key: self._add("ProviderAccount", key, spec) for key, spec in accounts.items()}
        pools = [*self._node_pools(made), *self._instance_pools(made)]
        for key, scope in config.scopes.items():
            spec = {"pools": [specs.declared(pool) for pool in scope.pools]}
            self._add("Scope", key, spec, after=pools)
        flavors = self._add_all("ResourceFlavor", _declared(config.resource_flavors))
        queues = self._add_all("ClusterQueue", _declared(config.cluster_queues), after=flavors)
        for namespace, doors in config.local_queues.items():
            self._add_all("LocalQueue", _declared(doors), namespace=namespace, after=queues)
        for namespace, workers in config.worker_pools.items():
            self._add_all("WorkerPool", _declared(workers), namespace=namespace)
        for key, machine in config.machines.items():
            self._add("Machine", key, specs.declared(machine), labels={keys.MACHINE_GROUP: key})
        self.register_outputs({})

    def _node_pools(self, accounts: Mapping[str, pulumi.Resource]) -> Iterable[pulumi.Resource]:
        for key, pool in self._args.config.node_pools.items():
            groups = self._args.groups_by_pool.get(key, ())
            spec = specs.instance_pool(pool, self._args.grid.of_pool(key))
            yield self._add_pool(key, spec, pool.drain_seconds, after=[accounts[pool.provider_account], *groups])

    def _instance_pools(self, accounts: Mapping[str, pulumi.Resource]) -> Iterable[pulumi.Resource]:
        for key, pool in self._args.config.instance_pools.items():
            spec = specs.declared(pool)
            yield self._add_pool(key, spec, pool.drain_seconds, after=[accounts[pool.provider_account]])

    def _add_pool(
        self, key: str, spec: Manifest, drain_seconds: int, *, after: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        delete = f"{specs.removal_seconds(drain_seconds)}s"
        labels = specs.pool_labels(self._args.config, key, spec)
        timeouts = pulumi.CustomTimeouts(delete=delete)
        return self._add("InstancePool", key, spec, labels=labels, after=after, timeouts=timeouts)

    def _add_all(
        self,
        kind: str,
        declared: Mapping[str, Manifest],
        *,
        namespace: str | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> list[pulumi.Resource]:
        return [self._add(kind, key, spec, namespace=namespace, after=after) for key, spec in declared.items()]

    def _add(  # noqa: PLR0913  # an object has so many parts
        self,
        kind: str,
        key: str,
        spec: Manifest,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: Sequence[pulumi.Resource] = (),
        timeouts: pulumi.CustomTimeouts | None = None,
    ) -> pulumi.Resource:
        args = self._args
        place = [args.namespaces[namespace]] if namespace and namespace in args.namespaces else []
        metadata = {
            "name": key,
            **({"namespace": namespace} if namespace else {}),
            "labels": {"app.kubernetes.io/part-of": "sluice", **(labels or {})},
        }
        return kube.make(
            k8s.apiextensions.CustomResource,
            f"{self._name}.{kind.lower()}.{f'{namespace}/' if namespace else ''}{key}",
            pulumi.ResourceOptions(
                parent=self,
                provider=args.provider,
                depends_on=[*args.after, *after, *place],
                custom_timeouts=timeouts,
            ),
            api_version=version.GROUP_VERSION,
            kind=kind,
            metadata=metadata,
            spec=spec,
        )


def _declared(models: Mapping[str, BaseModel]) -> dict[str, Manifest]:
    return {key: specs.declared(model) for key, model in models.items()}
