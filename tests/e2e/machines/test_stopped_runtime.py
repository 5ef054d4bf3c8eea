"""The runtime is stopped: queued jobs and guests are made as ever, and nobody else notices.

What all others get is compared with what they get from an API server that knows nothing of us. Only DaemonSets differ
there, with the runtime or without: they tolerate our taints. One that tolerates everything is as it was.
"""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import crds, keys, machine_pods
from tests.e2e import replicas, waiting
from tests.e2e.machines import ground
from tests.e2e.machines.ground import TYPE, Ground, Object, gates_of, machine_type
from tests.e2e.policies import jobs
from tools.local.api import Api
from tools.local.components import Component, Options
from tools.local.plane import Plane

STORE = frozenset({Component.ETCD, Component.API_SERVER})
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DRY = {"dryRun": "All"}


@pytest.fixture
def bare(start_plane: Callable[[Options], Plane], alone: Ground) -> Api:
    """An API server without anything of ours, with the namespaces that the test uses."""
    api = start_plane(Options(components=STORE)).api
    labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
    api.create("/api/v1/namespaces", {"metadata": {"name": alone.group, "labels": labels}})
    for namespace in (alone.group, "default"):
        api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    jobs.define_ray_clusters(api)
    return api


def run_and_stop(site: Ground, kubeconfig: Path) -> None:
    """Let the runtime write what there is of machines, see all policies answer, and stop it."""
    site.add_node(cpu="4")
    with ground.replica(site.plane, kubeconfig, "admission,machines") as replica:
        replicas.ready(replica)
        site.add_machine(machine_type(cpu="2"))
        site.wait_for_rooms(n1=1)
        waiting.eventually(lambda: are_in_force(site))
        replica.send(signal.SIGTERM)
        assert replica.wait() == 0


def are_in_force(site: Ground) -> bool:
    """Tell whether the policies answer: each comes into force by itself, after seconds."""
    labels = {keys.MACHINE_GROUP: site.group, keys.MACHINE_TYPE: TYPE}
    for path, body in (
        (jobs.JOBS.format(site.group), jobs.job("probe")),
        (jobs.RAY_CLUSTERS.format(site.group), jobs.ray_cluster("probe")),
    ):
        made = site.api.request("POST", path, body, query=DRY).required()
        assert (made["spec"]["suspend"], jobs.gates_of(made)[0]) == (True, [jobs.GATE])
    return bool(gates_of(site.api.request("POST", site.pods, pod("probe", labels), query=DRY).required()))


def webhooks(api: Api) -> list[str]:
    """Name all that the API server asks others before it stores or returns an object."""
    found = [each for kind in ("mutating", "validating") for each in api.get(HOOKS.format(kind))["items"]]
    ours = {manifest["metadata"]["name"] for manifest in crds.all_crds()}
    definitions = [each for each in api.get(jobs.DEFINITIONS)["items"] if each["metadata"]["name"] in ours]
    assert len(definitions) == len(ours)
    found += [each for each in definitions if each["spec"]["conversion"]["strategy"] != "None"]
    return [each["metadata"]["name"] for each in found]


def pod(name: str, labels: Object | None = None) -> Object:
    """Write a pod that says nothing of resources."""
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": pod_spec()}


def pod_spec(**spec: Any) -> Object:
    return {"containers": [{"name": "main", "image": "app:1"}], "automountServiceAccountToken": False, **spec}


