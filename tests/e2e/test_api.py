"""The custom resources on the real API server: accepted, established, defaulted, shown and guarded as promised."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import crds, manifests, resources, version
from autoscaler.api.resources import machines
from tests import builders
from tests.e2e import bad_objects, waiting
from tools.local.api import Response
from tools.local.plane import Plane

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
KINDS = {kind.__name__: kind for kind in resources.KINDS}


def path(kind: str, name: str = "") -> str:
    definition = KINDS[kind].definition
    namespace = "/namespaces/default" if definition.namespaced else ""
    return f"/apis/{version.GROUP_VERSION}{namespace}/{definition.plural}" + (f"/{name}" if name else "")


def create(plane: Plane, manifest: builders.Manifest, **query: str) -> Response:
    return plane.api.request("POST", path(manifest["kind"]), manifest, query={"fieldValidation": "Strict", **query})


@pytest.fixture(scope="module")
def api(plane: Plane) -> Plane:
    """The plane with our definitions applied the way a person would, and every kind served."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
    plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", "crd", "-l", "app.kubernetes.io/part-of=sluice"
    )
    waiting.eventually(lambda: all(plane.api.request("GET", path(kind)).ok for kind in KINDS))
    # This also makes kubectl forget what it knew of the API server before.
    served = plane.kubectl("api-resources", "--api-group", version.GROUP, "-o", "name").split()
    assert len(served) == len(KINDS)
    return plane


@pytest.fixture
def created(api: Plane) -> Iterator[Any]:
    """Create objects that are gone after the test."""
    made: list[tuple[str, str]] = []

    def make(manifest: builders.Manifest) -> builders.Manifest:
        body: builders.Manifest = create(api, manifest).required()
        made.append((manifest["kind"], manifest["metadata"]["name"]))
        return body

    yield make
    for kind, name in made:
        api.api.delete(path(kind, name))


def test_all_definitions_are_established_without_complaint(api: Plane) -> None:
    for crd in crds.all_crds():
        name = crd["metadata"]["name"]
        stored = api.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
        assert conditions["Established"] == "True", name
        assert conditions["NamesAccepted"] == "True", name
        assert "NonStructuralSchema" not in conditions, name


def test_short_names_are_nobody_elses(api: Plane) -> None:
    ours = {name for kind in resources.KINDS for name in kind.definition.short_names}
    lines = api.kubectl("api-resources", "--no-headers").splitlines()
    foreign = [line.split() for line in lines if version.GROUP not in line]
    taken = {name for words in foreign if len(words) == 5 for name in words[1].split(",")}
    assert ours & (taken | {words[0] for words in foreign}) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_object_of_each_kind_is_accepted(api: Plane, kind: str) -> None:
    assert create(api, builders.resource(kind), dryRun="All").required()["kind"] == kind


def test_there_are_enough_bad_objects() -> None:
    assert len(bad_objects.ALL) >= 80
    assert len({bad.id for bad in bad_objects.ALL}) == len(bad_objects.ALL)


@pytest.mark.parametrize(
    "bad",
    [pytest.param(bad, id=bad.id, marks=pytest.mark.accept(*bad.promises)) for bad in bad_objects.ALL],
)
def test_a_bad_object_is_refused_and_its_field_named(api: Plane, bad: bad_objects.Bad) -> None:
    answer = create(api, builders.resource(bad.kind, name=bad.name, **bad.changes), dryRun="All")
    assert answer.status == 422, answer.body
    assert bad.names in answer.body["message"]
    assert bad.says in answer.body["message"]


def test_an_unknown_field_is_an_error(api: Plane) -> None:
    answer = create(api, builders.resource("WorkerPool", poolCapcity=3), dryRun="All")
    assert answer.status == 400
    assert 'unknown field "spec.poolCapcity"' in answer.body["message"]


