"""Demands, groups and rooms with everything defaulted: a test sets what matters."""

from collections.abc import Iterable
from typing import Any

import msgspec

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.kube import objects, shapes, wire

GIB = 2**30


def shape(
    cpu_millis: int = 1000,
    memory_gib: float = 1,
    *,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> shapes.Shape:
    """The shape of a pod with one container; `spec` is of the pod, as in a manifest."""
    wanted = {"cpu": f"{cpu_millis}m", "memory": str(int(memory_gib * GIB)), **(requests or {})}
    container = {"name": "main", "resources": {"requests": wanted}}
    body = {
        "metadata": {"name": "pod", "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }
    return shapes.of(wire.POD.decode(msgspec.json.encode(body)))


def demand(
    cpu_millis: int = 1000,
    memory_gib: float = 1,
    *,
    count: int = 1,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    of: dict[str, Any] | None = None,
    **spec: Any,
) -> model.Demand:
    """Pods of one shape; `of` is of the demand itself."""
    requests = spec.pop("requests", None)
    made = shape(cpu_millis, memory_gib, labels=labels, namespace=namespace, requests=requests, **spec)
    return model.Demand(shape=made, count=count, namespace=namespace, labels=labels or {}, **(of or {}))


def resident(labels: dict[str, str] | None = None, *, namespace: str = "default", **spec: Any) -> model.Resident:
    return model.Resident(
        namespace=namespace, labels=labels or {}, shape=shape(labels=labels, namespace=namespace, **spec)
    )


def limit(most: int, kind: model.LimitKind = model.LimitKind.CLUSTER_NODES, **of: Any) -> model.Limit:
    return model.Limit(**{"kind": kind, "most": most, "used": 0, **of})


def template(
    zone: str = "a",
    cpu_millis: int = 4000,
    memory_gib: float = 16,
    *,
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taints: Iterable[tuple[str, str, str]] = (),
    **devices: Any,
) -> model.Template:
    return model.Template(
        labels={keys.ZONE: zone, **(labels or {})},
        allocatable={"cpu": cpu_millis, "memory": int(memory_gib * GIB), "pods": pods, **devices},
        taints=tuple(objects.NodeTaint(*taint) for taint in taints),
    )


def group(
    zone: str = "a",
    cpu_millis: int = 4000,
    memory_gib: float = 16,
    *,
    pool: str = "pool",
    kind: str = "",
    of: dict[str, Any] | None = None,
    **more: Any,
) -> model.Group:
    """A node group; `of` is of the group itself, the rest of its template."""
    made = template(zone, cpu_millis, memory_gib, **more)
    own = {"more": 100, **(of or {})}
    return model.Group(key=key(zone, pool=pool, kind=kind or f"m.{cpu_millis}"), template=made, **own)


def key(zone: str = "a", *, pool: str = "pool", kind: str = "m.4000") -> NodeGroupKey:
    return NodeGroupKey(pool=pool, zone=zone, instance_type=kind)


def room(
    name: str = "node-1",
    zone: str = "a",
    cpu_millis: int = 4000,
    memory_gib: float = 16,
    *,
    residents: Iterable[model.Resident] = (),
    **more: Any,
) -> model.Room:
    made = template(zone, cpu_millis, memory_gib, **more)
    labels = {key: value for key, value in made.labels.items() if value}
    return model.Room(name=name, labels=labels, free=made.allocatable, taints=made.taints, residents=tuple(residents))


def situation(*demands: model.Demand, **parts: Any) -> model.Situation:
    made: dict[str, Any] = {name: tuple(part) for name, part in parts.items()}
    return model.Situation(demands=demands, **made)


def term(topology: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": labels}, **more}


def apart(topology: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """Required anti-affinity, as a pod's affinity."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(topology, labels, **more)]}}


def together(topology: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """Required affinity, as a pod's affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(topology, labels, **more)]}}


def node_affinity(*expressions: dict[str, Any], field: str = "matchExpressions") -> dict[str, Any]:
    """Required node affinity with one term, as a pod's affinity."""
    terms = [{field: list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def spread(topology: str, labels: dict[str, str], *, max_skew: int = 1, **more: Any) -> list[dict[str, Any]]:
    """A spread that must hold, as a pod's constraints."""
    selector = {"labelSelector": {"matchLabels": labels}, "whenUnsatisfiable": "DoNotSchedule"}
    return [{"maxSkew": max_skew, "topologyKey": topology, **selector, **more}]