def others(site: Ground) -> Iterator[tuple[str, Object]]:
    """Yield objects that do not ask for anything of ours, each with where it is made."""
    core, apps = f"/api/v1/namespaces/{site.group}", f"/apis/apps/v1/namespaces/{site.group}"
    asking = {keys.MACHINE_GROUP: site.group, keys.MACHINE_TYPE: TYPE}
    for labels in ({}, {"app": "a"}, {keys.MACHINE_GROUP: site.group}, {keys.MACHINE_TYPE: TYPE}):
        yield f"{core}/pods", pod("other", labels)
    yield "/api/v1/namespaces/default/pods", pod("other", asking)  # where there are no guests
    for queue in (None, ""):
        yield jobs.JOBS.format(site.group), jobs.job("other", queue=queue)
        yield jobs.RAY_CLUSTERS.format(site.group), jobs.ray_cluster("other", jobs.group("one"), queue=queue)
    labels = {"app": "a"}
    metadata = {"name": "other", "labels": labels}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec()}}
    for kind in ("deployments", "replicasets"):
        yield f"{apps}/{kind}", {"metadata": metadata, "spec": spec}
    yield f"{apps}/statefulsets", {"metadata": metadata, "spec": {**spec, "serviceName": "other"}}
    tolerant = {"metadata": {"labels": labels}, "spec": pod_spec(tolerations=[{"operator": "Exists"}])}
    yield f"{apps}/daemonsets", {"metadata": metadata, "spec": {**spec, "template": tolerant}}
    scheduled = {"schedule": "@daily", "jobTemplate": {"spec": {"template": jobs.template()}}}
    yield f"/apis/batch/v1/namespaces/{site.group}/cronjobs", {"metadata": metadata, "spec": scheduled}
    yield f"{core}/services", {"metadata": metadata, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield f"{core}/persistentvolumeclaims", {"metadata": metadata, "spec": claim}
    for kind in ("configmaps", "secrets"):
        yield f"{core}/{kind}", {"metadata": metadata, "data": {"key": "YQ=="}}
    yield f"{core}/serviceaccounts", {"metadata": metadata}
    yield "/api/v1/namespaces", {"metadata": metadata}
    yield "/api/v1/nodes", {"metadata": metadata}


def stored(api: Api, path: str, body: Object) -> Object:
    """Return an object as it would be stored, without what is new each time."""
    made = api.request("POST", path, body, query=DRY).required()
    same: Object = json.loads(json.dumps(made).replace(made["metadata"]["uid"], "uid"))
    for name in ("creationTimestamp", "managedFields"):
        same["metadata"].pop(name, None)
    return same


def has_succeeded(site: Ground, job: str) -> bool:
    status = site.api.get(f"{jobs.JOBS.format(site.group)}/{job}")["status"]
    assert status.get("succeeded") == 2, status
    return True


@pytest.mark.accept("R6")
def test_without_the_runtime_jobs_and_guests_are_made_as_ever_and_all_else_is_left_alone(
    alone: Ground, machine_plane: Plane, runtime_kubeconfig: Path, bare: Api
) -> None:
    jobs.define_ray_clusters(machine_plane.api)
    run_and_stop(alone, runtime_kubeconfig)
    assert webhooks(alone.api) == []

    # Queued jobs are suspended, and all their pods would be gated.
    job = alone.api.create(jobs.JOBS.format(alone.group), jobs.job("queued"))
    ray = alone.api.create(jobs.RAY_CLUSTERS.format(alone.group), jobs.ray_cluster("queued", jobs.group("one")))
    assert (job["spec"]["suspend"], jobs.gates_of(job)) == (True, [[jobs.GATE]])
    assert (ray["spec"]["suspend"], jobs.gates_of(ray)) == (True, [[jobs.GATE]] * 2)

    # A guest gets its machine's resources and what takes it there, and waits.
    guest = alone.add_guest("guest")
    amounts = {"cpu": "2", "memory": "4Gi"}
    assert guest["metadata"]["labels"][keys.POD_ROLE] == keys.ROLE_GUEST
    assert guest["spec"]["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert all(each in guest["spec"]["tolerations"] for each in machine_pods.tolerations(alone.group, TYPE))
    terms = [{"matchExpressions": machine_pods.node_requirements(alone.group, TYPE, None)}]
    assert guest["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": terms}
    assert gates_of(guest) == {keys.MACHINE_GATE}

    # All others are stored as if we were not there, and run.
    for path, body in others(alone):
        assert stored(alone.api, path, body) == stored(bare, path, body), path
    alone.api.create(jobs.JOBS.format(alone.group), jobs.job("plain", queue=None))

    waiting.eventually(lambda: has_succeeded(alone, "plain"))
    assert alone.api.get(alone.pods, {"labelSelector": "job-name=queued"})["items"] == []
    assert gates_of(alone.guest("guest")) == {keys.MACHINE_GATE}

    # The runtime is back, and serves whoever waited.
    with ground.replica(machine_plane, runtime_kubeconfig):
        assert alone.wait_for_place("guest") == alone.nodes[0]
        alone.delete_guest("guest")
        alone.api.delete(f"{ground.MACHINES}/{alone.group}")
        waiting.eventually(lambda: not alone.left_over(), within_seconds=30)
