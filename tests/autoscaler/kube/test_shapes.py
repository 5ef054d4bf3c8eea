"""A pod's effective request is what Kubernetes counts; equal shapes are one object."""

from typing import Any

import msgspec
import pytest

from autoscaler.kube import objects, shapes, wire


def pod(spec: dict[str, Any], *, status: dict[str, Any] | None = None, **metadata: Any) -> wire.Pod:
    body = {"metadata": {"name": "p", "namespace": "n", **metadata}, "spec": spec, "status": status or {}}
    return wire.POD.decode(msgspec.json.encode(body))


def container(cpu: str, *, name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1500, id="containers add up"),
        pytest.param({"containers": [{"name": "c"}]}, None, id="no request"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            3000,
            id="the largest init container wins when it exceeds the rest",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("500m")]}, 1000, id="a small one does not"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", **SIDECAR)]},
            3000,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", **SIDECAR), container("3")]},
            5000,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("1", **SIDECAR)]},
            3000,
            id="but not beside those after it",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
            5000,
            id="pod-level requests replace the sum, overhead comes on top",
        ),
    ],
)
def test_effective_request(spec: dict[str, Any], want: int | None) -> None:
    assert shapes.requests(pod(spec)).get("cpu") == want


def test_while_a_resize_is_under_way_the_larger_of_old_and_new_counts() -> None:
    status = {"containerStatuses": [{"name": "c", "state": {}, "resources": {"requests": {"cpu": "3"}}}]}
    assert shapes.requests(pod({"containers": [container("1")]}, status=status))["cpu"] == 3000
    assert shapes.requests(pod({"containers": [container("5")]}, status=status))["cpu"] == 5000


def test_amounts_are_millis_for_cpu_and_units_for_the_rest() -> None:
    requests = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "1M"}
    assert shapes.amounts(dict(requests)) == {
        "cpu": 1500,
        "memory": 2**30,
        "nvidia.com/gpu": 2,
        "ephemeral-storage": 10**6,
    }


def test_pods_of_equal_shape_share_it_whatever_they_are_called() -> None:
    spec = {"containers": [container("1")], "nodeSelector": {"a": "1", "b": "2"}}
    turned = {"containers": [container("1000m", name="other")], "nodeSelector": {"b": "2", "a": "1"}}
    assert shapes.of(pod(spec, labels={"x": "1"})) is shapes.of(pod(turned, labels={"x": "2"}))


@pytest.mark.parametrize(
    "difference",
    [
        {"containers": [container("2")]},
        {"nodeSelector": {"a": "2"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {}}},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"resourceClaims": [{"name": "gpu"}]},
    ],
    ids=str,
)
def test_what_decides_where_a_pod_may_go_makes_another_shape(difference: dict[str, Any]) -> None:
    spec = {"containers": [container("1")], "nodeSelector": {"a": "1"}}
    assert shapes.of(pod(spec)) is not shapes.of(pod({**spec, **difference}))


def test_ports_of_the_host_are_those_of_containers_that_run_together_sidecars_included() -> None:
    def using(port: int, **more: Any) -> dict[str, Any]:
        return container("1", name=f"c-{port}", ports=[{"hostPort": port}], **more)

    spec = {"containers": [using(80)], "initContainers": [using(81, restartPolicy="Always"), using(82)]}
    assert shapes.of(pod(spec)).host_ports == (("", "TCP", 80), ("", "TCP", 81))


def test_labels_matter_to_a_shape_only_where_pods_look_at_each_other() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"x": "1"}}}
    spec = {"containers": [container("1")], "topologySpreadConstraints": [spread]}
    assert shapes.of(pod(spec, labels={"x": "1"})) is not shapes.of(pod(spec, labels={"x": "2"}))


def test_a_shape_that_no_pod_has_is_forgotten() -> None:
    spec = {"containers": [container("123456m")]}
    known = len(shapes._KNOWN)
    kept = shapes.of(pod(spec))
    assert len(shapes._KNOWN) == known + 1
    del kept
    assert len(shapes._KNOWN) == known


def test_a_pod_is_cut_down_to_what_is_read() -> None:
    body = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-16T06:00:00Z",
            "annotations": {"sluice.dev/x": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": True}],
        },
        "spec": {"containers": [container("1")], "schedulingGates": [{"name": "g"}]},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "lastTransitionTime": "2026-11-16T06:00:05Z",
                }
            ],
            "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}],
        },
    }
    got = objects.pod(msgspec.json.encode(body))
    assert got.meta.annotations == {"sluice.dev/x": "1"}
    assert got.meta.controller == objects.Owner("Job", "j", "o", True, "batch/v1")
    assert got.gates == ("g",)
    assert got.unschedulable_since == got.meta.created_at + 5
    assert got.waiting_reasons == ("ErrImagePull",)
    assert not got.is_terminal


@pytest.mark.parametrize(
    ("text", "want"),
    [("1e300", shapes.LARGEST), ("1e18", shapes.LARGEST), ("9223372036854775807E", shapes.LARGEST), ("1e-300", 1)],
)
def test_an_amount_beyond_all_reason_is_the_largest_there_is(text: str, want: int) -> None:
    assert shapes.amount("cpu", text) == want
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container(text), container(text)]}}
    assert objects.pod(msgspec.json.encode(body)).shape.requests["cpu"] == min(shapes.LARGEST, 2 * want)
