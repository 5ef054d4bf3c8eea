"""Machine groups and their pods, as capacity sees them, with everything defaulted."""

from typing import Any

from autoscaler.api import keys
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

GROUP, TYPE = "desk", "small"
HOME, GUESTS = "sluice-system", "guests"
NAMESPACES = {GUESTS: {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}, HOME: {}}
GATED = ({"name": keys.MACHINE_GATE},)


def machine_type(name: str = TYPE, *, available: int = 2, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"cpu": cpu, "memory": "1Gi", **spec}, "available": available}


def entry(kind: str = TYPE, **fields: Any) -> dict[str, Any]:
    """An entry for all nodes of pool workers, unless a name is given."""
    selected = {} if "name" in fields else {"nodeSelector": {keys.INSTANCE_POOL: "workers"}}
    return {**selected, "mode": "ready", "machineType": [{"name": kind}], **fields}


def spec(*types: dict[str, Any], nodes: tuple[dict[str, Any], ...] = (), **fields: Any) -> MachineSpec:
    body = {"nodePool": list(nodes or (entry(),)), "machineTypes": list(types or (machine_type(),)), **fields}
    return MachineSpec.model_validate(body)


def guest(name: str, *, gates: tuple[dict[str, str], ...] = GATED, namespace: str = GUESTS, **more: Any) -> objects.Pod:
    return _pod(name, keys.ROLE_GUEST, namespace, gates, **more)


def sleeper(name: str, *, gates: tuple[dict[str, str], ...] = GATED, **more: Any) -> objects.Pod:
    return _pod(name, keys.ROLE_RESERVATION, HOME, gates, owner="StatefulSet", **more)


def _pod(
    name: str,
    role: str,
    namespace: str,
    gates: tuple[dict[str, str], ...],
    *,
    kind: tuple[str, str] = (GROUP, TYPE),
    metadata: dict[str, Any] | None = None,
    **more: Any,
) -> objects.Pod:
    labels = {keys.MACHINE_GROUP: kind[0], keys.MACHINE_TYPE: kind[1], keys.POD_ROLE: role}
    said = {"namespace": namespace, "labels": labels, **(metadata or {})}
    opened: dict[str, Any] = {} if more.get("node") else {"schedulingGates": list(gates)}
    return seen.pod(name, waits=False, metadata=said, **opened, **more)
