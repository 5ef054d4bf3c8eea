"""The grid: pools x zones x instance types, one node group for each. Pure: config and offerings in, node groups out.

Every (pool, zone, type) that is offered appears exactly once, under a name made of these three alone, so that adding a
pool or a zone never renames another group. What is left out is named; what cannot be is a problem with its path.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys, names, node_resources
from autoscaler.api.resources.types import Taint, TaintEffect
from autoscaler.api.settings.node_groups import TAGS_MAX, NodeGroupKey, NodeGroupSpec
from components.config.autoscaler import NodeScaler
from components.config.base import Problem
from components.config.clusters import Cluster
from components.config.node_pools import NodePool
from components.regions.offerings import InstanceTypeOffer, Offerings

NAME_TAG: Final = "Name"
TAG_KEY_MAX: Final = 128
WARN_PERCENT: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """A zone that a pool's type is left out of, and why."""

    pool: str
    instance_type: str
    zone: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The node groups of a cluster."""

    groups: tuple[NodeGroupSpec, ...]
    omissions: tuple[Omission, ...] = ()
    problems: tuple[Problem, ...] = ()
    """With paths that begin at the cluster. Where there is one, the groups are not to be used."""

    def of_pool(self, pool: str) -> tuple[NodeGroupSpec, ...]:
        return tuple(group for group in self.groups if group.key.pool == pool)

    def zones(self) -> tuple[str, ...]:
        """Name the zones that have a group."""
        return tuple(sorted({group.key.zone for group in self.groups}))

    def lasting_zones(self) -> tuple[str, ...]:
        """Name the zones that have a group which is never empty."""
        return tuple(sorted({group.key.zone for group in self.groups if group.minimum}))


def plan(cluster_name: str, cluster: Cluster, offerings: Offerings, *, tags: Mapping[str, str]) -> Grid:
    """Lay out the node groups of the cluster with this name; `tags` are those of the whole stack."""
    groups: list[NodeGroupSpec] = []
    omissions: list[Omission] = []
    problems: list[Problem] = []
    for pool_name, pool in sorted(cluster.node_pools.items()):
        made = _Builder(
            cluster_name=cluster_name, pool_name=pool_name, pool=pool, cluster=cluster, offerings=offerings, tags=tags
        ).build()
        groups += made.groups
        omissions += made.omissions
        problems += made.problems
    problems += _shared_names(groups)
    return Grid(groups=tuple(groups), omissions=tuple(omissions), problems=tuple(problems))


def quota(groups: int, limit: int) -> Problem | None:
    """Refuse more groups than the account may have in the region."""
    if groups <= limit:
        return None
    return Problem(
        path=("asgQuota",),
        value=limit,
        message=f"the node pools make {groups} Auto Scaling groups; use fewer types or zones, or have AWS raise the "
        "quota (Auto Scaling groups per region) and raise this number",
    )


def quota_warning(groups: int, limit: int) -> str | None:
    """Warn where the quota is nearly used up."""
    if groups * 100 < limit * WARN_PERCENT:
        return None
    return f"{groups} of {limit} Auto Scaling groups (sluice:asgQuota) are used"


def table(groups: Sequence[NodeGroupSpec]) -> list[dict[str, str | int]]:
    """Show the groups as rows, for outputs and pull requests."""
    return [
        {
            "name": group.name,
            "pool": group.key.pool,
            "zone": group.key.zone,
            "instanceType": group.key.instance_type,
            "capacityType": str(group.capacity_type),
            "min": group.minimum,
            "max": group.maximum,
        }
        for group in groups
    ]


def markdown(grids: Mapping[str, Grid]) -> str:
    """Show the grids of all clusters, by cluster name, to somebody who reviews a change."""
    total = sum(len(made.groups) for made in grids.values())
    lines = [f"**{total} Auto Scaling groups**, one per zone and instance type"]
    for cluster, made in sorted(grids.items()):
        lines += ["", f"### {cluster}: {len(made.groups)} groups", "", "| pool | type | zones | each | kind |"]
        lines += ["|---|---|---|---|---|", *_rows(made)]
        lines += ["", *_left_out(made.omissions)] if made.omissions else []
    return "\n".join(lines)


def _left_out(omissions: Sequence[Omission]) -> Iterator[str]:
    together: dict[tuple[str, str, str], list[str]] = {}
    for one in omissions:
        together.setdefault((one.pool, one.instance_type, one.reason), []).append(one.zone)
    for (pool, instance_type, reason), zones in together.items():
        yield f"- {pool}: {instance_type} is left out of {', '.join(zones)}: {reason}"


def _rows(made: Grid) -> Iterator[str]:
    together: dict[tuple[str, str], list[NodeGroupSpec]] = {}
    for group in made.groups:
        together.setdefault((group.key.pool, group.key.instance_type), []).append(group)
    for (pool, instance_type), groups in together.items():
        zones = ", ".join(group.key.zone for group in groups)
        yield (
            f"| {pool} | {instance_type} | {zones} | {groups[0].minimum} to {groups[0].maximum} "
            f"| {groups[0].capacity_type} |"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """What a group's nodes and tags will be."""

    labels: dict[str, str]
    taints: tuple[Taint, ...]
    resources: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    """Lays out one pool."""

    cluster_name: str
    pool_name: str
    pool: NodePool
    cluster: Cluster
    offerings: Offerings
    tags: Mapping[str, str]

    def build(self) -> Grid:
        problems = [*self._zone_problems(), *self._image_problems()]
        zones = self._zones()
        groups: list[NodeGroupSpec] = []
        omissions: list[Omission] = []
        most = 0
        long: set[str] = set()
        for index, instance_type in enumerate(self.pool.types):
            offer = self.offerings.types.get(instance_type)
            offered = [zone for zone in zones if offer is not None and zone in offer.zones]
            if offer is None or not offered:
                problems.append(self._nowhere(index, instance_type, zones))
                continue
            drafts = {zone: self._draft(zone, instance_type, offer) for zone in offered}
            most = max(most, *(len(draft.tags) for draft in drafts.values()))
            long |= {key for draft in drafts.values() for key in draft.tags if len(key) > TAG_KEY_MAX}
            if most <= TAGS_MAX and not long:
                groups += [self._group(zone, instance_type, offer, draft) for zone, draft in drafts.items()]
            omissions += [self._omission(instance_type, zone, "not offered") for zone in zones if zone not in offered]
            omissions += [self._omission(instance_type, zone, "no subnet") for zone in self._without_subnet(offer)]
        problems += [*self._minimum_problems(groups), *self._tag_problems(most, long)]
        return Grid(groups=tuple(groups), omissions=tuple(omissions), problems=tuple(problems))

    def _path(self, *rest: str | int) -> tuple[str | int, ...]:
        return ("nodePools", self.pool_name, *rest)

    def _chosen(self) -> tuple[str, ...]:
        return tuple(self.offerings.zones) if isinstance(self.pool.zones, str) else self.pool.zones

    def _zones(self) -> list[str]:
        """Return the zones to use: chosen, known, and with a subnet."""
        return sorted(zone for zone in self._chosen() if zone in self.offerings.zones and self._has_subnet(zone))

    def _has_subnet(self, zone: str) -> bool:
        network = self.cluster.network
        return network is None or network.subnet_ids is None or zone in network.subnet_ids

    def _without_subnet(self, offer: InstanceTypeOffer) -> list[str]:
        return [zone for zone in self._chosen() if zone in offer.zones and not self._has_subnet(zone)]

    def _zone_problems(self) -> Iterator[Problem]:
        if isinstance(self.pool.zones, str):
            return
        for index, zone in enumerate(self.pool.zones):
            if zone not in self.offerings.zones:
                known = ", ".join(sorted(self.offerings.zones))
                message = f"must be a zone of {self.offerings.region}: {known}"
                yield Problem(path=self._path("zones", index), value=zone, message=message)
            elif not self._has_subnet(zone):
                message = "has no subnet; add one to network.subnetIds"
                yield Problem(path=self._path("zones", index), value=zone, message=message)

    def _image_problems(self) -> Iterator[Problem]:
        offers = [self.offerings.types[name] for name in self.pool.types if name in self.offerings.types]
        architectures = sorted({str(offer.architecture) for offer in offers})
        if self.pool.image is not None and len(architectures) > 1:
            message = (
                f"serves one architecture, and the pool's types have {' and '.join(architectures)}; split the pool"
            )
            yield Problem(path=self._path("image"), message=message, has_value=False)

    def _nowhere(self, index: int, instance_type: str, zones: Sequence[str]) -> Problem:
        offer = self.offerings.types.get(instance_type)
        if offer is None:
            close = difflib.get_close_matches(instance_type, self.offerings.types, n=3)
            hint = f"did you mean {', '.join(close)}? " if close else ""
            where = f"is offered nowhere in {self.offerings.region}; {hint}`make offerings` reads anew what is offered"
        else:
            where = f"is offered in {', '.join(offer.zones)} only, and the pool uses {', '.join(zones) or 'no zone'}"
        return Problem(path=self._path("instanceTypes", index), value=instance_type, message=where)

    def _omission(self, instance_type: str, zone: str, reason: str) -> Omission:
        return Omission(pool=self.pool_name, instance_type=instance_type, zone=zone, reason=reason)

    def _minimum_problems(self, groups: Sequence[NodeGroupSpec]) -> Iterator[Problem]:
        limit = self.pool.limits.max_active_instances
        total = sum(group.minimum for group in groups)
        if limit is not None and total > limit:
            yield Problem(
                path=self._path("limits", "maxActiveInstances"),
                value=limit,
                message=f"must be at least {total}: {len(groups)} groups of at least {self.pool.min_per_group} each",
            )

    def _tag_problems(self, most: int, long: set[str]) -> Iterator[Problem]:
        for key in sorted(long):
            yield Problem(
                path=self._path(),
                has_value=False,
                message=f"makes the tag {key}, and AWS allows {TAG_KEY_MAX} characters: shorten the label or taint",
            )
        if most > TAGS_MAX:
            yield Problem(
                path=self._path(),
                has_value=False,
                message=f"makes {most} tags on an Auto Scaling group, and AWS allows {TAGS_MAX}: "
                "use fewer tags, labels or taints",
            )

    def _group(self, zone: str, instance_type: str, offer: InstanceTypeOffer, draft: "_Draft") -> NodeGroupSpec:
        key = NodeGroupKey(pool=self.pool_name, zone=zone, instance_type=instance_type)
        return NodeGroupSpec(
            key=key,
            name=name(self.cluster_name, key),
            minimum=self.pool.min_per_group,
            maximum=self.pool.max_per_group,
            capacity_type=self.pool.capacity_type,
            architecture=offer.architecture,
            vcpus=offer.vcpus,
            memory_bytes=offer.memory_bytes,
            gpus=offer.gpus,
            max_pods=offer.max_pods,
            labels=draft.labels,
            taints=draft.taints,
            resources=draft.resources,
            tags=draft.tags,
        )

    def _draft(self, zone: str, instance_type: str, offer: InstanceTypeOffer) -> "_Draft":
        key = NodeGroupKey(pool=self.pool_name, zone=zone, instance_type=instance_type)
        labels = {**self._registered_labels(zone, offer), **_known_labels(key, offer)}
        taints = self._taints()
        resources = self._resources(offer)
        tags = {
            **self.tags,
            keys.TAG_ENABLED: "true",
            keys.discovery_tag(self.cluster_name): "owned",
            keys.cluster_tag(self.cluster_name): "owned",
            keys.INSTANCE_POOL: self.pool_name,
            NAME_TAG: name(self.cluster_name, key),
            **{f"{keys.TAG_TEMPLATE_LABEL}{label}": value for label, value in labels.items()},
            **{f"{keys.TAG_TEMPLATE_TAINT}{taint.key}": f"{taint.value}:{taint.effect}" for taint in taints},
            **{f"{keys.TAG_TEMPLATE_RESOURCES}{resource}": amount for resource, amount in resources.items()},
            **self._options(),
        }
        return _Draft(labels=labels, taints=taints, resources=resources, tags=tags)

    def _options(self) -> dict[str, str]:
        """Tell the upstream cluster-autoscaler, where it scales the groups, how long an instance may be idle."""
        limits = self.pool.limits
        is_given = "max_idle_seconds" in limits.model_fields_set
        if self.cluster.autoscaler.node_scaler is NodeScaler.NATIVE or not is_given:
            return {}
        return {keys.TAG_TEMPLATE_UNNEEDED: f"{limits.max_idle_seconds}s"}

    def _registered_labels(self, zone: str, offer: InstanceTypeOffer) -> dict[str, str]:
        """Return the labels that the kubelet registers its node with."""
        tags = dict(tag.partition("=")[::2] for tag in self.pool.tags)
        return {
            keys.CAPACITY_TYPE: self.pool.capacity_type.upper().replace("-", "_"),
            **self.pool.labels,
            **{keys.tag_label(tag): value for tag, value in tags.items()},
            **({keys.ACCELERATOR: _accelerator(offer.gpu_name)} if offer.gpus and offer.gpu_name else {}),
            keys.NODE_TYPE: self.pool.node_type,
            keys.INSTANCE_POOL: self.pool_name,
            keys.ZONE_BETA: zone,
        }

    def _taints(self) -> tuple[Taint, ...]:
        """Return the nodes' taints: rather not here, and where the pool is somebody's, nobody else.

        An exclusive pool has both, or its own scope's pods would prefer it to every other pool and to static nodes. A
        group's tags tell one taint of a key: the last, which keeps pods away.
        """
        reserved = Taint(key=keys.RESERVED_FOR, value=keys.RESERVED_FOR_NONE, effect=TaintEffect.NO_SCHEDULE)
        return (
            *self.pool.taints_in(new_cluster=self.cluster.existing is None),
            self._pool_taint(TaintEffect.PREFER_NO_SCHEDULE),
            *(() if self.pool.instance_wide else (self._pool_taint(TaintEffect.NO_SCHEDULE),)),
            *((reserved,) if self.pool.ephemeral else ()),
        )

    def _pool_taint(self, effect: TaintEffect) -> Taint:
        return Taint(key=keys.INSTANCE_POOL, value=self.pool_name, effect=effect)

    def _resources(self, offer: InstanceTypeOffer) -> dict[str, str]:
        """Return what nodes offer to pods and the instance type alone does not tell."""
        memory = node_resources.allocatable_memory(
            offer.memory_bytes, pods=offer.max_pods, overhead_percent=self.cluster.vm_memory_overhead_percent
        )
        disk = node_resources.allocatable_disk(self.pool.root_volume.size_gib * node_resources.GIB)
        mib = node_resources.MIB
        gpus = {keys.GPU_RESOURCE: str(offer.gpus)} if offer.gpus else {}
        return {"memory": f"{memory // mib}Mi", "ephemeral-storage": f"{disk // mib}Mi", **gpus}


