"""What a worker pod looks like, as the API server has it."""

import re

import pytest

from autoscaler.api import keys, version
from autoscaler.workers import pods
from tests.e2e import waiting
from tests.e2e.workers import ground, queue_servers

pytestmark = [pytest.mark.accept("W15"), pytest.mark.usefixtures("node")]


def with_a_companion() -> ground.Object:
    """Return a template as a person may write it: two containers, variables, and the mark of a ReplicaSet."""
    template = ground.running_pods("pair")
    template["metadata"]["labels"] |= {"team": "blue", "pod-template-hash": "abc"}
    template["metadata"]["annotations"] = {"note": "kept"}
    template["spec"]["containers"] = [
        {"name": "companion", "image": "example.com/companion:1", "env": [{"name": "SIDE", "value": "1"}]},
        {"name": "worker", "image": "example.com/worker:1", "env": [{"name": "MODE", "value": "fast"}]},
    ]
    return template


def test_a_worker_is_its_sources_template_made_into_a_worker(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("pair", with_a_companion())
    pool = site.make_pool(
        "looks",
        queues.fill("looks", 1),
        poolCapacity=1,
        workerSpec__idleTimeoutMinutes=7,
        workerSpec__podTemplate__source__name="pair",
    )
    (worker,) = site.wait_for_workers("looks", 1)
    meta, spec = worker["metadata"], worker["spec"]
    assert re.fullmatch(r"looks-[a-z0-9]{5}", meta["name"])
    assert meta["labels"] == {"app": "pair", "team": "blue", keys.WORKER_POOL: "looks"}
    assert meta["annotations"] == {"note": "kept"}
    assert meta["finalizers"] == [keys.FINALIZER]
    want = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "WorkerPool",
        "name": "looks",
        "uid": pool["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    assert meta["ownerReferences"] == [want]
    assert spec["restartPolicy"] == "Never"
    told = {container["name"]: container["env"] for container in spec["containers"]}
    want_variables = [
        {"name": "MODE", "value": "fast"},
        {"name": pods.IDLE_TIMEOUT, "value": "7"},
        {"name": pods.POOL, "value": "looks"},
    ]
    assert told == {"companion": [{"name": "SIDE", "value": "1"}], "worker": want_variables}


def test_the_source_needs_no_replicas_and_its_own_pods_are_its_own(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    """The source's ReplicaSet selects by labels that workers have too: it must not take them for its pods."""
    site.make_source("both", ground.running_pods("both"))
    site.make_pool("both", queues.fill("both", 2), poolCapacity=2, workerSpec__podTemplate__source__name="both")
    workers = {ground.name_of(pod) for pod in site.wait_for_workers("both", 2)}
    site.plane.api.merge(site.source_path("both"), {"spec": {"replicas": 2}})

    def own() -> set[str]:
        listed = site.plane.api.get(site.pod_path(), {"labelSelector": "app=both"})["items"]
        return {ground.name_of(pod) for pod in listed} - workers

    waiting.eventually(lambda: len(own()) == 2)
    site.plane.api.merge(site.source_path("both"), {"spec": {"replicas": 0}})
    waiting.eventually(lambda: not own())
    assert site.names("both") == workers


def test_editing_the_source_leaves_workers_alone_and_shapes_the_next(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_pool("edits", queues.fill("edits", 2))
    before = {ground.name_of(pod): pod["metadata"]["uid"] for pod in site.wait_for_workers("edits", 2)}
    template = {"spec": {"containers": [{"name": "worker", "image": "example.com/worker:2"}]}}
    site.plane.api.merge(site.source_path(ground.SOURCE), {"spec": {"template": template}})
    queues.fill("edits", 3)
    after = {pod["metadata"]["uid"]: pod for pod in site.wait_for_workers("edits", 3)}
    assert set(before.values()) < set(after)
    images = {uid: pod["spec"]["containers"][0]["image"] for uid, pod in after.items()}
    assert sorted(images.values()) == ["example.com/worker:1", "example.com/worker:1", "example.com/worker:2"]
    assert {images[uid] for uid in before.values()} == {"example.com/worker:1"}
