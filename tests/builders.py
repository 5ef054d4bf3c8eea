"""Smallest valid objects of each kind; a test sets what matters to it."""

import copy
from typing import Any

from autoscaler.api import version

Manifest = dict[str, Any]

_SPECS: dict[str, tuple[str, Manifest]] = {
    "WorkerPool": (
        "cloudworkers",
        {
            "poolCapacity": 30,
            "queue": {"interval": "00:00:10", "source": {"endpoint": "https://web-server/api/job/peek_queue"}},
            "workerSpec": {
                "idleTimeoutMinutes": 3,
                "podTemplate": {"source": {"name": "worker"}, "containerName": "worker"},
            },
        },
    ),
    "Machine": (
        "general",
        {
            "nodePool": [{"name": "michiru", "mode": "ready", "machineType": [{"name": "medium"}]}],
            "machineTypes": [{"name": "medium", "spec": {"cpu": "6000m", "memory": "48Gi"}, "available": 4}],
        },
    ),
    "MachineNodePool": (
        "general-node-pool",
        {
            "machineGroup": "general",
            "nodePool": [{"name": "michiru", "mode": "ready", "machineType": [{"name": "medium"}]}],
            "machineTypeStock": [{"name": "medium"}],
        },
    ),
    "ProviderAccount": ("aws", {"provider": "aws", "region": "eu-west-1"}),
    "InstancePool": ("gpu", {"providerAccount": "aws"}),
    "Scope": ("research", {"pools": [{"name": "gpu", "priority": 10}]}),
    "Instance": ("gpu-007", {"pool": "gpu", "number": 7}),
    "ResourceFlavor": ("spot", {"nodeLabels": {"node.type": "worker"}}),
    "ClusterQueue": (
        "team",
        {
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 20}]}],
                }
            ]
        },
    ),
    "LocalQueue": ("door", {"clusterQueue": "team"}),
    "Workload": ("job-sample", {"queueName": "door", "podSets": [{"name": "main", "count": 3}]}),
}
_NAMESPACED = {"WorkerPool", "LocalQueue", "Workload"}


def resource(kind: str, *, name: str | None = None, **changes: Any) -> Manifest:
    """Build a valid object; a change is given as `path__to__field=value`, and `...` takes the field away."""
    default_name, spec = _SPECS[kind]
    metadata: Manifest = {"name": name or default_name}
    if kind in _NAMESPACED:
        metadata["namespace"] = "default"
    if kind == "Machine":
        metadata["labels"] = {"sluice.dev/machine-group": metadata["name"]}
    manifest: Manifest = {"apiVersion": version.GROUP_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
    manifest = copy.deepcopy(manifest)
    for path, value in changes.items():
        _set(manifest["spec"], path.split("__"), value)
    return manifest


def _set(target: Any, path: list[str], value: Any) -> None:
    *parents, last = (int(step) if step.isdigit() else step for step in path)
    for step in parents:
        target = target[step] if isinstance(step, int) else target.setdefault(step, {})
    if value is ...:
        del target[last]
    else:
        target[last] = value
