"""Release: a cluster without its runtime is freed, whatever is missing in it; one with a living runtime is not."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from autoscaler import __main__ as command
from autoscaler import clock
from autoscaler.api import keys, names, policies, resources
from autoscaler.kube import kinds, owned_marks, port
from autoscaler.runtime.commands import release
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, served
from tests import builders
from tests.autoscaler.kube.cluster import simulated

pytestmark = pytest.mark.simulated
Body = dict[str, Any]
POOLS = kinds.custom(resources.InstancePool)
WORKLOADS = kinds.custom(resources.Workload)
RUNTIME = policies.Runtime(namespace="sluice-system", service_account="sluice")
UNBOUND = {
    f"{name}.sluice.dev"
    for name in (
        "job-gates",
        "ray-cluster-gates",
        "job-queue",
        "ray-cluster-queue",
        "runtime-alone-creates-workloads",
        "runtime-alone-deletes-workloads",
        "runtime-alone-writes-workloads",
        "gates-are-kept",
        "stamps-are-kept",
        "machine-injection",
        "machine-known",
        "machine-guests",
    )
}


def marked(*, definitions: bool = True) -> SimulatedCluster:
    """A cluster with everything that a runtime leaves behind when it dies."""
    in_force = policies.for_runtime(RUNTIME)
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.005, admission_policies=in_force)
    finalizers = [keys.FINALIZER, "example.com/theirs"]
    if definitions:
        cluster.install_definitions()
        for kind in ("InstancePool", "WorkerPool"):
            manifest = builders.resource(kind, name="left")
            manifest["metadata"]["finalizers"] = list(finalizers)
            cluster.create(kinds.custom(getattr(resources, kind)), manifest)
    taints = [{"key": keys.REMOVING, "value": "Emptied", "effect": "NoSchedule"}]
    taints += [{"key": "example.com/theirs", "value": "x", "effect": "NoSchedule"}]
    labels = {keys.machine_label("gpu"): "group", keys.INSTANCE_POOL: "left"}
    metadata = {"name": "node", "labels": labels, "annotations": {keys.MACHINE_GROUP: "group"}}
    cluster.create(kinds.NODES, {"metadata": metadata, "spec": {"taints": taints}})
    spec = {
        "containers": [{"name": "main", "image": "app:1"}],
        "schedulingGates": [{"name": keys.PLACEMENT_GATE}, {"name": "example.com/theirs"}],
    }
    pod = {"name": "pod", "namespace": "default", "finalizers": list(finalizers)}
    cluster.create(kinds.PODS, {"metadata": pod, "spec": spec})
    drain = {"name": names.DRAIN_OBJECT, "namespace": "default", "finalizers": [keys.part_finalizer("workers")]}
    cluster.create(kinds.CONFIG_MAPS, {"metadata": drain})
    listed = {"name": "list", "namespace": "default", "labels": {keys.GROUP_LIST: "left"}}
    cluster.create(kinds.CONFIG_MAPS, {"metadata": {**listed, "finalizers": [keys.FINALIZER]}})
    return cluster


def everything(cluster: SimulatedCluster) -> list[Body]:
    custom = [kinds.custom(resources.InstancePool), kinds.custom(resources.WorkerPool), WORKLOADS]
    found = []
    for resource in (kinds.NODES, kinds.PODS, kinds.CONFIG_MAPS, *custom):
        entries = cluster.server.store.collection(resource).entries.values()
        found += [{**entry.object, "kind": resource.kind} for entry in entries]
    return found


def add_lease(cluster: SimulatedCluster, name: str, *, ago: float, namespace: str = "kube-system") -> None:
    renewed = clock.to_rfc3339(virtual_time.clock().now() - ago)
    spec = {"holderIdentity": "sluice_a_0", "leaseDurationSeconds": 15, "renewTime": f"{renewed[:-1]}.000000Z"}
    cluster.create(kinds.LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


async def freed(api: port.Api, said: list[str] | None = None, **scope: Any) -> list[str]:
    say = (said if said is not None else []).append
    return await release.free(api, release.Scope(**scope), say, now=virtual_time.clock().now())


@simulated
async def test_nothing_of_ours_remains_and_nothing_of_theirs_is_touched() -> None:
    cluster = marked()
    await cluster.settle()
    said: list[str] = []
    assert await freed(cluster.client("admin"), said) == []
    assert not any(owned_marks.without(each) for each in everything(cluster))
    assert said[-1] == "6 objects freed, 0 failures"
    assert "Node node: mark" in said
    assert "Pod default/pod: finalizer, gate" in said
    assert f"ConfigMap default/{names.DRAIN_OBJECT}: finalizer" in said
    assert "ConfigMap default/list: finalizer" in said
    [node] = [each for each in everything(cluster) if each["kind"] == "Node"]
    assert {taint["key"] for taint in node["spec"]["taints"]} == {"example.com/theirs", "node.kubernetes.io/not-ready"}
    assert node["metadata"]["labels"] == {keys.INSTANCE_POOL: "left"}
    [pod] = [each for each in everything(cluster) if each["kind"] == "Pod"]
    assert pod["metadata"]["finalizers"] == ["example.com/theirs"]
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/theirs"}]
    again: list[str] = []
    assert await freed(cluster.client("admin"), again) == []
    assert again == ["0 objects freed, 0 failures"]


def bindings(cluster: SimulatedCluster) -> set[str]:
    kinds_of_binding = (served.MUTATING_BINDINGS, served.VALIDATING_BINDINGS)
    return {key.name for kind in kinds_of_binding for key in cluster.server.store.collection(kind).entries}


@pytest.mark.accept("S14", part="policies about queued jobs are unbound")
@simulated
async def test_what_a_policy_keeps_is_freed_all_the_same_and_jobs_run_at_once() -> None:
    cluster = marked()
    workload = builders.resource("Workload")
    workload["metadata"]["finalizers"] = [keys.FINALIZER]
    cluster.create(WORKLOADS, workload)
    cluster.install_policies(RUNTIME)
    await cluster.settle()
    said: list[str] = []
    assert await freed(cluster.client("admin"), said) == []
    assert any("gates-are-kept.sluice.dev: deleted" in line for line in said)
    assert not any(owned_marks.without(each) for each in everything(cluster))
    assert "Workload default/" in "".join(said)
    assert bindings(cluster) == {each.name for each in policies.for_runtime(RUNTIME)} - UNBOUND
    labels = {keys.QUEUE_NAME: "q"}
    spec: Body = {"template": {"spec": {"containers": []}}}
    job = {"metadata": {"name": "j", "namespace": "default", "labels": labels}, "spec": spec}
    made = cluster.create(kinds.JOBS, job)["spec"]
    assert not made["suspend"]
    assert made["template"]["spec"] == spec["template"]["spec"]


@pytest.mark.accept("S14", part="queued jobs")
@simulated
async def test_gates_of_quota_and_finalizers_of_queues_go_and_suspended_jobs_are_named() -> None:
    cluster = marked()
    cluster.install_policies(RUNTIME)
    held = [kinds.custom(each) for each in (resources.ClusterQueue, resources.LocalQueue, resources.ResourceFlavor)]
    for resource in held:
        manifest = builders.resource(resource.kind)
        manifest["metadata"]["finalizers"] = [keys.FINALIZER]
        cluster.create(resource, manifest)
    template = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    for number in range(release.NAMED_MAX + 1):
        metadata = {"name": f"j-{number}", "namespace": "default", "labels": {keys.QUEUE_NAME: "q"}}
        cluster.create(kinds.JOBS, {"metadata": metadata, "spec": {"template": template}})
    gated = {"containers": [{"name": "main", "image": "app:1"}], "schedulingGates": [{"name": keys.ADMISSION_GATE}]}
    cluster.create(kinds.PODS, {"metadata": {"name": "gated", "namespace": "default"}, "spec": gated})
    await cluster.settle()
    said: list[str] = []
    assert await freed(cluster.client("admin"), said) == []
    assert "Pod default/gated: gate" in said
    left = [entry.object for each in held for entry in cluster.server.store.collection(each).entries.values()]
    assert [each["metadata"].get("finalizers") for each in left] == [None, None, None]
    named = [line for line in said if line.startswith("Job default/j-")]
    assert len(named) == release.NAMED_MAX
    assert "the job stays suspended" in named[0]
    assert "1 more jobs stay suspended" in said


@simulated
async def test_beside_a_living_runtime_policies_stay_unless_they_are_in_the_way() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.install_definitions()
    cluster.install_policies(RUNTIME)
    await cluster.settle()
    want = bindings(cluster)
    assert await freed(cluster.client("admin"), even_if_running=True) == []
    assert bindings(cluster) == want
    assert await freed(cluster.client("admin")) == []
    assert bindings(cluster) == want - UNBOUND


async def free_beside_a_runtime(held: kinds.ResourceType, body: Body) -> None:
    """Free a cluster where one object is held, with all policies in force and a runtime that lives on."""
    cluster = SimulatedCluster(virtual_time.clock(), admission_policies=policies.for_runtime(RUNTIME))
    cluster.install_definitions()
    await cluster.settle()
    cluster.create(held, body)
    cluster.install_policies(RUNTIME)
    assert await freed(cluster.client("admin"), even_if_running=True) == []
    assert not any(owned_marks.without(each) for each in everything(cluster))


@simulated
async def test_a_gate_that_a_policy_keeps_is_opened_beside_a_living_runtime_too() -> None:
    spec = {"containers": [{"name": "main", "image": "app:1"}], "schedulingGates": [{"name": keys.ADMISSION_GATE}]}
    await free_beside_a_runtime(kinds.PODS, {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec})


@simulated
async def test_a_workload_that_a_policy_keeps_is_freed_beside_a_living_runtime_too() -> None:
    workload = builders.resource("Workload")
    workload["metadata"]["finalizers"] = [keys.FINALIZER]
    await free_beside_a_runtime(WORKLOADS, workload)


@simulated
async def test_it_works_where_our_definitions_are_missing() -> None:
    cluster = marked(definitions=False)
    await cluster.settle()
    said: list[str] = []
    assert await freed(cluster.client("admin"), said) == []
    assert said[-1] == "4 objects freed, 0 failures"


@simulated
async def test_one_that_cannot_be_freed_is_told_and_does_not_stop_the_others() -> None:
    cluster = marked()
    await cluster.settle()
    failures = await freed(Refusing(cluster.client("admin")))
    assert failures == [
        "scopes could not be listed: 403 Forbidden: not you",
        "Pod default/pod: 403 Forbidden: not you",
    ]
    held = [each["kind"] for each in everything(cluster) if owned_marks.without(each)]
    assert held == ["Pod"]


class Refusing:
    """An API server that lets nobody list scopes, nor change pods; and whose pools change under us once."""

    def __init__(self, api: port.Api) -> None:
        self._api = api
        self._changed = False

    async def send(self, request: port.Request) -> port.Response:
        is_refused = request.path.endswith("/scopes") or (request.method == "PATCH" and "/pods/" in request.path)
        if is_refused:
            body = msgspec.json.encode({"reason": "Forbidden", "message": "not you"})
            return port.Response(status=403, body=body)
        if request.method == "PATCH" and "/instancepools/" in request.path and not self._changed:
            self._changed = True
            return port.Response(status=409, body=msgspec.json.encode({"reason": "Conflict"}))
        return await self._api.send(request)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async for batch in self._api.watch(path, query):
            yield batch


@simulated
async def test_a_living_runtime_is_told_to_leave_by_itself() -> None:
    cluster = marked()
    await cluster.settle()
    add_lease(cluster, names.CLUSTER_LEASE, ago=5)
    with pytest.raises(release.ReleaseError, match=r"the runtime lives: sluice_a_0 \(Lease kube-system/sluice\)"):
        await freed(cluster.client("admin"))
    assert any(owned_marks.without(each) for each in everything(cluster))
    assert await freed(cluster.client("admin"), even_if_running=True) == []
    await asyncio.sleep(11)
    assert await freed(cluster.client("admin")) == []  # its Lease is over by now


@simulated
async def test_only_leases_of_ours_and_of_the_namespace_count() -> None:
    cluster = marked()
    await cluster.settle()
    add_lease(cluster, "somebody-else", ago=1)
    add_lease(cluster, names.worker_lease("heavy"), ago=1, namespace="default")
    with pytest.raises(release.ReleaseError, match=r"default/sluice-workers\.heavy"):
        await freed(cluster.client("admin"))
    said: list[str] = []
    assert await freed(cluster.client("admin"), said, namespace="elsewhere") == []
    assert said[-1] == "4 objects freed, 0 failures"  # the drain object there is another runtime's


def test_it_wants_to_be_forced(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["release"]) == 2
    assert "--force" in capsys.readouterr().err
