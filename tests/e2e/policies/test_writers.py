"""Only the runtime makes and deletes Workloads and deletes Instances; owners and namespaces take Workloads along."""

from collections.abc import Iterator

import pytest

from autoscaler.api import keys
from tests import builders
from tests.e2e import waiting
from tests.e2e.policies.ground import CUSTOM, RUNTIME, RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tools.local.api import Api


@pytest.fixture
def runtime(here: Ground) -> Iterator[Api]:
    with here.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as api:
        yield api


@pytest.mark.accept("P24")
def test_nobody_but_the_runtime_deletes_an_instance_or_writes_its_status(here: Ground, runtime: Api) -> None:
    number = 100 + int(here.id, 16) % 90_000
    name = f"gpu-{number}"
    instance = builders.resource("Instance", name=name, number=number)
    runtime.create(f"{CUSTOM}/instances", instance)
    path = f"{CUSTOM}/instances/{name}"
    try:
        for target in (path, f"{CUSTOM}/instances"):
            answer = here.api.request("DELETE", target)
            assert answer.status == 422
            assert RUNTIME in answer.body["message"]
            assert "drain its node" in answer.body["message"]
        changed = {**here.api.get(path), "status": {"phase": "Ready", "months": {"2026-01": {"seconds": 80}}}}
        answer = here.api.request("PUT", f"{path}/status", changed)
        assert answer.status == 422
        assert f"only the runtime ({RUNTIME}) writes what Instances say" in answer.body["message"]
        assert runtime.request("PUT", f"{path}/status", changed).status == 200
        assert here.api.get(path)["status"]["months"] == {"2026-01": {"seconds": 80}}
    finally:
        runtime.delete(path)
    assert here.api.request("GET", path).status == 404


@pytest.mark.accept("E20", part="Workloads are made and deleted by the runtime alone")
def test_nobody_but_the_runtime_creates_or_deletes_a_workload(here: Ground, runtime: Api) -> None:
    namespace = here.add_namespace(f"work-{here.id}")
    path = f"{CUSTOM}/namespaces/{namespace}/workloads"
    workload = builders.resource("Workload")
    workload["metadata"]["namespace"] = namespace
    answer = here.api.request("POST", path, workload)
    assert (answer.status, keys.QUEUE_NAME in answer.body["message"]) == (422, True)
    runtime.create(path, workload)
    for target in (f"{path}/{workload['metadata']['name']}", path):
        answer = here.api.request("DELETE", target)
        assert (answer.status, "delete the job instead" in answer.body["message"]) == (422, True)
    runtime.delete(f"{path}/{workload['metadata']['name']}")


def test_workloads_go_with_their_owner_and_with_their_namespace(here: Ground, runtime: Api) -> None:
    """The garbage collector notices a new kind after half a minute only, so its identity acts in its stead."""
    namespace = here.add_namespace(f"work-{here.id}")
    path = f"{CUSTOM}/namespaces/{namespace}/workloads"
    for name in ("owned", "free"):
        runtime.create(path, {**builders.resource("Workload"), "metadata": {"name": name}})
    with here.as_account("kube-system", "generic-garbage-collector") as collector:
        collector.delete(f"{path}/owned")
    here.api.delete(f"/api/v1/namespaces/{namespace}")
    gone = f"/api/v1/namespaces/{namespace}"
    waiting.eventually(lambda: here.api.request("GET", gone).status == 404, within_seconds=60.0)
