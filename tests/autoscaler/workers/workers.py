"""Worker pods for tests, as the index knows them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from autoscaler import clock
from autoscaler.api import keys, version
from autoscaler.api.resources.worker_pools import WorkerPool
from autoscaler.kube import objects
from autoscaler.workers.model import Pool
from autoscaler.workers.worker_index import PoolWorkers
from tests import builders

NOW = 1_767_225_600.0


def worker(  # noqa: PLR0913  # each test sets what matters
    name: str = "w",
    *,
    phase: str = "Running",
    terminating: bool = False,
    held: bool = True,
    trouble: str = "",
    init: bool = False,
    bound_ago: float | None = None,
    ended_ago: float | None = None,
    template: str = "now",
    pool_uid: str = "u-pool",
    resource_version: int = 1,
) -> objects.Pod:
    """A worker pod."""
    state: dict[str, Any] = {"waiting": {"reason": trouble}} if trouble else {}
    if ended_ago is not None:
        state = {"terminated": {"finishedAt": _time(ended_ago), "exitCode": 1}}
    scheduled = {"type": "PodScheduled", "status": "False" if bound_ago is None else "True"}
    owner = {"apiVersion": version.GROUP_VERSION, "kind": "WorkerPool", "name": "pool", "uid": pool_uid}
    manifest = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"u-{name}",
            "resourceVersion": str(resource_version),
            "creationTimestamp": _time(3600),
            **({"deletionTimestamp": _time(1)} if terminating else {}),
            "annotations": {keys.TEMPLATE_HASH: template} if template else {},
            "finalizers": [keys.FINALIZER] if held else [],
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"nodeName": "" if bound_ago is None else "node"},
        "status": {
            "phase": phase,
            "conditions": [{**scheduled, "lastTransitionTime": _time(bound_ago or 0)}],
            "initContainerStatuses" if init else "containerStatuses": [{"name": "worker", "state": state}],
        },
    }
    return objects.pod(msgspec.json.encode(manifest))


def resource(**changes: Any) -> Pool:
    """A WorkerPool."""
    manifest = builders.resource("WorkerPool", **changes)
    manifest["metadata"] |= {"namespace": "team", "uid": "u-pool"}
    return objects.custom(WorkerPool)(msgspec.json.encode(manifest))


def pool(pods: Iterable[objects.Pod]) -> PoolWorkers:
    """All workers of a pool."""
    made = PoolWorkers()
    for pod in pods:
        made.add(pod)
    return made


def _time(ago: float) -> str:
    return clock.to_rfc3339(NOW - ago)
