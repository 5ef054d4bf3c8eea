"""The Job that clears a RayCluster's Redis store does not wait behind the gate that it has from the head."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.jobs import redis_cleanup

GATE = {"name": keys.ADMISSION_GATE}
OTHER = {"name": "example.com/other"}
NOTHING: Mapping[str, str] = MappingProxyType({})
CLUSTER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "uid": "u", "controller": True}


def cleanup(*gates: Manifest, owner: Manifest = CLUSTER, labels: Mapping[str, str] = NOTHING) -> Manifest:
    """The Job as KubeRay makes it."""
    metadata = {"name": "r-redis-cleanup", "labels": {keys.RAY_NODE_TYPE: "redis-cleanup", **labels}}
    template = {"spec": {"containers": [], "schedulingGates": list(gates)}}
    return {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": {"template": template}}


def gates_of(job: Manifest) -> Any:
    written = redis_cleanup.POLICY.twin(base.Request(operation=base.Operation.CREATE, object=job))
    return written["spec"]["template"]["spec"]["schedulingGates"]


@pytest.mark.accept("E15", part="the Job that clears a Redis store is not stuck")
@pytest.mark.parametrize(("given", "want"), [((GATE,), []), ((OTHER, GATE), [OTHER]), ((OTHER,), [OTHER]), ((), [])])
def test_our_gate_is_taken_out_and_others_stay(given: tuple[Manifest, ...], want: list[Manifest]) -> None:
    assert gates_of(cleanup(*given)) == want


@pytest.mark.parametrize(
    "job",
    [
        cleanup(GATE, owner={**CLUSTER, "controller": False}),
        cleanup(GATE, owner={**CLUSTER, "kind": "RayJob"}),
        cleanup(GATE, owner={**CLUSTER, "apiVersion": "example.com/v1"}),
        cleanup(GATE, labels={keys.RAY_NODE_TYPE: "head"}),
        cleanup(GATE, labels={keys.QUEUE_NAME: "q"}),
    ],
    ids=["owned otherwise", "of another kind", "of another group", "of another type", "queued"],
)
def test_other_jobs_keep_the_gate(job: Manifest) -> None:
    assert gates_of(job) == [GATE]
