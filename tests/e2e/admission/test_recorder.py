"""What the recorder brings from a real API server, the auditor can judge."""

import pytest

from autoscaler.api import keys
from tests import builders
from tests.e2e import waiting
from tests.e2e.admission import auditor, ground, recorder
from tests.e2e.admission.ground import Ground
from tools.local.api import Api
from tools.local.plane import Plane


@pytest.mark.accept("E16", part="the auditor finds quota that was overdrawn on the real API server")
def test_an_admission_above_quota_is_found_on_the_real_api_server(admission_plane: Plane, runtime_api: Api) -> None:
    site = Ground(plane=admission_plane, runtime=runtime_api, namespace="default")
    forged = builders.resource("Workload", podSets=[{"name": "main", "count": 2, "requests": {"cpu": "1"}}])
    forged["metadata"]["labels"] = {keys.JOB_UID: "nobody"}
    path = site.path("workloads", ground.name_of(forged))
    try:
        with recorder.Recorder(admission_plane) as recording:
            queue = site.add_queue("1")
            runtime_api.create(site.path("workloads"), forged)
            assert auditor.audit(recording.history()) is None
            assigned = {"name": "main", "count": 2, "flavors": {"cpu": ground.FLAVOR}}
            admission = {"clusterQueue": queue, "clusterQueueGeneration": 1, "podSetAssignments": [assigned]}
            runtime_api.merge(f"{path}/status", {"status": {"admission": admission}})
            violation = auditor.audit(recording.history())
    finally:
        site.clear()
    assert violation is not None
    assert violation.clause == "usage within quota"
    assert "2000 used of 1000" in violation.message
    assert queue in violation.state


def test_the_garbage_collector_knows_ray_clusters_from_the_start(alone: Ground) -> None:
    alone.make_ray("ray", None)
    ray = alone.get("rayclusters", "ray")
    waiting.eventually(lambda: alone.pods(ray))
    alone.api.delete(alone.path("rayclusters", "ray"))
    waiting.eventually(lambda: not alone.pods(ray), within_seconds=10)
