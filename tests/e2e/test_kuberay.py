"""What KubeRay's operator makes of RayClusters, as far as admission relies on it: seen on the real one."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import groups, rays, waiting
from tools.local.api import Api
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

COMPONENTS = USUAL - {Component.MOTO, Component.NODE_REGISTRAR} | {Component.KUBERAY}
REPOSITORY = Path(__file__).parents[2]
Object = dict[str, Any]
GATE = "example.com/gate"
HOLD = "example.com/hold"
"""A finalizer that keeps a pod terminating."""


@pytest.fixture(scope="module")
def ray_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with the operator and a large node."""
    with Plane.start(tmp_path_factory.mktemp("ray"), Options(components=COMPONENTS)) as plane:
        plane.api.create("/api/v1/nodes", rays.node("large"))
        waiting.eventually(lambda: groups.is_schedulable(plane.api.get("/api/v1/nodes/large")))
        waiting.eventually(lambda: plane.api.request("GET", f"{rays.API}/rayclusters").ok)
        yield plane


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """One RayCluster and its pods."""

    api: Api
    name: str

    @property
    def path(self) -> str:
        return f"{rays.API}/namespaces/default/rayclusters/{self.name}"

    def make(self, *groups: Object, **spec: Any) -> None:
        self.api.create(self.path.rpartition("/")[0], rays.cluster(self.name, *groups, **spec))

    def change(self, **spec: Any) -> None:
        self.api.merge(self.path, {"spec": spec})

    def status(self) -> Object:
        status: Object = self.api.get(self.path).get("status", {})
        return status

    def pods(self, group: str | None = None) -> list[Object]:
        return rays.pods(self.api, "default", self.name, group)

    def head(self) -> Object:
        [pod] = self.pods("headgroup")
        return pod

    def names(self, group: str = "small") -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods(group)}

    def delete_pod(self, name: str) -> None:
        self.api.delete(f"/api/v1/namespaces/default/pods/{name}")

    def hold(self, name: str, *finalizers: str) -> None:
        """Keep a deleted pod from going, or let it go."""
        self.api.merge(f"/api/v1/namespaces/default/pods/{name}", {"metadata": {"finalizers": list(finalizers)}})

    def settle(self, group: str, count: int) -> set[str]:
        """Wait until a group has so many pods and none of them terminates."""

        def settled() -> bool:
            there = self.pods(group)
            assert len(there) == count, f"{count} pods of {group} wanted, there are {len(there)}"
            assert not any("deletionTimestamp" in pod["metadata"] for pod in there)
            return True

        waiting.eventually(settled)
        return self.names(group)

    def await_handled(self) -> None:
        """Wait until the operator has dealt with all that was changed: it takes RayClusters one after the other."""
        after = Ray(api=self.api, name=rays.unique("after"))
        after.make(suspend=True)
        waiting.eventually(lambda: after.status().get("state") == "suspended")
        self.api.delete(after.path)


@pytest.fixture
def ray(ray_plane: Plane) -> Iterator[Ray]:
    """A RayCluster of the test's own, not made yet."""
    made = Ray(api=ray_plane.api, name=rays.unique("ray"))
    yield made
    made.api.delete(made.path)


def test_gates_of_templates_arrive_on_the_pods_of_head_and_workers(ray: Ray) -> None:
    ray.make(rays.group(gates=[GATE]), rays.group("free"), gates=[GATE])
    ray.settle("small", 1)
    ray.settle("free", 1)
    for pod in (ray.head(), *ray.pods("small")):
        assert pod["spec"]["schedulingGates"] == [{"name": GATE}]
    waiting.eventually(lambda: ray.pods("free")[0]["status"]["phase"] == "Running")
    assert ray.head()["status"]["phase"] == "Pending"


def test_pods_say_whose_they_are(ray: Ray) -> None:
    ray.make(rays.group(replicas=2))
    ray.settle("small", 2)
    uid = ray.api.get(ray.path)["metadata"]["uid"]
    for pod in ray.pods():
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("ray.io/v1", "RayCluster", ray.name)
        assert (owner["uid"], owner["controller"]) == (uid, True)
        assert pod["metadata"]["labels"][rays.CLUSTER] == ray.name
    head = ray.head()["metadata"]
    assert (head["labels"][rays.NODE_TYPE], head["labels"][rays.GROUP]) == ("head", "headgroup")
    assert head["name"].startswith(f"{ray.name}-head-")
    workers = [pod["metadata"]["labels"] for pod in ray.pods("small")]
    assert {labels[rays.NODE_TYPE] for labels in workers} == {"worker"}
    assert {labels[rays.REPLICA_INDEX] for labels in workers} == {"0", "1"}
    assert not any(rays.HOST_INDEX in labels or rays.REPLICA_NAME in labels for labels in workers)


