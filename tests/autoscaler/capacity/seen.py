"""Pods, nodes and node groups as they are seen, with everything defaulted; and a snapshot of them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from autoscaler.api import keys
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes import node_index, pod_index
from autoscaler.capacity.records import record_index
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

NOW = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"


def pod(  # noqa: PLR0913  # a builder defaults everything
    name: str = "pod",
    *,
    cpu: str = "1",
    node: str = "",
    waits: bool = True,
    owner: str = "",
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> objects.Pod:
    """A pod that the scheduler found no node for, unless it has one."""
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": STAMP}
    conditions = [scheduled] if waits and not node else []
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "1",
            "ownerReferences": owners,
            **(metadata or {}),
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions, **(status or {})},
    }
    return objects.pod(msgspec.json.encode(body))


def node(  # noqa: PLR0913  # the same
    name: str = "node",
    *,
    instance: str = "i-1",
    zone: str = "a",
    ready: bool = True,
    taints: Iterable[dict[str, str]] = (),
    created_at: str = STAMP,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> objects.Node:
    """A node of an m5.xlarge."""
    kind = catalogue.bundled()["m5.xlarge"]
    room = {key: f"{value}m" if key == "cpu" else str(value) for key, value in kind.allocatable().items()}
    body = {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": created_at,
            "labels": {keys.ZONE: zone, keys.HOSTNAME: name, **(labels or {})},
        },
        "spec": {"providerID": f"aws:///{zone}/{instance}", "taints": list(taints), **spec},
        "status": {
            "allocatable": {**room, **({keys.GPU_RESOURCE: str(gpus)} if gpus else {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": created_at}],
        },
    }
    return objects.node(msgspec.json.encode(body))


def group(
    *instances: str,
    pool: str = "workers",
    zone: str = "a",
    kind: str = "m5.xlarge",
    desired: int | None = None,
    minimum: int = 0,
    maximum: int = 10,
    **more: Any,
) -> cloud.NodeGroup:
    """A node group with these instances in service."""
    members = tuple(
        cloud.Instance(id=cloud.InstanceId(name), zone=zone, lifecycle=cloud.Lifecycle.IN_SERVICE) for name in instances
    )
    return cloud.NodeGroup(
        name=cloud.GroupName(f"{pool}-{zone}-{kind}"),
        key=NodeGroupKey(pool=pool, zone=zone, instance_type=kind),
        minimum=minimum,
        maximum=maximum,
        desired=len(instances) if desired is None else desired,
        instances=members,
        **more,
    )


def pool(**spec: Any) -> InstancePoolSpec:
    return InstancePoolSpec.model_validate({"providerAccount": "aws", **spec})


def snapshot(*, pods: Iterable[objects.Pod] = (), nodes: Iterable[objects.Node] = (), **more: Any) -> Snapshot:
    """What is known, at midnight of the first day of 2026."""
    there, everybody = {each.meta.key: each for each in nodes}, {each.meta.key: each for each in pods}
    plain: dict[str, Any] = {
        "now": NOW,
        "pools": {"workers": pool()},
        "types": catalogue.bundled(),
        "records": record_index.indexed(more.get("instances", ())),
    }
    return Snapshot(
        pods=everybody,
        indexed=pod_index.indexed(everybody.values()),
        nodes=there,
        by_provider=node_index.by_provider(there.values()),
        **{**plain, **more},
    )