@pytest.mark.accept("W5", "W6", "W9")
@pytest.mark.parametrize(
    "changes",
    [
        {"poolCapacity": 0},
        {"workerPoolClassName": None},
        {"workerPoolClassName": "batch"},
        {"queue__interval": "00:00:01"},
        {"queue__interval": "23:59:59"},
        {"workerSpec__idleTimeoutMinutes": 1},
        {"queue__source__type": "prometheus", "queue__source__query": "sum(jobs)"},
        {"queue__source__endpoint": "http://web-server:8080/length?queue=a@b"},
        {"status": "Shutdown"},
    ],
    ids=str,
)
def test_the_edges_of_a_worker_pool_are_legal(api: Plane, changes: dict[str, Any]) -> None:
    create(api, builders.resource("WorkerPool", **changes), dryRun="All").required()


@pytest.mark.accept("M8")
@pytest.mark.parametrize(
    "changes",
    [
        {"machineTypes__0__spec__gpu": {"type": "nvidia.com/gpu", "num": 2, "product": "NVIDIA-GeForce-RTX-3090"}},
        {"machineTypes__0__spec__gpu": {"type": "nvidia.com/gpu", "num": 1, "machine": "DGX-1"}},
        {"machineTypes__0__spec__cpu": 6},
        {"machineTypes__0__available": 0},
        {"nodePool": []},
        {"nodePool__0__name": ..., "nodePool__0__nodeSelector": {"node.type": "worker"}},
        {
            "machineTypes": [
                {"name": "medium", "spec": {"cpu": 4, "memory": "8Gi"}, "available": 1},
                {
                    "name": "half",
                    "spec": {"dependence": {"parent": "medium", "availableRatio": 50}, "hostLimit": 80},
                    "available": 2,
                },
            ]
        },
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_the_edges_of_a_machine_are_legal(api: Plane, changes: dict[str, Any]) -> None:
    create(api, builders.resource("Machine", **changes), dryRun="All").required()


@pytest.mark.accept("M4", part="the longest name of a StatefulSet")
def test_a_type_and_its_group_may_have_51_characters_together(api: Plane) -> None:
    create(api, builders.resource("Machine", name="g" * 45), dryRun="All").required()


def test_the_largest_legal_machine_is_within_what_the_api_server_evaluates(api: Plane) -> None:
    types = [
        {"name": f"t{number:02d}", "spec": {"cpu": "1", "memory": "1Gi"}, "available": 1}
        for number in range(machines.TYPES_MAX)
    ]
    nodes: list[builders.Manifest] = [
        {"name": f"{number:03d}" + "n" * 250, "mode": "ready", "machineType": [{"name": f"t{number % 32:02d}"}]}
        for number in range(machines.NODES_MAX)
    ]
    create(api, builders.resource("Machine", machineTypes=types, nodePool=nodes), dryRun="All").required()
    for number, entry in enumerate(nodes):
        del entry["name"]
        keys = [f"{place}{'k' * 250}/{'n' * 60}" for place in range(machines.SELECTOR_MAX)]
        entry["nodeSelector"] = dict.fromkeys(keys, f"{number:03d}{'v' * 60}")
    create(api, builders.resource("Machine", machineTypes=types, nodePool=nodes), dryRun="All").required()


@pytest.mark.accept("R5")
@pytest.mark.parametrize(
    "text", ["1", "500m", "1.5Gi", "1e99", "1E-99", ".5", "5.", "+1", "1E", "100000000000000000000n"]
)
def test_a_quantity_that_the_api_server_takes_can_be_read(api: Plane, text: str) -> None:
    machine = create(api, builders.resource("Machine", machineTypes__0__spec__cpu=text), dryRun="All").required()
    assert resources.Machine.model_validate(machine).spec.machine_types[0].spec.cpu == text


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "gpu", "value": "yes"},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ],
    ids=str,
)
def test_a_flavor_takes_every_toleration_that_a_pod_takes(api: Plane, toleration: dict[str, Any]) -> None:
    create(api, builders.resource("ResourceFlavor", tolerations=[toleration]), dryRun="All").required()