def test_a_cluster_that_is_born_suspended_has_no_pods_until_it_is_resumed(ray: Ray) -> None:
    ray.make(rays.group(), suspend=True)
    waiting.eventually(lambda: ray.status().get("state") == "suspended")
    assert ray.pods() == []
    ray.change(suspend=False)
    ray.settle("small", 1)
    ray.settle("headgroup", 1)


def test_suspend_deletes_all_pods_and_only_an_explicit_false_resumes(ray: Ray) -> None:
    ray.make(rays.group(replicas=2))
    before = ray.settle("small", 2)
    ray.change(suspend=True)
    waiting.eventually(lambda: ray.status().get("state") == "suspended")
    assert ray.pods() == []
    conditions = {each["type"]: each["status"] for each in ray.status()["conditions"]}
    assert (conditions["RayClusterSuspended"], conditions["RayClusterSuspending"]) == ("True", "False")

    ray.change(suspend=None)
    ray.await_handled()
    assert ray.pods() == []

    ray.change(suspend=False)
    assert not ray.settle("small", 2) & before


def test_a_suspended_group_loses_its_pods_and_the_others_keep_theirs(ray: Ray) -> None:
    ray.make(rays.group(replicas=2), rays.group("other", 1))
    ray.settle("small", 2)
    others = ray.settle("other", 1)
    ray.change(workerGroupSpecs=[rays.group(replicas=2, suspend=True), rays.group("other", 1)])
    ray.settle("small", 0)
    assert ray.settle("other", 1) == others
    assert len(ray.pods("headgroup")) == 1


def test_more_replicas_keep_the_pods_that_are_there(ray: Ray) -> None:
    ray.make(rays.group(replicas=1))
    before = ray.settle("small", 1)
    ray.change(workerGroupSpecs=[rays.group(replicas=3)])
    assert before < ray.settle("small", 3)
    indexes = {pod["metadata"]["labels"][rays.REPLICA_INDEX] for pod in ray.pods("small")}
    assert indexes == {"0", "1", "2"}


def test_fewer_replicas_delete_any_of_the_pods_in_no_order(ray: Ray) -> None:
    """It takes them as its cache lists them: neither the youngest, nor those that wait, nor the highest index first."""
    ray.make(rays.group(replicas=4))
    before = ray.settle("small", 4)
    ray.change(workerGroupSpecs=[rays.group(replicas=1)])
    assert ray.settle("small", 1) < before


def test_with_in_tree_autoscaling_only_the_workers_that_are_named_go(ray: Ray) -> None:
    ray.make(rays.group(replicas=3), enableInTreeAutoscaling=True)
    before = ray.settle("small", 3)
    ray.change(workerGroupSpecs=[rays.group(replicas=1)])
    ray.await_handled()
    assert ray.settle("small", 3) == before

    named = sorted(before)[1]
    ray.change(workerGroupSpecs=[rays.group(replicas=1, scaleStrategy={"workersToDelete": [named]})])
    assert ray.settle("small", 2) == before - {named}
    ray.await_handled()
    assert ray.names() == before - {named}
    [group] = ray.api.get(ray.path)["spec"]["workerGroupSpecs"]
    assert group["scaleStrategy"]["workersToDelete"] == [named]  # whoever named it takes it off


def test_a_named_worker_goes_and_is_replaced_where_the_replicas_stay(ray: Ray) -> None:
    ray.make(rays.group(replicas=2))
    before = ray.settle("small", 2)
    named = min(before)
    ray.change(workerGroupSpecs=[rays.group(replicas=2, scaleStrategy={"workersToDelete": [named]})])
    waiting.eventually(lambda: named not in ray.names())
    after = ray.settle("small", 2)
    assert before - {named} < after


@pytest.mark.parametrize(("replicas", "want"), [(0, 2), (3, 3), (9, 4)])
def test_replicas_are_kept_within_their_bounds(ray: Ray, replicas: int, want: int) -> None:
    ray.make(rays.group(replicas=replicas, minReplicas=2, maxReplicas=4))
    ray.settle("small", want)


def test_a_worker_group_that_is_added_later_gets_its_pods(ray: Ray) -> None:
    ray.make(rays.group())
    before = ray.settle("small", 1)
    ray.change(workerGroupSpecs=[rays.group(), rays.group("later", 2, gates=[GATE])])
    ray.settle("later", 2)
    assert ray.names() == before
    assert all(pod["spec"]["schedulingGates"] == [{"name": GATE}] for pod in ray.pods("later"))


