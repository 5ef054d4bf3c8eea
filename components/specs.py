"""What the stack declares, as metadata and specs of objects. Pure: config and node groups in, plain data out.

No default is ever sent: the definitions have them, and the API server fills them in. So a second up finds nothing to
change, and a release that adds a field with a default can be previewed on a cluster that still has the definitions of
the release before: Pulumi asks the API server, which refuses a field that it does not know. A declared object is sent
as the user wrote it; what the stack works out itself, such as a node pool's InstancePool, as far as it differs from
the defaults.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.accounts import Provider, ProviderAccountSpec
from autoscaler.api.resources.pools import InstancePoolSpec, Specifications
from autoscaler.api.settings.node_groups import NodeGroupSpec
from components.config.clusters import Cluster
from components.config.node_pools import SERVICES, SERVICES_TAINT, NodePool

STAMP: Final = {
    "app.kubernetes.io/part-of": "sluice",
    "app.kubernetes.io/managed-by": "pulumi",
    "app.kubernetes.io/version": version.VERSION,
    keys.VERSION: version.VERSION,
}
"""Labels of what the stack makes in a cluster."""
CLUSTER_CRITICAL: Final = "system-cluster-critical"
"""The priority of what scales the cluster: where nodes are full, users' pods make room for it."""
TOLERATES_SERVICES: Final[Manifest] = {"key": SERVICES_TAINT.key, "operator": "Exists"}
ON_SERVICES: Final[Manifest] = {
    "nodeSelector": {keys.NODE_TYPE: SERVICES},
    "tolerations": [TOLERATES_SERVICES, {"key": keys.INSTANCE_POOL, "operator": "Exists"}],
}
"""Where a pod of the cluster's own services goes; every pool's nodes carry a taint with the pool's name."""
DRAIN_MARGIN_SECONDS: Final = 900
"""How much longer than its drainSeconds a pool's removal may take: evictions, and the instances' own end."""
_POD_SECURITY: Final = "pod-security.kubernetes.io/"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"


def declared(model: BaseModel) -> Manifest:
    """Write a spec as the user gave it."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def account(region: str) -> Manifest:
    """Write the account that is always there: this region, under the runtime's own role."""
    return _differing(ProviderAccountSpec(provider=Provider.AWS, region=region))


def instance_pool(pool: NodePool, groups: Sequence[NodeGroupSpec]) -> Manifest:
    """Write the InstancePool of a node pool, whose node groups are these."""
    spec = InstancePoolSpec(
        provider_account=pool.provider_account,
        enabled=pool.enabled,
        architectures=tuple(sorted({group.architecture for group in groups})),
        tags=pool.tags,
        specifications=Specifications(
            instance_types=pool.types,
            zones=tuple(sorted({group.key.zone for group in groups})),
            capacity_type=pool.capacity_type,
            node_type=pool.node_type,
        ),
        instance_wide=pool.instance_wide,
        ephemeral=pool.ephemeral,
        limits=pool.limits,
        startup_taints=pool.startup_taints,
        registration_timeout_seconds=pool.registration_timeout_seconds,
        drain_seconds=pool.drain_seconds,
    )
    return _differing(spec)


def pool_labels(cluster: Cluster, pool: str, spec: Manifest) -> dict[str, str]:
    """Name the one scope of a pool that is not for all, by which the admission policies know whose it is."""
    scopes = [key for key, scope in cluster.scopes.items() if any(each.name == pool for each in scope.pools)]
    return {keys.SCOPE: scopes[0]} if scopes and not spec.get("instanceWide", True) else {}


def removal_seconds(drain_seconds: int) -> int:
    """Return how long the removal of a pool may take."""
    return drain_seconds + DRAIN_MARGIN_SECONDS


def namespace_labels(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return a namespace's labels: its scope, what its pods may be and do, and what the config adds.

    Worker pods are copies of their users' own templates, so where they run, baseline is what can be demanded; the
    runtime's namespace is restricted where no workers run in it.
    """
    workloads = cluster.workload_namespaces()
    own = namespace == cluster.autoscaler.namespace
    has_workers = namespace in workloads or cluster.autoscaler.scope == WorkerScope.NAMESPACE
    level = RESTRICTED if own and not has_workers else BASELINE
    scope = workloads.get(namespace)
    listed = cluster.namespaces.get(namespace)
    return {
        f"{_POD_SECURITY}enforce": level,
        f"{_POD_SECURITY}enforce-version": f"v{cluster.kubernetes_version}",
        **(listed.labels if listed else {}),
        **({keys.INJECT_RESOURCE: keys.INJECT_ENABLED} if listed and listed.guests else {}),
        **({keys.SCOPE: scope} if scope else {}),
    }


def is_existing_namespace(cluster: Cluster, namespace: str) -> bool:
    """Tell whether a namespace is there already, so that it is labelled only.

    The runtime's own namespace is made by the stack unless the config says otherwise.
    """
    listed = cluster.namespaces.get(namespace)
    if listed is not None and listed.existing is not None:
        return listed.existing
    return cluster.existing is not None and namespace != cluster.autoscaler.namespace


def _differing(model: BaseModel) -> Manifest:
    """Write of a spec what its definition does not say by itself."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
