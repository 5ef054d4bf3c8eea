"""RayClusters of KubeRay (ray.io/v1): a pod set for the head, and one for each worker group.

What KubeRay adds to templates is counted as its release 1.6 adds it by default; sidecars that an operator is configured
to add to each pod are not known here.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
from msgspec import structs

from autoscaler.admission.jobs import belonging, templates
from autoscaler.admission.jobs.port import Job, WantedPods
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.jobs import queued
from autoscaler.api.resources import types, workloads
from autoscaler.kube import kinds, objects, wire

RAY_CLUSTERS: Final = kinds.ResourceType(
    group="ray.io", version="v1", plural="rayclusters", kind="RayCluster", namespaced=True
)
HEAD: Final = "head"
"""The head's pod set, and the value of the label on its pod."""
GROUPS_MAX: Final = workloads.POD_SETS_MAX - 1
_REPLICAS_MAX: Final = 2**31 - 1
_AUTOSCALER: Final = wire.Resources(requests={"cpu": "500m", "memory": "512Mi"})
"""What the autoscaler beside the head requests where the cluster does not say."""
_WAIT_FOR_HEAD: Final = wire.Container(
    name="wait-gcs-ready", resources=wire.Resources(requests={"cpu": "200m", "memory": "256Mi"})
)
"""The last init container of each worker: small ones request more than their own containers because of it."""


class RayCluster:
    """The kind `RayCluster`. It has no end: it runs until it is deleted."""

    resource: Final = RAY_CLUSTERS

    def decode(self, raw: bytes | msgspec.Raw) -> Job:
        """Read a RayCluster; worker groups that cannot be pod sets are left out, and are its problem."""
        read = _DECODER.decode(raw)
        meta, spec = objects.meta(read.metadata), read.spec
        return Job(
            meta=meta,
            kind=self.resource.kind,
            api_version=self.resource.api_version,
            queue=belonging.queue_of(meta),
            is_suspended=spec.suspend,
            pod_sets=tuple(_pod_sets(spec)),
            priority_class=spec.head_group_spec.template.spec.priority_class_name,
            left_alone=_left_alone(meta, spec),
            problem="; ".join(_problems(spec)) or None,
        )

    def pod_set_of(self, pod: objects.Pod) -> str:
        """Tell the head from the workers, and these by their group."""
        labels = pod.meta.labels
        return HEAD if labels.get(keys.RAY_NODE_TYPE) == HEAD else labels.get(keys.RAY_GROUP, "")

    def place_of(self, pod: objects.Pod) -> int | None:
        """Return the number of a worker's replica: the hosts of one replica stay together."""
        index = pod.meta.labels.get(keys.RAY_REPLICA_INDEX, "")
        return int(index) if index.isdecimal() else None

    def suspension(self, *, is_suspended: bool) -> Manifest:
        """Write the merge patch that suspends a RayCluster, or resumes it."""
        return {"spec": {"suspend": is_suspended}}


# As the API server sends them


class _Struct(msgspec.Struct, rename="camel", gc=False, frozen=True):
    pass


class _Head(_Struct, frozen=True):
    template: templates.Template = templates.Template()


class _Group(_Struct, frozen=True):
    group_name: str = ""
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False
    template: templates.Template = templates.Template()


class _AutoscalerOptions(_Struct, frozen=True):
    resources: wire.Resources | None = None


class _Spec(_Struct, frozen=True):
    suspend: bool = False
    managed_by: str = queued.KUBERAY
    enable_in_tree_autoscaling: bool = False
    autoscaler_options: _AutoscalerOptions = _AutoscalerOptions()
    head_group_spec: _Head = _Head()
    worker_group_specs: tuple[_Group, ...] = ()


class _RayCluster(_Struct, frozen=True):
    metadata: wire.ObjectMeta
    spec: _Spec = _Spec()


_DECODER: Final = msgspec.json.Decoder(_RayCluster)


def _pod_sets(spec: _Spec) -> Iterator[WantedPods]:
    """Describe the head and the groups; the first of several with one name, and as many as there may be."""
    yield templates.wanted(HEAD, _head(spec), size=1)
    named: dict[str, _Group] = {}
    for each in spec.worker_group_specs:
        if each.group_name != HEAD and _is_name(each.group_name):
            named.setdefault(each.group_name, each)
    for each in islice(named.values(), GROUPS_MAX):
        yield templates.wanted(each.group_name, _worker(each), size=_size(each), replica_pods=max(1, each.num_of_hosts))


def _head(spec: _Spec) -> templates.PodSpec:
    template = spec.head_group_spec.template.spec
    if not spec.enable_in_tree_autoscaling:
        return template
    chosen = spec.autoscaler_options.resources
    sidecar = wire.Container(name="autoscaler", resources=_AUTOSCALER if chosen is None else chosen)
    return structs.replace(template, containers=(*template.containers, sidecar))


def _worker(group: _Group) -> templates.PodSpec:
    template = group.template.spec
    return structs.replace(template, init_containers=(*template.init_containers, _WAIT_FOR_HEAD))


def _size(group: _Group) -> int:
    """Return how many pods KubeRay wants in a group now."""
    if group.suspend:
        return 0
    lowest = group.min_replicas or 0
    highest = _REPLICAS_MAX if group.max_replicas is None else group.max_replicas
    return max(0, max(lowest, min(group.replicas or 0, highest)) * group.num_of_hosts)


def _left_alone(meta: objects.Meta, spec: _Spec) -> str | None:
    return f"managed by {spec.managed_by}" if spec.managed_by != queued.KUBERAY else belonging.run_by_another(meta)


def _problems(spec: _Spec) -> Iterator[str]:
    """Say everything that keeps the cluster from being queued, and what to do."""
    groups = spec.worker_group_specs
    names = Counter(each.group_name for each in groups)
    for name, count in names.items():
        if name == HEAD:
            yield f"a worker group is named {HEAD}, as the head's pods are in Workloads: rename it"
        elif not _is_name(name):
            yield f"the worker group name {name!r} is no DNS label: use at most 63 of a-z, 0-9 and -, no - at the ends"
        elif count > 1:
            yield f"{count} worker groups are named {name}: give each a name of its own"
    for each in groups:
        if each.max_replicas is not None and (each.min_replicas or 0) > each.max_replicas:
            wrong = f"worker group {each.group_name} has minReplicas {each.min_replicas}, more than maxReplicas"
            yield f"{wrong} {each.max_replicas}, which KubeRay refuses: change one of them"
    if len(groups) > GROUPS_MAX:
        yield f"there are {len(groups)} worker groups, and at most {GROUPS_MAX} can be queued: use fewer"
    for name, template in (
        (HEAD, spec.head_group_spec.template),
        *((each.group_name, each.template) for each in groups),
    ):
        found = templates.problem(name, template.spec)
        if found is not None:
            yield found


def _is_name(name: str) -> bool:
    return len(name) <= types.DNS_LABEL_MAX and re.fullmatch(types.DNS_LABEL, name) is not None