def test_pods_of_a_worker_group_that_is_taken_out_run_on(ray: Ray) -> None:
    ray.make(rays.group(), rays.group("gone", 2))
    ray.settle("small", 1)
    left = ray.settle("gone", 2)
    ray.change(workerGroupSpecs=[rays.group(replicas=2)])
    ray.settle("small", 2)
    ray.await_handled()
    assert ray.settle("gone", 2) == left


def test_hosts_of_one_replica_share_its_name_and_index_and_go_together(ray: Ray) -> None:
    ray.make(rays.group("slices", 2, numOfHosts=2))
    ray.settle("slices", 4)
    labels = [pod["metadata"]["labels"] for pod in ray.pods("slices")]
    assert {(each[rays.REPLICA_INDEX], each[rays.HOST_INDEX]) for each in labels} == {
        (replica, host) for replica in "01" for host in "01"
    }
    assert len({(each[rays.REPLICA_NAME], each[rays.REPLICA_INDEX]) for each in labels}) == 2

    [victim, mate] = [pod for pod in ray.pods("slices") if pod["metadata"]["labels"][rays.REPLICA_INDEX] == "0"]
    ray.delete_pod(victim["metadata"]["name"])
    waiting.eventually(lambda: mate["metadata"]["name"] not in ray.names("slices"))
    ray.settle("slices", 4)


def test_a_head_that_is_deleted_comes_again_and_the_workers_stay(ray: Ray) -> None:
    ray.make(rays.group(), gates=[GATE])
    workers = ray.settle("small", 1)
    ray.settle("headgroup", 1)
    old = ray.head()["metadata"]["uid"]
    ray.delete_pod(ray.head()["metadata"]["name"])
    waiting.eventually(lambda: [pod for pod in ray.pods("headgroup") if pod["metadata"]["uid"] != old])
    assert ray.head()["spec"]["schedulingGates"] == [{"name": GATE}]
    assert ray.settle("small", 1) == workers


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_worker_that_has_ended_is_deleted_and_replaced(ray: Ray, phase: str) -> None:
    ray.make(rays.group())
    [name] = ray.settle("small", 1)
    ray.api.merge(f"/api/v1/namespaces/default/pods/{name}/status", {"status": {"phase": phase}})
    waiting.eventually(lambda: name not in ray.names())
    ray.settle("small", 1)


def test_a_worker_that_terminates_is_replaced_only_when_it_is_gone(ray: Ray) -> None:
    ray.make(rays.group(replicas=2))
    before = ray.settle("small", 2)
    leaving = min(before)
    ray.hold(leaving, HOLD)
    ray.delete_pod(leaving)
    # It counts as one of three: the operator adds one, and sees no reason for a second.
    ray.change(workerGroupSpecs=[rays.group(replicas=3)])
    waiting.eventually(lambda: len(ray.names()) == 3)
    ray.await_handled()
    assert len(ray.names()) == 3
    ray.hold(leaving)
    assert leaving not in ray.settle("small", 3)


def test_workers_request_at_least_what_the_operators_init_container_does(ray: Ray) -> None:
    ray.make(rays.group(cpu="10m"))
    ray.settle("small", 1)
    [pod] = ray.pods("small")
    [init] = pod["spec"]["initContainers"]
    assert init["resources"]["requests"] == {"cpu": "200m", "memory": "256Mi"}
    assert "restartPolicy" not in init  # it ends before the others start: the larger request counts, not the sum
    assert "initContainers" not in ray.head()["spec"]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, {"cpu": "500m", "memory": "512Mi"}),
        ({"autoscalerOptions": {"resources": {"requests": {"cpu": "50m"}}}}, {"cpu": "50m"}),
    ],
)
def test_in_tree_autoscaling_adds_a_container_to_the_head(ray: Ray, options: Object, want: Object) -> None:
    ray.make(rays.group(replicas=0), enableInTreeAutoscaling=True, **options)
    ray.settle("headgroup", 1)
    requests = {each["name"]: each["resources"].get("requests") for each in ray.head()["spec"]["containers"]}
    assert requests == {"ray": {"cpu": "250m", "memory": "256Mi"}, "autoscaler": want}


def test_the_example_is_accepted(ray_plane: Plane) -> None:
    example = yaml.safe_load((REPOSITORY / "examples" / "elastic-jobs" / "ray-cluster.yaml").read_text())
    strictly = {"fieldValidation": "Strict", "dryRun": "All"}
    answer = ray_plane.api.request("POST", f"{rays.API}/namespaces/default/rayclusters", example, query=strictly)
    assert answer.ok, answer
