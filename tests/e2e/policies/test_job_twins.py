"""The twins of the policies about queued jobs, pods' stamps and Workloads say what the API server says."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.policies import base, identities, pod_stamps
from autoscaler.api.policies.jobs import job_gates, job_queue, queued, redis_cleanup, workloads
from tests import builders
from tests.e2e.policies import ground, jobs
from tests.e2e.policies.ground import CUSTOM, RUNTIME, RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tests.e2e.policies.jobs import GATE, JOBS, OTHER, RAY_CLUSTER, RAY_CLUSTERS, RAY_JOB
from tools.local.api import Api, Response
from tools.local.components import Component
from tools.local.plane import Plane

Object = dict[str, Any]
REAL = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
DRY = {"dryRun": "All"}
HOME = "twins"
COLLECTOR = identities.account_user("kube-system", "generic-garbage-collector")
STOPPED = [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": ""}]
GOING_ON = [{**STOPPED[0], "status": "False"}, {**STOPPED[0], "type": "Other"}]
JOB_STATES: dict[str, Object] = {
    "waiting": {},
    "running": {"suspend": False, "status": {**jobs.STARTED, **jobs.ACTIVE}},
    "stopping": {"status": {**jobs.STARTED, **jobs.ACTIVE}},
    "starting": {"status": jobs.STARTED},
    "fresh": {"suspend": False},
    "going-on": {"status": {**jobs.STARTED, "conditions": GOING_ON}},
    "stopped": {"status": {**jobs.STARTED, "conditions": STOPPED}},
    "lagging": {"status": {**jobs.STARTED, **jobs.ACTIVE, "conditions": STOPPED}},
}
QUEUES = [None, "q"]


@pytest.fixture(scope="module")
def field(policed_plane: Plane) -> Iterator[Ground]:
    """Jobs and RayClusters in every state, queued or not, pods with and without stamps, and a Workload.

    The Job controller stands still meanwhile, for the status of these Jobs is the test's own.
    """
    made = Ground(plane=policed_plane)
    made.add_namespace(HOME)
    policed_plane.send(Component.CONTROLLER_MANAGER, signal.SIGSTOP)
    try:
        yield from _filled(made)
    finally:
        policed_plane.send(Component.CONTROLLER_MANAGER, signal.SIGCONT)
    made.close()


def _filled(made: Ground) -> Iterator[Ground]:
    for queue in QUEUES:
        for state, changes in JOB_STATES.items():
            _make_job(made, f"{state}-{queue}".lower(), queue, **changes)
        for suspend in (True, False):
            name = f"{'waiting' if suspend else 'running'}-{queue}".lower()
            made.make(RAY_CLUSTERS.format(HOME), jobs.ray_cluster(name, jobs.group("a"), queue=queue, suspend=suspend))
            made.api.merge(f"{RAY_CLUSTERS.format(HOME)}/{name}", {"spec": {"suspend": suspend or None}})
    managed = jobs.ray_cluster("managed", jobs.group("a"), suspend=True, managedBy=jobs.ELSEWHERE)
    made.make(RAY_CLUSTERS.format(HOME), managed)
    with made.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as runtime:
        runtime.create(f"{CUSTOM}/namespaces/{HOME}/workloads", _workload())
        runtime.merge(f"{CUSTOM}/namespaces/{HOME}/workloads/kept/status", {"status": {"position": 1}})
        for name, annotations in (("stamped", STAMPED), ("plain", {"app": "x"})):
            runtime.create(f"/api/v1/namespaces/{HOME}/pods", _pod(name, annotations))
        yield made
        runtime.merge(f"{CUSTOM}/namespaces/{HOME}/workloads/kept", {"metadata": {"finalizers": None}})


def _make_job(
    made: Ground, name: str, queue: str | None, *, suspend: bool = True, status: Object | None = None
) -> None:
    path = f"{JOBS.format(HOME)}/{name}"
    gates = [GATE, OTHER] if queue else [OTHER]
    made.make(JOBS.format(HOME), jobs.job(name, queue=queue, gates=gates, suspend=suspend))
    made.api.merge(path, {"spec": {"suspend": suspend}})
    if status:
        made.api.merge(f"{path}/status", {"status": status})


@pytest.fixture(scope="module")
def users(field: Ground) -> Iterator[dict[str, Api]]:
    accounts = ((RUNTIME_NAMESPACE, RUNTIME_ACCOUNT), ("kube-system", "generic-garbage-collector"))
    apis = {identities.account_user(*account): field.as_account(*account) for account in accounts}
    yield {"admin": field.api, **apis}
    for api in apis.values():
        api.close()


LABELS = st.sampled_from([None, "", "q", "other"])
OWNERS = st.sampled_from(
    [
        None,
        RAY_JOB,
        {**RAY_JOB, "kind": "RayService"},
        {**RAY_JOB, "kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha2"},
        {**RAY_JOB, "controller": False},
        {key: value for key, value in RAY_JOB.items() if key != "controller"},
        {**RAY_JOB, "apiVersion": "example.com/v1"},
        {**RAY_JOB, "kind": "Workflow"},
    ]
)
GATES = st.none() | st.sampled_from([[], [OTHER], [GATE], [OTHER, GATE], [GATE, OTHER], [{"name": "example.com/new"}]])
HEADS = {"queue": LABELS, "owner": OWNERS}
SUSPEND = {"suspend": st.booleans()}
MANAGERS = st.sampled_from([jobs.ELSEWHERE, queued.JOB_CONTROLLER, queued.KUBERAY])
JOB_WRITES = st.fixed_dictionaries({**HEADS, "gates": GATES}, optional=SUSPEND)
RAY_WRITES = st.fixed_dictionaries(HEADS, optional={**SUSPEND, "managedBy": MANAGERS})
STRANGERS = st.sampled_from(["admin", COLLECTOR])
GROUPS = st.lists(
    st.builds(jobs.group, st.sampled_from(["a", "b"]), GATES)
    | st.sampled_from([{"groupName": "bare"}, {"groupName": "barer", "template": {}}]),
    max_size=3,
)


@REAL
@given(write=JOB_WRITES, manager=st.none() | MANAGERS)
def test_new_jobs_are_changed_alike(field: Ground, write: Object, manager: str | None) -> None:
    managed: Object = {} if manager is None else {"managedBy": manager}  # which can never be changed
    _compare_new(field, job_gates.JOB, JOBS, jobs.job("new", **write, **managed))


BARE_HEADS: list[Object | None] = [None, {}, {"template": {}}]
HEAD_GROUPS = st.sampled_from(BARE_HEADS) | st.builds(lambda gates: {"template": jobs.template(gates)}, GATES)


@REAL
@given(write=RAY_WRITES, groups=GROUPS, head=HEAD_GROUPS)
def test_new_ray_clusters_are_changed_alike(
    field: Ground, write: Object, groups: list[Object], head: Object | None
) -> None:
    body = jobs.ray_cluster("new", *groups, **write)
    body["spec"] = _without(body["spec"], "headGroupSpec") | ({} if head is None else {"headGroupSpec": head})
    _compare_new(field, job_gates.RAY_CLUSTER, RAY_CLUSTERS, body)


CLEANS_UP = st.fixed_dictionaries(
    {
        "owner": st.sampled_from(
            [None, RAY_CLUSTER, {**RAY_CLUSTER, "controller": False}, {**RAY_CLUSTER, "kind": "Job"}]
        )
    },
    optional={"queue": LABELS, "gates": GATES},
)


@REAL
@given(write=CLEANS_UP, node_type=st.sampled_from(["redis-cleanup", "head"]))
def test_new_jobs_that_clear_a_store_are_changed_alike(field: Ground, write: Object, node_type: str) -> None:
    body = jobs.job("new", **{"queue": None, **write})
    body["metadata"].setdefault("labels", {})[keys.RAY_NODE_TYPE] = node_type
    request = base.Request(operation=base.Operation.CREATE, object=body)
    queued_too = base.Request(operation=base.Operation.CREATE, object=job_gates.JOB.twin(request))
    want = redis_cleanup.POLICY.twin(queued_too)
    _compare_specs(field.api.request("POST", JOBS.format(HOME), body, query=DRY).required(), want)


def _compare_new(field: Ground, policy: base.MutatingPolicy, path: str, body: Object) -> None:
    want = policy.twin(base.Request(operation=base.Operation.CREATE, object=body))
    _compare_specs(field.api.request("POST", path.format(HOME), body, query=DRY).required(), want)


def _compare_specs(got: Object, want: Object) -> None:
    assert got["spec"].get("suspend", False) == want["spec"].get("suspend", False)
    assert _all_gates(got) == _all_gates(want)


def _all_gates(body: Object) -> list[Any]:
    spec = body["spec"]
    groups = [spec] if "template" in spec else [spec.get("headGroupSpec", {}), *spec.get("workerGroupSpecs", [])]
    return [group.get("template", {}).get("spec", {}).get("schedulingGates") or [] for group in groups]


@settings(REAL, max_examples=30)
@given(write=JOB_WRITES, user=STRANGERS)
def test_jobs_that_are_there_are_changed_and_refused_alike(
    field: Ground, users: dict[str, Api], write: Object, user: str
) -> None:
    for name in (jobs.LEGACY, *(f"{state}-{queue}".lower() for state in JOB_STATES for queue in QUEUES)):
        _compare_job(field, users, name, write, user)


def _compare_job(field: Ground, users: dict[str, Api], name: str, write: Object, user: str) -> None:
    path = f"{JOBS.format('default' if name == jobs.LEGACY else HOME)}/{name}"
    old = field.api.get(path)
    body = _rewritten(old, jobs.job(name, **write))
    request = base.Request(operation=base.Operation.UPDATE, object=body, old_object=old, username=user)
    want = job_gates.JOB.twin(request)
    why = job_queue.JOB.twin(request)
    if _all_gates(want) != _all_gates(old) and not queued.is_at_rest(old):
        why = "field is immutable"
    _compare_update(users[user].request("PUT", path, body, query=DRY), want, why)


@REAL
@given(
    name=st.sampled_from([f"{state}-{queue}".lower() for state in ("waiting", "running") for queue in QUEUES])
    | st.just("managed"),
    write=RAY_WRITES,
    groups=GROUPS,
    user=STRANGERS,
)
def test_ray_clusters_that_are_there_are_changed_and_refused_alike(
    field: Ground, users: dict[str, Api], name: str, write: Object, groups: list[Object], user: str
) -> None:
    path = f"{RAY_CLUSTERS.format(HOME)}/{name}"
    old = field.api.get(path)
    body = jobs.ray_cluster(name, *groups, **write)
    body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    request = base.Request(operation=base.Operation.UPDATE, object=body, old_object=old, username=user)
    answer = users[user].request("PUT", path, body, query=DRY)
    _compare_update(answer, job_gates.RAY_CLUSTER.twin(request), job_queue.RAY_CLUSTER.twin(request))


def _rewritten(old: Object, sent: Object) -> Object:
    """Write a Job as it is stored, but with the labels, owners, suspension and gates that are sent.

    Where no gates are sent they are those of its author's manifest: the stored ones without ours.
    """
    metadata = {**old["metadata"], "labels": {}, **sent["metadata"]}
    pods = old["spec"]["template"]["spec"]
    own = {"schedulingGates": [gate for gate in pods.get("schedulingGates", []) if gate != GATE]}
    gated = {**pods, **own, **sent["spec"]["template"]["spec"], "containers": pods["containers"]}
    template = {**old["spec"]["template"], "spec": gated}
    spec = {**_without(old["spec"], "suspend"), **sent["spec"], "template": template}
    return {**old, "metadata": metadata, "spec": spec}


def _compare_update(answer: Response, want: Object, why: str | None) -> None:
    assert answer.ok == (why is None), (answer.body, why)
    if why is None:
        _compare_specs(answer.body, want)
    else:
        assert why in answer.body["message"]


def _without(body: Object, name: str) -> Object:
    return {key: value for key, value in body.items() if key != name}


STAMPED = {keys.JOB_UID: "u", keys.POD_SET: "main", keys.CLUSTER_QUEUE: "q", keys.FLAVORS: "", keys.OPENED_AT: "1"}
ANNOTATIONS = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from([value, "forged"]) for key, value in {**STAMPED, "app": "x"}.items()}
)


def _pod(name: str, annotations: Object | None) -> Object:
    body = ground.pod(name, schedulingGates=[OTHER])
    return body if annotations is None else {**body, "metadata": {"name": name, "annotations": annotations}}


@REAL
@given(
    name=st.sampled_from(["new", "plain", "stamped"]),
    annotations=st.none() | st.just(STAMPED) | ANNOTATIONS,
    user=st.sampled_from(["admin", RUNTIME]),
    subresource=st.sampled_from(["", "/status"]),
)
def test_stamps_are_kept_alike(
    field: Ground, users: dict[str, Api], name: str, annotations: Object | None, user: str, subresource: str
) -> None:
    path = f"/api/v1/namespaces/{HOME}/pods"
    old = None if name == "new" else field.api.get(f"{path}/{name}")
    body = _pod(name, annotations)
    if old is None:
        answer = users[user].request("POST", path, body, query=DRY)
    else:
        body = {**old, "metadata": {**_without(old["metadata"], "annotations"), **body["metadata"]}}
        answer = users[user].request("PUT", f"{path}/{name}{subresource}", body, query=DRY)
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    request = base.Request(operation=operation, object=body, old_object=old, username=user)
    why = pod_stamps.kept_by(RUNTIME).twin(request)
    assert answer.ok == (why is None), (answer.body, why)
    assert answer.ok or (why or "") in answer.body["message"]


def _workload() -> Object:
    labels, finalizers = {keys.JOB_UID: "u"}, [keys.FINALIZER]
    metadata = {"name": "kept", "namespace": HOME, "labels": labels, "finalizers": finalizers}
    return {**builders.resource("Workload"), "metadata": metadata}


OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
METADATA_FIELDS: dict[str, list[Any]] = {
    "labels": [{}, {keys.JOB_UID: "u"}, {keys.JOB_UID: "forged"}],
    "annotations": [{}, {"a": "b"}],
    "finalizers": [[], [keys.FINALIZER], [keys.FINALIZER, "foregroundDeletion"]],
    "ownerReferences": [[], [OWNER]],
}
SPEC_FIELDS: dict[str, list[Any]] = {
    "active": [True, False],
    "queueName": ["door", "other"],
    "priority": [0, 1000],
    "podSets": [[{"name": "main", "count": 3}], [{"name": "main", "count": 4}]],
}
FIELDS = {"metadata": METADATA_FIELDS, "spec": SPEC_FIELDS}
METADATA, WORKLOAD_SPECS = (
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in fields.items()})
    for fields in FIELDS.values()
)
WORKLOAD_CHANGES = st.one_of(
    st.builds(lambda spec: {"spec": spec}, WORKLOAD_SPECS),
    st.builds(lambda metadata: {"metadata": metadata}, METADATA),
    st.builds(lambda metadata, spec: {"metadata": metadata, "spec": spec}, METADATA, WORKLOAD_SPECS),
)


def test_each_field_of_a_workload_is_kept_alike(field: Ground, users: dict[str, Api]) -> None:
    path = f"{CUSTOM}/namespaces/{HOME}/workloads/kept"
    old = field.api.get(path)
    changes = [(part, {name: value}) for part, fields in FIELDS.items() for name in fields for value in fields[name]]
    for part, change in changes:
        body = {**old, part: {**old[part], **change}}
        for user, api in users.items():
            _compare_workload(api.request("PUT", path, body, query=DRY), old, body, user)


@REAL
@given(changes=WORKLOAD_CHANGES, user=st.sampled_from(["admin", COLLECTOR, RUNTIME]))
def test_workloads_are_kept_alike(field: Ground, users: dict[str, Api], changes: Object, user: str) -> None:
    path = f"{CUSTOM}/namespaces/{HOME}/workloads/kept"
    old = field.api.get(path)
    body = {**old, **{part: {**old[part], **change} for part, change in changes.items()}}
    _compare_workload(users[user].request("PUT", path, body, query=DRY), old, body, user)


@REAL
@given(position=st.none() | st.sampled_from([1, 2]), user=st.sampled_from(["admin", RUNTIME]))
def test_the_status_of_workloads_is_kept_alike(
    field: Ground, users: dict[str, Api], position: int | None, user: str
) -> None:
    path = f"{CUSTOM}/namespaces/{HOME}/workloads/kept"
    old = field.api.get(path)
    body = {**old, "status": {} if position is None else {"position": position}}
    _compare_workload(users[user].request("PUT", f"{path}/status", body, query=DRY), old, body, user)


def _compare_workload(answer: Response, old: Object, body: Object, user: str) -> None:
    request = base.Request(operation=base.Operation.UPDATE, object=body, old_object=old, username=user)
    why = workloads.kept_by(RUNTIME).twin(request)
    assert answer.ok == (why is None), (answer.body, why)
    assert answer.ok or (why or "") in answer.body["message"]
