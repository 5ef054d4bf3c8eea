"""What pods of a machine type need to land on its nodes: tolerations and required node labels, for guests and sleepers.

Admission policies write the same for guests in CEL; a test on the real API server holds them to each other.
"""

from autoscaler.api import keys
from autoscaler.api.machine_catalogue import NodeLabel
from autoscaler.api.manifests import Manifest


def tolerations(group: str, machine_type: str, parent: str | None = None) -> list[Manifest]:
    """Write the tolerations of both taints that nodes of a type may have, or nodes of the type it depends on."""
    types = [machine_type, *([parent] if parent else ())]
    ready = _toleration(keys.NODE_POOL, keys.NODE_POOL_READY)
    return [*(_toleration(keys.machine_label(each), group) for each in types), ready]


def node_requirements(group: str, machine_type: str, gpu_label: NodeLabel | None) -> list[Manifest]:
    """Write the expressions of required node affinity: the type, a node that takes guests, and the right GPU."""
    required = [
        NodeLabel(keys.machine_label(machine_type), group),
        NodeLabel(keys.NODE_POOL, keys.NODE_POOL_READY),
        *([gpu_label] if gpu_label else ()),
    ]
    return [{"key": label.key, "operator": "In", "values": [label.value]} for label in required]


def _toleration(key: str, value: str) -> Manifest:
    return {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