def registered_labels(group: NodeGroupSpec) -> dict[str, str]:
    """Return those labels of a group that its kubelets register with; the cloud's own controller adds the others."""
    return {label: value for label, value in group.labels.items() if label not in _CLOUD_LABELS}


def name(cluster: str, key: NodeGroupKey) -> str:
    """Name a node group."""
    return names.node_group(cluster, pool=key.pool, zone=key.zone, instance_type=key.instance_type)


_CLOUD_LABELS: Final = frozenset({keys.ZONE, keys.INSTANCE_TYPE, keys.ARCHITECTURE})


def _accelerator(gpu_name: str) -> str:
    """Write a GPU's name as a label's value: nvidia-v100, nvidia-rtx-pro-4500."""
    return "nvidia-" + re.sub(r"[^a-z0-9.]+", "-", gpu_name.lower()).strip("-.")


def _known_labels(key: NodeGroupKey, offer: InstanceTypeOffer) -> dict[str, str]:
    """Return the labels that kubelet and cloud set by themselves, which pods may select by."""
    return {
        keys.ZONE: key.zone,
        keys.INSTANCE_TYPE: key.instance_type,
        keys.ARCHITECTURE: str(offer.architecture),
    }


def _shared_names(groups: Sequence[NodeGroupSpec]) -> Iterator[Problem]:
    """Report pools whose names, shortened to what AWS allows, are one and the same."""
    owners: dict[str, str] = {}
    reported: set[str] = set()
    for group in groups:
        owner = owners.setdefault(group.name, group.key.pool)
        if owner != group.key.pool and group.key.pool not in reported:
            reported.add(group.key.pool)
            yield Problem(
                path=("nodePools", group.key.pool),
                has_value=False,
                message=f"would share the name {group.name} with pool {owner}: choose shorter names",
            )
