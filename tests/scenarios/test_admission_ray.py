"""RayClusters under quota, played in virtual time; the test itself is KubeRay, which deletes whom it is told to."""

import asyncio

import pytest

from autoscaler.admission.jobs.ray_cluster import RAY_CLUSTERS
from autoscaler.api import keys, names
from autoscaler.api.resources.workloads import POD_SETS_MAX
from autoscaler.kube import kinds, port
from autoscaler.runtime.commands import release
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import NAMESPACE, Body, World, runtime

pytestmark = pytest.mark.simulated
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Body = {
    "metadata": {"name": "rayclusters.ray.io"},
    "spec": {
        "group": RAY_CLUSTERS.group,
        "scope": "Namespaced",
        "names": {"plural": RAY_CLUSTERS.plural, "kind": RAY_CLUSTERS.kind},
        "versions": [
            {
                "name": RAY_CLUSTERS.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}},
                "subresources": {"status": {}},
            }
        ],
    },
}


class RayWorld(World):
    """A cluster that knows RayClusters."""

    kind = "RayCluster"
    memory = "1Ti"  # KubeRay's own containers want some

    def __init__(self) -> None:
        super().__init__()
        self.cluster.create(kinds.DEFINITIONS, DEFINITION)

    def add_ray(self, name: str = "ray", **replicas: int) -> None:
        """Make a RayCluster with so many replicas by worker group; each pod wants one cpu."""
        groups = [self.group(group, count) for group, count in replicas.items()]
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {keys.QUEUE_NAME: "team"}}
        spec = {"headGroupSpec": {"template": _template()}, "workerGroupSpecs": groups}
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}
        self._send("POST", RAY_CLUSTERS.collection(NAMESPACE), body)

    def scale(self, **replicas: int) -> None:
        """Change the worker groups."""
        groups = [self.group(group, count) for group, count in replicas.items()]
        self.patch(RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": groups}})

    def group(self, name: str, replicas: int) -> Body:
        return {"groupName": name, "replicas": replicas, "maxReplicas": 100, "template": _template()}

    def make_pods(self, group: str, count: int, name: str = "ray") -> None:
        """Make pods from a group's template, as KubeRay does."""
        ray = self._get(RAY_CLUSTERS, name)
        groups = {each["groupName"]: each["template"] for each in ray["spec"]["workerGroupSpecs"]}
        template = groups.get(group, ray["spec"]["headGroupSpec"]["template"])
        owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": name, "uid": ray["metadata"]["uid"]}
        labels = {keys.RAY_NODE_TYPE: "head" if group == "head" else "worker", keys.RAY_GROUP: group}
        for _ in range(count):
            metadata = {
                "generateName": f"{name}-{group}-",
                "namespace": NAMESPACE,
                "labels": labels,
                "ownerReferences": [{**owner, "controller": True}],
            }
            self.cluster.create(kinds.PODS, {"metadata": metadata, "spec": template["spec"]})

    def is_suspended(self, name: str = "ray") -> bool:
        return bool(self._get(RAY_CLUSTERS, name)["spec"].get("suspend"))


@pytest.mark.accept("E5", part="quota of a pod that runs on is never given away")
@pytest.mark.accept("E1", part="RayClusters")
@pytest.mark.accept("E4", part="RayClusters")
@simulated
async def test_a_shrunk_ray_cluster_keeps_the_quota_of_pods_that_run_on() -> None:
    world = RayWorld()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_ray(workers=3)
        assert world.is_suspended()
        await asyncio.sleep(10)
        assert not world.is_suspended()
        world.make_pods("head", 1)
        world.make_pods("workers", 3)
        await asyncio.sleep(10)
        assert (world.running("ray"), world.gated("ray"), world.used()) == (4, 0, 4)
        world.scale(workers=1)
        world.add_job("next", pods=1)
        await asyncio.sleep(60)
        assert (world.running("ray"), world.used(), world.running("next")) == (4, 4, 0)
        resize = world.condition("ResizeRequested", "ray")
        assert resize is not None
        assert (resize["status"], resize["reason"]) == ("True", "ScalingDown")
        assert "keep quota until as many pods are deleted" in resize["message"]
        worker = next(pod for pod in world.pods("ray") if "-workers-" in pod["metadata"]["name"])
        world.delete(kinds.PODS, worker["metadata"]["name"])
        await asyncio.sleep(10)
        assert (world.running("ray"), world.running("next"), world.used()) == (3, 1, 4)
        assert world.holds("ResizeRequested", "ray")
        assert not world.is_suspended()


@pytest.mark.accept("E5", part="pods that run on keep no other group from growing, and no better job from quota")
@simulated
async def test_a_ray_cluster_of_which_pods_run_on_grows_elsewhere_and_gives_way_all_the_same() -> None:
    world = RayWorld()
    world.add_priority("high", 10)
    world.add_queue(cpu=5, preemption={"withinClusterQueue": "LowerPriority"})
    async with runtime(world):
        world.add_ray(one=2, other=1)
        await asyncio.sleep(10)
        for group, count in (("head", 1), ("one", 2), ("other", 1)):
            world.make_pods(group, count)
        await asyncio.sleep(10)
        world.scale(one=1, other=2)
        world.make_pods("other", 1)
        await asyncio.sleep(10)
        assert (world.running("ray"), world.used()) == (5, 5)
        world.add_job("better", pods=1, priority="high")
        await asyncio.sleep(10)
        assert world.is_suspended()


@pytest.mark.accept("E2", part="worker groups that are added later")
@simulated
async def test_a_worker_group_that_is_added_later_comes_by_slices_with_a_flavor_of_its_own() -> None:
    world = RayWorld()
    world.add_flavor("spot")
    world.add_queue(cpu={"standard": 2, "spot": 4})
    async with runtime(world):
        world.add_ray(workers=1)
        await asyncio.sleep(10)
        world.make_pods("head", 1)
        world.make_pods("workers", 1)
        world.scale(workers=1, more=2)
        await asyncio.sleep(10)
        world.make_pods("more", 2)
        await asyncio.sleep(10)
        assert (world.running("ray"), world.gated("ray"), world.slices("ray")) == (4, 0, [])
        granted = world.workload("ray")["status"]["admission"]["podSetAssignments"]
        assert {each["name"]: (each["count"], each["flavors"]["cpu"]) for each in granted} == {
            "head": (1, "standard"),
            "workers": (1, "standard"),
            "more": (2, "spot"),
        }
        world.scale(workers=1)
        for pod in world.pods("ray"):
            if "-more-" in pod["metadata"]["name"]:
                world.delete(kinds.PODS, pod["metadata"]["name"])
        await asyncio.sleep(10)
        assert (world.running("ray"), world.used()) == (2, 2)
        assert [each["name"] for each in world.workload("ray")["spec"]["podSets"]] == ["head", "workers"]


@pytest.mark.accept("E19", part="vertical changes suspend and requeue")
@simulated
async def test_a_ray_cluster_whose_pods_become_larger_is_suspended_and_requeued() -> None:
    world = RayWorld()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_ray(workers=1)
        await asyncio.sleep(10)
        world.make_pods("head", 1)
        world.make_pods("workers", 1)
        await asyncio.sleep(10)
        larger = {**world.group("workers", 1), "template": _template("2")}
        world.patch(RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": [larger]}})
        await asyncio.sleep(10)
        assert world.is_suspended()
        assert "PodTemplateChanged" in str(world.condition("Evicted", "ray"))
        for pod in world.pods("ray"):
            world.delete(kinds.PODS, pod["metadata"]["name"])
        await asyncio.sleep(10)
        assert not world.is_suspended()
        assert world.workload("ray")["spec"]["podSets"][1]["requests"]["cpu"] == "2000m"
        assert world.granted("ray") == 2


@pytest.mark.accept("E16", part="growth whose pods become larger or smaller while it waits")
@pytest.mark.parametrize(("cpu", "want"), [("4", 0), ("1", 2)], ids=["larger", "smaller"])
def test_growth_that_waits_asks_for_what_its_pods_want_now(cpu: str, want: int) -> None:
    virtual_time.run(_changed_while_waiting(cpu, want))


async def _changed_while_waiting(cpu: str, want: int) -> None:
    world = RayWorld()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_job("other", pods=3)
        world.add_ray()
        await asyncio.sleep(10)
        world.make_pods("head", 1)
        more = {**world.group("more", 1), "template": _template("2")}
        world.patch(RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": [more]}})
        await asyncio.sleep(10)
        assert [_cpu(each) for each in world.slices("ray")] == ["2000m"]
        changed = {**world.group("more", 2), "template": _template(cpu)}
        world.patch(RAY_CLUSTERS, "ray", {"spec": {"workerGroupSpecs": [changed]}})
        world.make_pods("more", 2)
        await asyncio.sleep(10)
        assert [_cpu(each) for each in world.slices("ray")] == [f"{cpu}000m"] * 2
        world.delete(kinds.JOBS, "other")
        await asyncio.sleep(10)
        assert world.running("ray") == 1 + want
        assert not world.is_suspended()


@simulated
async def test_worker_groups_may_come_and_go_as_often_as_one_likes() -> None:
    world = RayWorld()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_ray()
        await asyncio.sleep(10)
        world.make_pods("head", 1)
        for number in range(POD_SETS_MAX + 1):
            group = f"group-{number}"
            world.scale(**{group: 1})
            world.make_pods(group, 1)
            await asyncio.sleep(10)
            (worker,) = (
                pod["metadata"]["name"] for pod in world.pods("ray") if f"-{group}-" in pod["metadata"]["name"]
            )
            assert (world.running("ray"), world.used()) == (2, 2)
            world.scale()
            world.delete(kinds.PODS, worker)
            await asyncio.sleep(10)
        granted = world.workload("ray")["status"]["admission"]["podSetAssignments"]
        assert [(each["name"], each["count"]) for each in granted] == [("head", 1)]


class Refusing:
    """A connection that refuses the first patch of each job."""

    def __init__(self, api: port.Api) -> None:
        self.watch = api.watch
        self.refused: set[str] = set()
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        kind = request.path.rsplit("/", 2)[-2]
        if request.method == "PATCH" and kind in {"jobs", "rayclusters"} and kind not in self.refused:
            self.refused.add(kind)
            return port.Response(status=403, body=b"{}")
        return await self._api.send(request)


@simulated
async def test_a_job_and_a_ray_cluster_of_one_name_are_tried_again_each_for_itself() -> None:
    world = RayWorld()
    world.add_queue(cpu=4)
    async with runtime(world, wrap=Refusing):
        world.add_job("same", pods=1)
        world.add_ray("same")
        await asyncio.sleep(10)
        assert not world.is_suspended("same")
        assert not world.job("same")["spec"]["suspend"]


def _world_with_a_strange_ray_cluster() -> RayWorld:
    world = RayWorld()
    metadata = {"name": "strange", "namespace": NAMESPACE, "labels": {keys.QUEUE_NAME: "team"}}
    named = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
    world.cluster.create(RAY_CLUSTERS, {**named, "spec": {"enableInTreeAutoscaling": "perhaps"}})
    return world


@simulated
async def test_a_ray_cluster_that_makes_no_sense_keeps_no_cluster_from_being_released() -> None:
    world, said = _world_with_a_strange_ray_cluster(), list[str]()
    now = world.cluster.server.clock.now()
    assert await release.free(world.cluster.client("admin"), release.Scope(), said.append, now=now) == []
    assert said[-1].endswith("objects freed, 0 failures")


@pytest.mark.accept("S12", part="beside jobs that make no sense to us")
@simulated
async def test_a_ray_cluster_that_makes_no_sense_keeps_no_stack_from_leaving() -> None:
    world = _world_with_a_strange_ray_cluster()
    drain = {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE, "annotations": {keys.CONFIRM_LEAVING: "true"}}
    world.cluster.create(kinds.CONFIG_MAPS, {"metadata": drain})
    async with runtime(world):
        await asyncio.sleep(20)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
    assert names.DRAIN_OBJECT not in {each["metadata"]["name"] for each in world.all(kinds.CONFIG_MAPS)}


def _cpu(workload: Body) -> str:
    cpu: str = workload["spec"]["podSets"][0]["requests"]["cpu"]
    return cpu


def _template(cpu: str = "1") -> Body:
    container = {"name": "ray", "image": "ray:2", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container]}}
