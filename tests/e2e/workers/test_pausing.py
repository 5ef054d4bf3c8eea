"""The pause annotation on the real API server: pools say it, nothing else is written, and it goes away again."""

import json

import pytest

from autoscaler.api import keys
from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, ground, queue_servers


@pytest.mark.accept("R9")
def test_a_paused_runtime_says_so_on_its_pools_and_does_nothing_else(
    alone: ground.Ground, start: conftest.Start, queues: queue_servers.Queues
) -> None:
    own = f"/api/v1/namespaces/{alone.namespace}"
    replica = replicas.ready(start("pausing", alone.namespace))
    alone.make_pool("paused", queues.fill("paused", 0))
    before = alone.wait_for_status("paused", queueSize=0)
    alone.plane.api.merge(own, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
    condition = waiting.eventually(lambda: alone.condition("paused", "RuntimePaused"))
    assert (condition["status"], condition["reason"]) == ("True", "PausedByAnnotation")
    assert alone.status("paused") == {**before, "conditions": [*before["conditions"], condition]}
    queues.fill("paused", 2)
    alone.make_pool("new", queues.fill("new", 2))
    waiting.eventually(lambda: alone.condition("new", "RuntimePaused"))
    assert alone.status("new").keys() == {"conditions"}
    assert keys.FINALIZER not in alone.pool("new")["metadata"].get("finalizers", ())
    assert "sluice_paused 1.0" in replica.get("/metrics")[1]
    assert replica.get("/readyz") == (200, "ok\n")
    assert alone.workers("paused") == alone.workers("new") == []
    alone.plane.api.merge(own, {"metadata": {"annotations": {keys.PAUSED: None}}})
    for name in ("paused", "new"):
        alone.wait_for_workers(name, 2)
        waiting.eventually(lambda name=name: not alone.condition(name, "RuntimePaused"))  # type: ignore[misc]
    assert all(json.loads(line) for line in replica.log.read_text().splitlines())
