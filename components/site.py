"""One cluster of the stack, whole: from its network to the objects in it, each after what it needs.

The order is that of the design: cluster, access entries, networking add-ons, services' groups, the services' add-ons,
definitions, the runtime's rights, its Deployment, admission policies, custom resources and group lists, last the drain
object. Going,
it is the reverse: while work ends, everything it needs is still there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.access import viewers
from components.config.autoscaler import NodeScaler
from components.config.clusters import Cluster
from components.config.node_pools import SERVICES
from components.eks import addons, cluster, kubeconfigs, node_role, storage
from components.loading import Loaded
from components.monitoring import dashboards
from components.networking import network
from components.nodes import grid, interruptions, node_pool
from components.objects import admission_policies, custom_resources
from components.place import Place
from components.runtime import drain_object, group_lists, image, runtime
from components.third_party import cluster_autoscaler, gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteArgs:
    """Which cluster of the stack."""

    loaded: Loaded
    key: str
    image_parameters: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Where the machine images of the stack's pipelines are told, by pipeline."""

    @property
    def config(self) -> Cluster:
        return self.loaded.stack.config.clusters[self.key]


class Site(pulumi.ComponentResource):
    """A cluster and everything in it."""

    def __init__(self, name: str, args: SiteArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Site", name, None, opts)
        self._name, self._args, self._config = name, args, args.config
        self._place = Place.of(args.loaded.stack, args.key)
        self._grid = args.loaded.grids[args.key]
        self._networking: Sequence[pulumi.Resource] = ()  # the add-ons without which no node is Ready
        self._ready: Sequence[pulumi.Resource] = ()  # what carries services: their groups, and the add-ons on them
        self._child = pulumi.ResourceOptions(parent=self)
        self._needed: list[pulumi.Resource] = []  # what nobody may take away while work still ends
        self._network = self._make_network()
        self._access = self._make_cluster()
        pools = self._make_pools()
        definitions = self._make_definitions()
        namespaces = self._make_namespaces()
        running = self._make_runtime(namespaces.by_name, after=[*definitions, *self._ready])
        self._make_conveniences()
        policies = self._make_policies(after=[*definitions, running.deployment])
        self._make_node_scaler()
        self._make_gpu_support()
        self._dashboard_url = self._make_dashboards(running)
        made = self._make_objects(pools, namespaces, running, after=[*definitions, running.deployment, *policies])
        self._make_group_lists(pools, after=[running])
        self._make_drain_object(after=[running, *made.values(), *policies, *self._needed])
        self.register_outputs(self.outputs)

    @property
    def outputs(self) -> dict[str, Any]:
        """What a person needs to know of the cluster."""
        return {
            "name": self._place.cluster,
            "kubeconfigCommand": self._access.kubeconfig_command,
            "dashboardUrl": self._dashboard_url,
            "autoScalingGroups": grid.table(self._grid.groups),
        }

    def _make_network(self) -> network.Network | None:
        if self._config.network is None:
            return None
        args = network.NetworkArgs(
            place=self._place,
            config=self._config.network,
            zones=self._grid.zones(),
            lasting_zones=self._grid.lasting_zones(),
            control_plane_zones=self._args.loaded.control_plane_zones(self._args.key),
            protect=self._config.protect,
        )
        return network.Network(self._name, args, self._child)

    def _make_cluster(self) -> cluster.Access:
        place, config, existing = self._place, self._config, self._config.existing
        if existing is not None:
            known = cluster.ExistingClusterArgs(place=place, config=config, existing=existing)
            return cluster.ExistingCluster(self._name, known, self._child).access
        if self._network is None:
            raise ValueError(f"cluster {place.cluster}: a new cluster needs a network")
        chosen = self._args.loaded.stack.config.aws
        caller = kubeconfigs.Caller(profile=chosen.profile, role_arn=chosen.assume_role)
        args = cluster.EksClusterArgs(place=place, config=config, network=self._network, caller=caller)
        made = cluster.EksCluster(self._name, args, self._child)
        given = addons.AddonsArgs(place=place, cluster=made.identity, versions=config.addons, after=made.entries)
        self._networking = addons.NetworkingAddons(f"{self._name}.networking", given, self._child).ready
        return made.connect(after=self._networking)

    def _make_pools(self) -> dict[str, Sequence[pulumi.Resource]]:
        """Make all pools, and on those of the services the add-ons they carry; return each pool's groups."""
        network_made, pools = self._network, self._config.node_pools
        if network_made is None or not pools:
            return {}
        joining = node_role.NodeRoleArgs(place=self._place, access=self._access, cni=bool(self._config.node_role.cni))
        role = node_role.NodeRole(f"{self._name}.nodes", joining, self._child)
        services = [key for key, pool in pools.items() if pool.node_type == SERVICES]
        groups = {
            key: self._make_pool(key, network_made, role, after=self._networking)
            for key in (*services, *(key for key in pools if key not in services))
        }
        carrying = [group for key in services for group in groups[key]]
        self._ready = [*carrying, *self._make_services_addons(after=[*self._networking, *carrying])]
        return groups

    def _make_pool(
        self, key: str, made: network.Network, role: node_role.NodeRole, *, after: Sequence[pulumi.Resource]
    ) -> Sequence[pulumi.Resource]:
        pool = self._config.node_pools[key]
        pipeline = pool.image.pipeline if pool.image else None
        args = node_pool.NodePoolArgs(
            place=self._place,
            pool_name=key,
            config=pool,
            groups=self._grid.of_pool(key),
            access=self._access,
            network=made,
            node_role=role,
            release=self._config.node_image.release if self._config.node_image else None,
            image_parameter=self._args.image_parameters[pipeline] if pipeline else None,
            alarms=self._args.loaded.stack.config.alarms,
            after=after,
        )
        return node_pool.NodePool(f"{self._name}.pool.{key}", args, self._child).ready

    def _make_services_addons(self, *, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Install add-ons on a new cluster; one that is there has its own."""
        if self._config.existing is not None:
            return ()
        args = addons.AddonsArgs(place=self._place, cluster=self._access, versions=self._config.addons, after=after)
        return addons.ServicesAddons(f"{self._name}.services", args, self._child).ready

    def _make_definitions(self) -> Sequence[pulumi.Resource]:
        args = custom_resources.DefinitionsArgs(
            provider=self._access.definitions,
            install_worker_pool=self._config.autoscaler.crds.install_worker_pool,
            retain=not self._config.destroy_custom_resources,
            after=[*self._access.ready, *self._ready],
        )
        return custom_resources.Definitions(f"{self._name}.definitions", args, self._child).made

    def _make_namespaces(self) -> custom_resources.Namespaces:
        args = custom_resources.NamespacesArgs(
            config=self._config, provider=self._access.kubernetes, after=self._access.ready
        )
        return custom_resources.Namespaces(f"{self._name}.namespaces", args, self._child)

    def _make_runtime(
        self, namespaces: Mapping[str, pulumi.Resource], *, after: Sequence[pulumi.Resource]
    ) -> runtime.Runtime:
        queue = self._make_interruptions()
        built = image.RuntimeImage(
            f"{self._name}.image",
            image.ImageArgs(
                place=self._place, config=self._config.autoscaler.container.image, platforms=self._platforms()
            ),
            self._child,
        )
        args = runtime.RuntimeArgs(
            config=self._config,
            place=self._place,
            access=self._access,
            image=built.reference,
            prices=self._args.loaded.prices[self._args.key],
            interruption_queue_url=queue.queue_url if queue else None,
            interruption_queue_arn=queue.queue_arn if queue else None,
            namespaces=dict(namespaces),
            after=after,
        )
        return runtime.Runtime(f"{self._name}.runtime", args, self._child)

    def _platforms(self) -> tuple[str, ...]:
        """Name the platforms of the nodes that the runtime runs on."""
        services = [
            group
            for key, pool in self._config.node_pools.items()
            if pool.node_type == SERVICES
            for group in self._grid.of_pool(key)
        ]
        return tuple(sorted({f"linux/{group.architecture}" for group in services})) or ("linux/amd64",)

    def _make_interruptions(self) -> interruptions.Interruptions | None:
        """Tell the runtime what happens to instances, where there are any that it scales."""
        if not self._grid.groups or self._config.autoscaler.node_scaler is not NodeScaler.NATIVE:
            return None
        args = interruptions.InterruptionsArgs(place=self._place)
        made = interruptions.Interruptions(f"{self._name}.interruptions", args, self._child)
        self._needed.append(made)
        return made

    def _make_policies(self, *, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        args = admission_policies.AdmissionPoliciesArgs(
            provider=self._access.kubernetes, runtime=self._config.autoscaler, after=after
        )
        return admission_policies.AdmissionPolicies(f"{self._name}.policies", args, self._child).made

    def _make_conveniences(self) -> None:
        """Give a new cluster a default StorageClass, and its viewers something to see."""
        if self._config.existing is None:
            disks = storage.StorageArgs(provider=self._access.kubernetes, after=self._ready)
            self._needed.append(storage.Storage(f"{self._name}.storage", disks, self._child))
        if self._access.eks_name is not None:
            seen = viewers.ViewersArgs(config=self._config, provider=self._access.kubernetes, after=self._access.ready)
            viewers.Viewers(f"{self._name}.viewers", seen, self._child)

    def _make_node_scaler(self) -> None:
        if self._config.autoscaler.node_scaler is NodeScaler.CLUSTER_AUTOSCALER:
            args = cluster_autoscaler.ClusterAutoscalerArgs(
                config=self._config, place=self._place, access=self._access, after=self._ready
            )
            made = cluster_autoscaler.ClusterAutoscaler(f"{self._name}.cluster-autoscaler", args, self._child)
            self._needed.append(made)

    def _make_gpu_support(self) -> None:
        wanted = self._config.gpu_support if self._config.gpu_support is not None else self._config.existing is None
        if wanted and any(group.gpus for group in self._grid.groups):
            args = gpu.GpuSupportArgs(access=self._access, after=self._ready)
            self._needed.append(gpu.GpuSupport(f"{self._name}.gpu", args, self._child))

    def _make_dashboards(self, running: runtime.Runtime) -> str | None:
        if not self._config.monitoring.dashboards:
            return None
        args = dashboards.DashboardsArgs(
            config=self._config, place=self._place, access=self._access, namespace=running.namespace
        )
        return dashboards.Dashboards(f"{self._name}.dashboards", args, self._child).url

    def _make_objects(
        self,
        groups: Mapping[str, Sequence[pulumi.Resource]],
        namespaces: custom_resources.Namespaces,
        running: runtime.Runtime,
        *,
        after: Sequence[pulumi.Resource],
    ) -> Mapping[str, pulumi.Resource]:
        """Make what the config declares, and the namespaces that come after scopes; return all namespaces."""

        def add_namespaces(scopes: Mapping[str, pulumi.Resource]) -> Mapping[str, pulumi.Resource]:
            namespaces.add_others(scopes)
            return {**namespaces.by_name, self._config.autoscaler.namespace: running.namespace}

        args = custom_resources.CustomResourcesArgs(
            config=self._config,
            place=self._place,
            provider=self._access.kubernetes,
            grid=self._grid,
            groups_by_pool=groups,
            make_namespaces=add_namespaces,
            after=after,
        )
        made = custom_resources.CustomResources(f"{self._name}.objects", args, self._child)
        self._needed.append(made)
        return made.namespaces

    def _make_group_lists(
        self, groups: Mapping[str, Sequence[pulumi.Resource]], *, after: Sequence[pulumi.Resource]
    ) -> None:
        """List the groups of every pool, so that those that leave it are drained before they go."""
        args = group_lists.GroupListsArgs(
            config=self._config,
            place=self._place,
            provider=self._access.kubernetes,
            grid=self._grid,
            groups_by_pool=groups,
            after=after,
        )
        self._needed.append(group_lists.GroupLists(f"{self._name}.groups", args, self._child))

    def _make_drain_object(self, *, after: Sequence[pulumi.Resource]) -> None:
        args = drain_object.DrainObjectArgs(config=self._config, provider=self._access.kubernetes, after=after)
        drain_object.DrainObject(f"{self._name}.drain-object", args, self._child)
