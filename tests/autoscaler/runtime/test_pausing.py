"""What may be written while the runtime is paused: one condition of pools, by who leads, and nothing else."""

import msgspec
import pytest

from autoscaler.api import resources
from autoscaler.kube import kinds, port
from autoscaler.kube.writing import writer
from autoscaler.runtime import fence, pausing

WORKERS = kinds.custom(resources.WorkerPool).path("pool", "jobs", "status")
MACHINES = kinds.custom(resources.InstancePool).path("pool", None, "status")
CONDITIONS = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"conditions": []}}


def gate(*, remaining: float = 3.0, observe: bool = False) -> pausing.Fence:
    return pausing.Fence(fence.Fence(remaining=lambda: remaining, is_paused=lambda: False, observe=observe))


def patch(path: str, body: object = CONDITIONS, **fields: str) -> port.Request:
    given = {"method": "PATCH", "content_type": port.MERGE_PATCH, **fields}
    return port.Request(path=path, body=msgspec.json.encode(body), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [WORKERS, MACHINES])
def test_conditions_of_pools_pass_for_as_long_as_we_lead(path: str) -> None:
    assert gate().check(patch(path)) == 3.0
    with pytest.raises(writer.FencedError, match="NotLeading"):
        gate(remaining=0).check(patch(path))
    with pytest.raises(writer.ObservedError):
        gate(observe=True).check(patch(path))


@pytest.mark.parametrize(
    "request_",
    [
        patch(kinds.custom(resources.WorkerPool).path("pool", "jobs")),
        patch(kinds.custom(resources.Scope).path("scope", None, "status")),
        patch(kinds.custom(resources.Instance).path("gpu-001", None, "status")),
        patch(kinds.PODS.path("pod", "jobs", "status")),
        patch(kinds.NODES.path("node")),
        patch(f"/x{WORKERS}"),
        patch(f"{WORKERS}/scale"),
        patch(WORKERS, method="DELETE"),
        patch(WORKERS, method="PUT"),
        patch(WORKERS, content_type=port.JSON),
        patch(WORKERS, {**CONDITIONS, "spec": {"poolCapacity": 0}}),
        patch(WORKERS, {**CONDITIONS, "status": {"conditions": [], "queueSize": 1}}),
        patch(WORKERS, {**CONDITIONS, "metadata": {"uid": "u", "finalizers": None}}),
        patch(WORKERS, {"metadata": {"uid": "u"}}),
        port.Request(method="PATCH", path=WORKERS, content_type=port.MERGE_PATCH),
        port.Request(method="POST", path=kinds.EVENTS.collection("jobs"), body=b"{}"),
    ],
)
def test_nothing_else_passes(request_: port.Request) -> None:
    with pytest.raises(writer.FencedError, match="no condition of a pool"):
        gate().check(request_)