def test_defaults_of_a_worker_pool_appear(api: Plane) -> None:
    spec = create(api, builders.resource("WorkerPool"), dryRun="All").required()["spec"]
    assert spec["status"] == "Active"
    assert spec["queue"]["source"]["type"] == "http"
    assert spec["workerSpec"]["podTemplate"]["source"]["kind"] == "Deployment"
    assert spec["workerSpec"]["retainFailedWorkers"] is False


@pytest.mark.accept("P4")
def test_defaults_of_an_instance_pool_appear(api: Plane) -> None:
    spec = create(api, builders.resource("InstancePool"), dryRun="All").required()["spec"]
    assert spec == {
        "providerAccount": "aws",
        "enabled": True,
        "instanceWide": True,
        "ephemeral": False,
        "limits": {"maxIdleSeconds": 3600},
        "specifications": {"capacityType": "on-demand"},
        "registrationTimeoutSeconds": 900,
        "drainSeconds": 3600,
    }


def test_defaults_of_the_other_kinds_appear(api: Plane) -> None:
    machine = create(api, builders.resource("Machine"), dryRun="All").required()["spec"]
    assert (machine["provision"], machine["nodePool"][0]["taint"]) == (False, False)
    queue = create(api, builders.resource("ClusterQueue"), dryRun="All").required()["spec"]
    assert (queue["queueingStrategy"], queue["stopPolicy"]) == ("BestEffortFIFO", "None")
    assert queue["preemption"] == {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    workload = create(api, builders.resource("Workload"), dryRun="All").required()["spec"]
    assert workload["priority"] == 0


@pytest.mark.accept("E2", part="a Workload of either kind of job is stored as it is")
@pytest.mark.parametrize(
    "pod_sets",
    [
        [{"name": "main", "count": 3, "requests": {"cpu": "500m"}}],
        [
            {"name": "head", "count": 1, "requests": {"cpu": "1500m", "memory": "2560Mi"}},
            {"name": "gpu-workers", "count": 4, "requests": {"cpu": 8, "nvidia.com/gpu": 1}},
            {
                "name": "cpu-workers",
                "count": 0,
                "nodeSelector": {"node.type": "worker"},
                "affinity": {"podAffinity": {}},
            },
        ],
    ],
    ids=["Job", "RayCluster"],
)
def test_a_workload_holds_the_pods_of_either_kind_of_job(api: Plane, pod_sets: list[builders.Manifest]) -> None:
    stored = create(api, builders.resource("Workload", podSets=pod_sets), dryRun="All").required()
    assert stored["spec"]["podSets"] == pod_sets


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ResourceFlavor"])
def test_status_cannot_be_changed_through_the_object_itself(api: Plane, created: Any, kind: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T06:00:00Z"}]}
    manifest = builders.resource(kind)
    assert "status" not in created({**manifest, "status": status})
    name = manifest["metadata"]["name"]
    assert "status" not in api.api.merge(path(kind, name), {"status": status})
    assert api.api.merge(path(kind, name) + "/status", {"status": status})["status"] == status


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("MachineNodePool", "machineGroup", "special"),
        ("ProviderAccount", "provider", "static"),
        ("InstancePool", "providerAccount", "other"),
        ("Instance", "pool", "cpu"),
        ("Instance", "number", 8),
        ("LocalQueue", "clusterQueue", "other"),
    ],
)
def test_what_must_not_change_cannot_be_changed(api: Plane, created: Any, kind: str, field: str, value: Any) -> None:
    manifest = builders.resource(kind)
    created(manifest)
    answer = api.api.request(
        "PATCH",
        path(kind, manifest["metadata"]["name"]),
        {"spec": {field: value}},
        content_type="application/merge-patch+json",
    )
    assert answer.status == 422
    assert f"spec.{field}" in answer.body["message"]
    assert "cannot be changed after creation" in answer.body["message"]


