"""The definitions of our kinds, the namespaces of workloads, and the objects that the config declares, in order.

It must never delete a definition unless the config asks for it: that would delete all objects of its kind. It must
never write a status, nor a field of an object that the runtime writes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api import crds
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import InstancePoolSpec
from components import kube, specs
from components.config.clusters import Cluster
from components.config.node_pools import NodePool
from components.nodes import grid
from components.objects import declarations
from components.place import Place

_POOL: Final = "InstancePool"
_AFTER: Final = {"Scope": _POOL, "ClusterQueue": "ResourceFlavor", "LocalQueue": "ClusterQueue"}
"""Kinds whose objects come after all objects of another."""


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
    """The namespaces for workloads, but for the runtime's own, which comes with the runtime.

    Those whose Secrets the runtime reads are made at once: its rights there come before the runtime. The others are
    made after the scopes that they are in, and so go before them: a scope in use is held.
    """

    def __init__(self, name: str, args: NamespacesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Namespaces", name, None, opts)
        self._name, self._args = name, args
        self.by_name: dict[str, pulumi.Resource] = {}
        for namespace in args.config.workload_namespaces():
            if namespace in args.config.autoscaler.readable_namespaces:
                self._add(namespace)
        self.register_outputs({})

    def add_others(self, scopes: Mapping[str, pulumi.Resource]) -> None:
        """Make those that are not there yet, each after its scope."""
        for namespace, scope in self._args.config.workload_namespaces().items():
            if namespace not in self.by_name:
                self._add(namespace, *(made for key, made in scopes.items() if key == scope))

    def _add(self, namespace: str, *after: pulumi.Resource) -> None:
        args = self._args
        if namespace != args.config.autoscaler.namespace:
            opts = pulumi.ResourceOptions(parent=self, provider=args.provider, depends_on=[*args.after, *after])
            self.by_name[namespace] = add_namespace(f"{self._name}.{namespace}", namespace, args.config, opts=opts)


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
    make_namespaces: Callable[[Mapping[str, pulumi.Resource]], Mapping[str, pulumi.Resource]]
    """Makes or labels the namespaces, given the scopes that they come after; returns them and the runtime's own."""
    after: Sequence[pulumi.Resource] = ()
    """Definitions, runtime and policies: an object is checked when it is made, and drained when it goes."""


class CustomResources(pulumi.ComponentResource):
    """Every object that the config declares."""

    def __init__(self, name: str, args: CustomResourcesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:CustomResources", name, None, opts)
        self._name, self._args = name, args
        self._pools: dict[str, NodePool | InstancePoolSpec] = {**args.config.node_pools, **args.config.instance_pools}
        self._made: defaultdict[str, dict[str, pulumi.Resource]] = defaultdict(dict)
        """By kind and name."""
        self.namespaces: Mapping[str, pulumi.Resource] = {}
        declared = list(declarations.custom(args.config, args.place.region, args.grid))
        self._add_all(each for each in declared if "namespace" not in each["metadata"])
        self.namespaces = args.make_namespaces(self._made["Scope"])
        self._add_all(each for each in declared if "namespace" in each["metadata"])
        self.register_outputs({})

    def _add_all(self, declared: Iterable[Manifest]) -> None:
        for each in declared:
            self._made[each["kind"]][each["metadata"]["name"]] = self._add(each)

    def _add(self, declared: Manifest) -> pulumi.Resource:
        kind, key, namespace = declared["kind"], declared["metadata"]["name"], declared["metadata"].get("namespace")
        place = [self.namespaces[namespace]] if namespace in self.namespaces else []
        return kube.make(
            k8s.apiextensions.CustomResource,
            f"{self._name}.{kind.lower()}.{f'{namespace}/' if namespace else ''}{key}",
            pulumi.ResourceOptions(
                parent=self,
                provider=self._args.provider,
                depends_on=[*self._args.after, *self._needed(kind, key), *place],
                custom_timeouts=self._timeouts(key) if kind == _POOL else None,
            ),
            api_version=declared["apiVersion"],
            kind=kind,
            metadata=declared["metadata"],
            spec=declared["spec"],
        )

    def _needed(self, kind: str, key: str) -> Iterable[pulumi.Resource]:
        """Return what must be there before an object, and goes after it."""
        if kind == _POOL:
            account = self._made["ProviderAccount"][self._pools[key].provider_account]
            return [account, *self._args.groups_by_pool.get(key, ())]
        return self._made[_AFTER[kind]].values() if kind in _AFTER else ()

    def _timeouts(self, pool: str) -> pulumi.CustomTimeouts:
        return pulumi.CustomTimeouts(delete=f"{specs.removal_seconds(self._pools[pool].drain_seconds)}s")
