"""A RayCluster is a head and its worker groups, each as large as KubeRay wants it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.jobs.ray_cluster import RayCluster
from tests.autoscaler.admission.jobs import manifests

MI = 2**20
SMALL = st.integers(min_value=0, max_value=20)


@given(replicas=SMALL, low=SMALL, more=SMALL, hosts=st.integers(min_value=1, max_value=4))
def test_a_group_is_as_large_as_its_bounds_allow(replicas: int, low: int, more: int, hosts: int) -> None:
    group = manifests.group(replicas=replicas, minReplicas=low, maxReplicas=low + more, numOfHosts=hosts)
    _, workers = manifests.ray_cluster(group).pod_sets
    want = sorted((low, replicas, low + more))[1] * hosts
    assert (workers.size, workers.replica_pods) == (want, hosts)


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param({"replicas": 3, "minReplicas": 2, "suspend": True}, 0, id="a group that is suspended itself"),
        pytest.param({"replicas": None, "minReplicas": 2}, 2, id="replicas unset"),
        pytest.param({"replicas": 7, "minReplicas": None, "maxReplicas": None}, 7, id="no bounds"),
        pytest.param({"replicas": 3, "numOfHosts": -1}, 0, id="nonsense"),
    ],
)
def test_size_of_a_group(group: dict[str, Any], want: int) -> None:
    _, workers = manifests.ray_cluster(manifests.group(**group)).pod_sets
    assert workers.size == want


def test_a_replica_has_at_least_one_pod() -> None:
    _, workers = manifests.ray_cluster(manifests.group(numOfHosts=0)).pod_sets
    assert workers.replica_pods == 1


def test_pod_sets_are_the_head_and_the_groups_in_their_order() -> None:
    got = manifests.ray_cluster(manifests.group("small", replicas=2), manifests.group("large", replicas=1))
    assert [(each.name, each.size) for each in got.pod_sets] == [("head", 1), ("small", 2), ("large", 1)]
    assert got.problem is None


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"cpu": 1000}, id="no autoscaler"),
        pytest.param({"enableInTreeAutoscaling": True}, {"cpu": 1500, "memory": 512 * MI}, id="with its defaults"),
        pytest.param(
            {
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": {"resources": {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "2"}}},
            },
            {"cpu": 3000, "memory": MI},
            id="with what the cluster says, and its limits for the rest",
        ),
        pytest.param(
            {"enableInTreeAutoscaling": True, "autoscalerOptions": {"resources": {}}},
            {"cpu": 1000},
            id="with nothing where the cluster says so",
        ),
        pytest.param(
            {"enableInTreeAutoscaling": True, "autoscalerOptions": {"idleTimeoutSeconds": 60}},
            {"cpu": 1500, "memory": 512 * MI},
            id="options without resources",
        ),
    ],
)
def test_the_head_requests_its_autoscaler_too(spec: dict[str, Any], want: dict[str, int]) -> None:
    (head,) = manifests.ray_cluster(head=manifests.template(cpu="1"), spec=spec).pod_sets
    assert head.requests == want


@pytest.mark.parametrize(
    ("cpu", "want"),
    [
        pytest.param("1", {"cpu": 1000, "memory": 256 * MI}, id="by memory alone"),
        pytest.param("100m", {"cpu": 200, "memory": 256 * MI}, id="by all of it"),
    ],
)
def test_a_small_worker_requests_what_waiting_for_the_head_takes(cpu: str, want: dict[str, int]) -> None:
    _, workers = manifests.ray_cluster(manifests.group(template=manifests.template(cpu=cpu))).pod_sets
    assert workers.requests == want


@pytest.mark.parametrize(
    ("names", "want", "kept"),
    [
        pytest.param(["head", "a"], "a worker group is named head", ["head", "a"], id="named as the head"),
        pytest.param(["a", "b", "a"], "2 worker groups are named a", ["head", "a", "b"], id="twice"),
        pytest.param(["Big", "a"], "'Big' is no DNS label", ["head", "a"], id="capitals"),
        pytest.param(["x" * 64, "a"], "is no DNS label", ["head", "a"], id="too long"),
        pytest.param(["a\n"], "is no DNS label", ["head"], id="an end of line"),
        pytest.param(
            [f"g{n}" for n in range(16)],
            "there are 16 worker groups, and at most 15",
            ["head", *(f"g{n}" for n in range(15))],
            id="too many",
        ),
    ],
)
@pytest.mark.accept("E2", part="worker groups that cannot be pod sets are told")
def test_groups_that_cannot_be_pod_sets_are_left_out_and_told(names: list[str], want: str, kept: list[str]) -> None:
    got = manifests.ray_cluster(*(manifests.group(name) for name in names))
    assert [each.name for each in got.pod_sets] == kept
    assert got.problem is not None
    assert want in got.problem


def test_there_may_be_as_many_groups_as_pod_sets_beside_the_head() -> None:
    got = manifests.ray_cluster(*(manifests.group(f"g{n}") for n in range(15)))
    assert (len(got.pod_sets), got.problem) == (16, None)


def test_of_two_groups_with_one_name_the_first_counts() -> None:
    got = manifests.ray_cluster(manifests.group(replicas=2), manifests.group(replicas=3))
    assert [each.size for each in got.pod_sets] == [1, 2]


def test_a_group_that_kuberay_refuses_takes_no_quota_and_is_told() -> None:
    got = manifests.ray_cluster(manifests.group("w", replicas=1, minReplicas=5, maxReplicas=3))
    want = "worker group w has minReplicas 5, more than maxReplicas 3, which KubeRay refuses: change one of them"
    assert got.problem == want
    assert manifests.ray_cluster(manifests.group("w", minReplicas=3, maxReplicas=3)).problem is None


def test_all_problems_are_told_at_once() -> None:
    claims = manifests.template(resourceClaims=manifests.CLAIM)
    got = manifests.ray_cluster(manifests.group("Big"), manifests.group("a", template=claims), head=claims)
    assert got.problem is not None
    wants = ("the worker group name 'Big' is no DNS label", "the pods of head ask for", "the pods of a ask for")
    for want, told in zip(wants, got.problem.split("; "), strict=True):
        assert told.startswith(want)


@pytest.mark.accept("E19", part="RayClusters of a RayJob or RayService are left alone with a reason")
@pytest.mark.parametrize(
    ("spec", "owners", "want"),
    [
        pytest.param({}, [], None, id="nobody else"),
        pytest.param({}, manifests.owner("RayJob"), "owned by RayJob train", id="a RayJob"),
        pytest.param({}, manifests.owner("RayService"), "owned by RayService train", id="a RayService"),
        pytest.param({}, manifests.owner("RayJob", is_controller=False), None, id="no controller"),
        pytest.param({}, manifests.owner("Notebook"), None, id="any other owner"),
        pytest.param({"managedBy": "ray.io/kuberay-operator"}, [], None, id="KubeRay by name"),
        pytest.param(
            {"managedBy": "kueue.x-k8s.io/multikueue"}, [], "managed by kueue.x-k8s.io/multikueue", id="another cluster"
        ),
    ],
)
def test_a_cluster_that_somebody_else_runs_is_left_alone(
    spec: dict[str, Any], owners: list[dict[str, Any]], want: str | None
) -> None:
    assert manifests.ray_cluster(spec=spec, ownerReferences=owners).left_alone == want


def test_what_decisions_read() -> None:
    got = manifests.ray_cluster(
        manifests.group(template=manifests.template(priorityClassName="low", nodeSelector={"zone": "a"})),
        head=manifests.template(priorityClassName="high"),
        spec={"suspend": True},
        labels={"sluice.dev/queue-name": "door"},
    )
    assert (got.kind, got.api_version, got.queue, got.is_suspended) == ("RayCluster", "ray.io/v1", "door", True)
    assert (got.priority_class, got.finished) == ("high", None)
    assert got.pod_sets[1].constraints.node_selector == {"zone": "a"}


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, ("head", None), id="the head"),
        pytest.param(
            {"ray.io/node-type": "worker", "ray.io/group": "a", "ray.io/worker-group-replica-index": "10"},
            ("a", 10),
            id="a worker",
        ),
        pytest.param({"ray.io/node-type": "worker", "ray.io/group": "a"}, ("a", None), id="a worker without an index"),
        pytest.param(
            {"ray.io/group": "a", "ray.io/worker-group-replica-index": "mine"},
            ("a", None),
            id="an index of a user's own",
        ),
        pytest.param({}, ("", None), id="a pod of nobody"),
    ],
)
def test_pod_set_and_place_of_a_pod(labels: dict[str, str], want: tuple[str, int | None]) -> None:
    pod = manifests.pod(**labels)
    assert (RayCluster().pod_set_of(pod), RayCluster().place_of(pod)) == want


@pytest.mark.parametrize("want", [True, False])
def test_suspension(*, want: bool) -> None:
    assert RayCluster().suspension(is_suspended=want) == {"spec": {"suspend": want}}
