"""What a worker pod looks like, as the API server has it."""

import re

import pytest

from autoscaler.api import keys, version
from autoscaler.workers import pods
from tests.e2e import waiting
from tests.e2e.workers import ground, queue_servers
from tests.e2e.workers.test_lifecycle import wait_for_polls

pytestmark = pytest.mark.usefixtures("node")
RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
ADDED = {"nodeName", "serviceAccount", "serviceAccountName", "priority", "preemptionPolicy", "enableServiceLinks"}
"""What the API server and the scheduler add to the spec of every pod."""


def with_a_companion() -> ground.Object:
    """Return a template as a person may write it: two containers, variables, and the mark of a ReplicaSet."""
    template = ground.running_pods("pair")
    template["metadata"]["labels"] |= {"team": "blue", "pod-template-hash": "abc"}
    template["metadata"]["annotations"] = {"note": "kept"}
    mine = [{"name": "MODE", "value": f"$({pods.POOL})"}, {"name": pods.IDLE_TIMEOUT, "value": "99"}]
    template["spec"] |= {
        "automountServiceAccountToken": False,  # or the API server adds a volume to each container
        "terminationGracePeriodSeconds": 5,
        "initContainers": [{"name": "before", "image": "example.com/before:1"}],
        "containers": [
            {"name": "companion", "image": "example.com/companion:1", "env": [{"name": "SIDE", "value": "1"}]},
            {"name": "worker", "image": "example.com/worker:1", "env": mine},
            {"name": "watcher", "image": "example.com/watcher:1"},
        ],
    }
    return template


@pytest.mark.accept("W15")
def test_a_worker_is_its_sources_template_made_into_a_worker_and_stays_as_it_was_made(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_source("pair", with_a_companion())
    source = site.plane.api.get(site.source_path("pair"))["spec"]
    assert source["replicas"] == 0
    pool = site.make_pool(
        "looks",
        queues.fill("looks", 1),
        poolCapacity=1,
        workerSpec__idleTimeoutMinutes=7,
        workerSpec__podTemplate__source__name="pair",
    )
    (worker,) = site.wait_for_workers("looks", 1)
    check_metadata(worker, pool)
    check_spec(worker["spec"], source["template"]["spec"])
    site.wait_for_status("looks", runningWorkers=1)

    (before,) = site.workers("looks")
    changed = {"containers": [{"name": "worker", "image": "example.com/worker:2"}]}
    site.plane.api.merge(site.source_path("pair"), {"spec": {"template": {"spec": changed}}})
    site.change("looks", poolCapacity=2)
    site.wait_for_workers("looks", 2)
    wait_for_polls(queues, "looks", 2)
    after = {ground.name_of(pod): pod for pod in site.workers("looks")}
    assert len(after) == 2
    old = after.pop(ground.name_of(before))
    assert old["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in old["metadata"]
    assert old["spec"] == before["spec"]
    ((name, new),) = after.items()
    assert re.fullmatch(f"looks-{RANDOM}", name)
    assert [one["image"] for one in new["spec"]["containers"]] == ["example.com/worker:2"]


def check_metadata(worker: ground.Object, pool: ground.Object) -> None:
    meta = worker["metadata"]
    assert re.fullmatch(f"looks-{RANDOM}", meta["name"])
    assert meta["labels"] == {"app": "pair", "team": "blue", keys.WORKER_POOL: "looks"}
    assert meta["annotations"].keys() == {"note", keys.TEMPLATE_HASH}
    assert meta["annotations"]["note"] == "kept"
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


def check_spec(spec: ground.Object, template: ground.Object) -> None:
    """Compare a worker with the template as the API server has it: each has the same defaults."""
    companion, worker, watcher = template["containers"]
    ours = [{"name": pods.IDLE_TIMEOUT, "value": "7"}, {"name": pods.POOL, "value": "looks"}]
    want = {
        **template,
        "restartPolicy": "Never",
        "containers": [companion, {**worker, "env": [*ours, worker["env"][0]]}, watcher],
    }
    tolerations = want.pop("tolerations")
    got = {key: value for key, value in spec.items() if key not in ADDED}
    assert got.pop("tolerations")[: len(tolerations)] == tolerations
    assert got == want


@pytest.mark.accept("W15", part="the source's ReplicaSet does not take workers for its own pods")
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