@pytest.mark.accept("W16")
def test_worker_pools_are_shown_as_in_the_seed(api: Plane, created: Any) -> None:
    created(builders.resource("WorkerPool", status="Shutdown", poolCapacity=1, queue__interval="00:01:00"))
    status = {"runningWorkers": 0, "pendingWorkers": 0, "queueSize": 0, "currentCapacity": 1}
    api.api.merge(path("WorkerPool", "cloudworkers") + "/status", {"status": status})
    head, row = api.kubectl("get", "workerpools", "cloudworkers", "-o", "wide").splitlines()
    want = (
        "NAME RUNNINGWORKERS PENDINGWORKERS QUEUESIZE CURRENTCAPACITY WORKERPOOLCLASSNAME STATUS POOLCAPACITY INTERVAL"
    )
    seeds = [*want.split(), "APIROOT"]
    assert head.split() == [*seeds, "READY", "AGE"]
    *cells, age = row.split()
    assert " ".join(cells) == "cloudworkers 0 0 0 1 Shutdown 1 00:01:00 https://web-server/api/job/peek_queue"
    assert re.fullmatch("[0-9]+s", age)


@pytest.mark.accept("W16")
def test_a_worker_pool_that_is_not_ready_says_so_beside_the_status_that_was_asked_for(api: Plane, created: Any) -> None:
    created(builders.resource("WorkerPool"))
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": "2026-11-16T06:00:00Z"}
        for kind, status in (("Other", "True"), ("Ready", "False"))
    ]
    api.api.merge(path("WorkerPool", "cloudworkers") + "/status", {"status": {"conditions": conditions}})
    head, row = (line.split() for line in api.kubectl("get", "wp", "cloudworkers").splitlines())
    assert head[-2:] == ["READY", "AGE"]
    assert "Active" in row
    assert row[-2] == "False"


def test_a_worker_pool_scales_like_a_deployment(api: Plane, created: Any) -> None:
    created(builders.resource("WorkerPool"))
    api.kubectl("scale", "wp", "cloudworkers", "--replicas=7")
    assert api.api.get(path("WorkerPool", "cloudworkers"))["spec"]["poolCapacity"] == 7
    status = {"workers": 3, "selector": "sluice.dev/worker-pool=cloudworkers"}
    api.api.merge(path("WorkerPool", "cloudworkers") + "/status", {"status": status})
    scale = api.api.get(path("WorkerPool", "cloudworkers") + "/scale")
    assert scale["status"] == {"replicas": 3, "selector": "sluice.dev/worker-pool=cloudworkers"}


def test_get_sluice_lists_objects_of_all_kinds(api: Plane, created: Any) -> None:
    for kind in KINDS:
        created(builders.resource(kind))
    listed = api.kubectl("get", "sluice", "-o", "name").split()
    plurals = {line.split(".", 1)[0] for line in listed}
    assert plurals == {kind.lower() for kind in KINDS}


def test_explain_tells_what_a_field_is_for(api: Plane) -> None:
    text = api.kubectl("explain", "workerpool.spec.workerSpec.idleTimeoutMinutes")
    assert "exits by itself" in text
    assert "FIELD: idleTimeoutMinutes <integer>" in text


@pytest.mark.parametrize(
    "example",
    [*sorted(EXAMPLES.glob("*.yaml")), *(EXAMPLES / "elastic-jobs" / name for name in ("queues.yaml", "job.yaml"))],
    ids=lambda example: example.name,
)
def test_every_example_is_accepted(api: Plane, example: Path) -> None:
    said = api.kubectl("apply", "--dry-run=server", "-f", "-", stdin=example.read_text(encoding="utf-8"))
    assert said.count("created (server dry run)") == len(said.splitlines()) >= 1
