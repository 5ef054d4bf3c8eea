"""Machines and nodes for tests, made from manifests by the real decoders. A test sets what matters to it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine
from autoscaler.kube import objects
from tests import builders

NOW = 1_767_225_600.0
GROUP = "general"
MEDIUM, LARGE = keys.machine_label("medium"), keys.machine_label("large")
READY = {keys.NODE_POOL: "ready"}


def entry(name: str | None = "a", type_: str = "medium", *, mode: str = "ready", **more: Any) -> Manifest:
    """An entry of a Machine's nodePool; without a name, `nodeSelector` is given."""
    named = {} if name is None else {"name": name}
    return {**named, "mode": mode, "machineType": [{"name": type_}], **more}


def machine_type(
    name: str = "medium", *, cpu: str = "2", memory: str = "4Gi", available: int = 2, **spec: Any
) -> Manifest:
    return {"name": name, "spec": {"cpu": cpu, "memory": memory, **spec}, "available": available}


def child(name: str = "half", parent: str = "medium", ratio: int = 50, **spec: Any) -> Manifest:
    """A type that is cut from another."""
    dependence = {"parent": parent, "availableRatio": ratio}
    return {"name": name, "spec": {"dependence": dependence, **spec}, "available": 2}


def machine_manifest(
    name: str = GROUP,
    *entries: Manifest,
    types: Sequence[Manifest] | None = None,
    age: float = 100,
    deleted: bool = False,
    status: Manifest | None = None,
) -> Manifest:
    made = builders.resource("Machine", name=name)
    leaving = {"deletionTimestamp": clock.to_rfc3339(NOW - 1), "finalizers": [keys.FINALIZER]} if deleted else {}
    made["metadata"] |= {
        "uid": f"u-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": clock.to_rfc3339(NOW - age),
        **leaving,
    }
    made["spec"] = {
        "nodePool": list(entries) or [entry()],
        "machineTypes": list(types) if types is not None else [machine_type(), machine_type("large")],
    }
    return {**made, "status": status} if status is not None else made


def machine(*args: Any, **kwargs: Any) -> objects.Custom[Machine]:
    return objects.custom(Machine)(msgspec.json.encode(machine_manifest(*args, **kwargs)))


def node_manifest(  # noqa: PLR0913  # each test sets what matters
    name: str = "a",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Manifest] = (),
    ready: bool = True,
    cordoned: bool = False,
    deleted: bool = False,
    allocatable: Mapping[str, str] | None = None,
) -> Manifest:
    return {
        "metadata": {
            "name": name,
            "uid": f"u-{name}",
            "resourceVersion": "1",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            **({"deletionTimestamp": clock.to_rfc3339(NOW - 1)} if deleted else {}),
        },
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {
            "allocatable": dict(allocatable or {"cpu": "8", "memory": "32Gi"}),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def decoded(manifest: Manifest) -> objects.Node:
    return objects.node(msgspec.json.encode(manifest))


def node(*args: Any, **kwargs: Any) -> objects.Node:
    return decoded(node_manifest(*args, **kwargs))


def taint(key: str, value: str = "", effect: str = "NoSchedule", *, ago: float | None = None) -> Manifest:
    """A taint as it is on a node; put there so many seconds ago, where that is known."""
    time = {} if ago is None else {"timeAdded": clock.to_rfc3339(NOW - ago)}
    return {"key": key, "effect": effect, **({"value": value} if value else {}), **time}
