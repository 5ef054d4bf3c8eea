"""A template's requests are those that its pods will have once the API server has filled them in."""

from typing import Any

import msgspec
import pytest

from autoscaler.admission.jobs import templates


def spec(**body: Any) -> templates.PodSpec:
    return msgspec.json.decode(msgspec.json.encode({"spec": body}), type=templates.Template).spec


def container(requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"containers": [container({"cpu": "1"}, {"cpu": "2"})]}, {"cpu": 1000}, id="a request stands"),
        pytest.param(
            {"containers": [container({"cpu": "1"}, {"nvidia.com/gpu": "2"})]},
            {"cpu": 1000, "nvidia.com/gpu": 2},
            id="a limit alone is a request",
        ),
        pytest.param(
            {"containers": [container({}, {"cpu": "1"})], "initContainers": [container({}, {"cpu": "3"})]},
            {"cpu": 3000},
            id="of init containers too",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"}, {})], "resources": {"limits": {"cpu": "4", "memory": "5"}}},
            {"cpu": 1000, "memory": 5},
            id="a pod's limit is a request where no container has one",
        ),
        pytest.param(
            {"containers": [], "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}},
            {"cpu": 2000},
            id="and where the pod has none",
        ),
    ],
)
def test_requests(body: dict[str, Any], want: dict[str, int]) -> None:
    assert templates.requests(spec(**body)) == want


def test_a_pod_set_keeps_where_its_pods_may_go() -> None:
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    }
    read = spec(
        containers=[], nodeSelector={"zone": "a"}, affinity=affinity, tolerations=[{"key": "k", "operator": "Exists"}]
    )
    got = templates.wanted("a", read, size=3, replica_pods=2)
    assert (got.name, got.size, got.replica_pods) == ("a", 3, 2)
    assert got.constraints.node_selector == {"zone": "a"}
    assert got.constraints.affinity is not None
    assert [each.key for each in got.constraints.tolerations] == ["k"]


def test_devices_by_claim_cannot_be_counted() -> None:
    want = (
        "the pods of a ask for devices by resource claims, which quota does not count: ask for them by resource"
        " requests, or take the queue label off"
    )
    assert templates.problem("a", spec(resourceClaims=[{"name": "gpu"}])) == want
    assert templates.problem("a", spec()) is None
