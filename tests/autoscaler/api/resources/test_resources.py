"""The models read what the seeds write, keep its meaning, and refuse what they say is wrong."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from autoscaler.api import resources
from tests import builders

SEED_WORKER_POOL = """
metadata: {name: structural-worker-pool, namespace: tonic-structural}
spec:
  workerPoolClassName: null
  poolCapacity: 30
  queue:
    interval: "00:00:10"
    source:
      endpoint: https://tonic-web-server/api/job/peek_queue
      secretName: worker-pool-api-key
  status: Active
  workerSpec:
    idleTimeoutMinutes: 3
    podTemplate:
      source: {kind: Deployment, name: tonic-worker}
      containerName: tonic-worker
    retainFailedWorkers: true
status:
  currentCapacity: 30
  failedWorkers: 0
  managedBy: structural-worker-pool
  pendingWorkers: 0
  queueEndpoint: https://tonic-web-server/api/job/peek_queue
  queueSize: 0
  runningWorkers: 0
"""


def test_a_worker_pool_reads_as_the_seed_writes_it() -> None:
    pool = resources.WorkerPool.model_validate(yaml.safe_load(SEED_WORKER_POOL))
    assert pool.spec.worker_pool_class_name is None
    assert pool.spec.queue.source.type == "http"
    assert pool.spec.worker_spec.retain_failed_workers
    assert (pool.status.current_capacity, pool.status.managed_by) == (30, "structural-worker-pool")


@pytest.mark.parametrize("kind", resources.KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_survives_the_wire(kind: type[resources.Resource]) -> None:
    first = kind.model_validate(builders.resource(kind.__name__))
    wire = first.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert kind.model_validate(wire) == first


@pytest.mark.accept("P4")
def test_an_instance_pool_has_the_defaults_of_the_seed() -> None:
    spec = resources.InstancePool.model_validate(builders.resource("InstancePool")).spec
    assert (spec.enabled, spec.instance_wide, spec.ephemeral) == (True, True, False)
    assert spec.limits.max_idle_seconds == 3600
    assert (spec.limits.max_active_instances, spec.limits.target_max_seconds_per_month) == (None, None)


def test_fields_of_a_newer_stack_are_ignored() -> None:
    pool = builders.resource("InstancePool", somethingNew=1)
    assert resources.InstancePool.model_validate(pool).spec.provider_account == "aws"


def test_upper_case_abbreviations_keep_their_names_on_the_wire() -> None:
    status = {
        "providerID": "aws:///eu-west-1a/i-0123",
        "running": [{"podUID": "u-1", "startedAt": "2026-11-16T06:00:00Z"}],
    }
    instance = resources.Instance.model_validate({**builders.resource("Instance"), "status": status})
    wire = instance.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert wire["providerID"] == "aws:///eu-west-1a/i-0123"
    assert wire["running"] == [{"podUID": "u-1", "startedAt": "2026-11-16T06:00:00Z"}]


@pytest.mark.parametrize(
    ("kind", "changes", "names"),
    [
        ("WorkerPool", {"poolCapacity": -1}, "poolCapacity"),
        ("WorkerPool", {"queue__interval": "10s"}, "interval"),
        ("WorkerPool", {"workerSpec__idleTimeoutMinutes": 0}, "idleTimeoutMinutes"),
        ("WorkerPool", {"status": "Sleeping"}, "status"),
        ("Machine", {"machineTypes__0__spec__cpu": "6 cores"}, "cpu"),
        ("Machine", {"machineTypes__0__spec__memory": "0"}, "memory"),
        ("ClusterQueue", {"resourceGroups__0__flavors__0__resources__0__nominalQuota": True}, "nominalQuota"),
        ("ResourceFlavor", {"nodeLabels": {"a b": "c"}}, "nodeLabels"),
    ],
)
def test_what_is_wrong_is_refused_with_the_field_named(kind: str, changes: dict[str, Any], names: str) -> None:
    model = getattr(resources, kind)
    with pytest.raises(ValidationError) as refusal:
        model.model_validate(builders.resource(kind, **changes))
    assert names in ".".join(str(step) for step in refusal.value.errors()[0]["loc"])
