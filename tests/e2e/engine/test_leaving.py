"""Leaving on real parts: a pool and a whole stack are emptied before they go, and a dead runtime holds nobody back."""

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import keys, names, resources, version
from autoscaler.kube import kinds, owned_marks
from tests import builders
from tests.e2e import waiting
from tests.e2e.engine import stacks
from tools.engine.engine import Engine, EngineError
from tools.engine.layout import REPOSITORY, Surroundings
from tools.engine.results import Result
from tools.local.components import Options
from tools.local.plane import Plane
from tools.stack import replicas

GROUP = "aws:autoscaling/group:Group"
POOL = "kubernetes:sluice.dev/v1alpha1:InstancePool"
PATIENCE_SECONDS = 60.0
STAY_SECONDS = 8.0
HOME = "sluice-system"
PARTS = {keys.part_finalizer(part) for part in ("admission", "capacity", "machines", "workers")}
Object = dict[str, Any]


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    return start_plane(Options(boot_seconds=0.5))


@pytest.fixture
def engine(plane: Plane, tmp_path: Path) -> Engine:
    """An engine that knows the local stack, without any state."""
    return Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))


def start(plane: Plane) -> None:
    """Start the runtime, and wait until it holds what it must let go."""
    replicas.start(plane, replicas.deployment(plane))
    waiting.eventually(lambda: set(finalizers(plane, drain_object())) == PARTS, within_seconds=PATIENCE_SECONDS)
    paths = [pool_path(pool) for pool in stacks.objects(plane, "instancepools")]
    waiting.eventually(lambda: all(keys.FINALIZER in finalizers(plane, path) for path in paths))


def drain_object() -> str:
    return kinds.CONFIG_MAPS.path(names.DRAIN_OBJECT, HOME)


def pool_path(name: str) -> str:
    return f"{stacks.GROUPS}/instancepools/{name}"


def finalizers(plane: Plane, path: str) -> list[str]:
    found: list[str] = plane.api.get(path)["metadata"].get("finalizers", [])
    return found


def draining(plane: Plane, pool: str) -> Object:
    """Return what a pool says about its removal."""
    conditions = plane.api.get(pool_path(pool)).get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Draining"), {})


def run_work(plane: Plane, name: str, pool: str) -> str:
    """Run a pod that ends by itself on an instance of a pool; return its node."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}
    spec = {"containers": [container], "nodeSelector": {keys.INSTANCE_POOL: pool}, "restartPolicy": "Never"}
    plane.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    return waiting.eventually(lambda: node_of(plane, name), within_seconds=PATIENCE_SECONDS)


def node_of(plane: Plane, pod: str) -> str:
    found: str = plane.api.get(f"/api/v1/namespaces/default/pods/{pod}")["spec"].get("nodeName", "")
    return found


def end_work(plane: Plane, name: str) -> None:
    """Let the pod end well."""
    plane.api.merge(f"/api/v1/namespaces/default/pods/{name}/status", {"status": {"phase": "Succeeded"}})


def run_service(plane: Plane, name: str) -> None:
    """Run a Deployment of two pods, of which one must always be there."""
    labels = {"app": name}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "nodeSelector": {keys.NODE_TYPE: "worker"}},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    plane.api.create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": name}, "spec": spec})
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    plane.api.create(path, {"metadata": {"name": name}, "spec": budget})


def nodes_of_service(plane: Plane, name: str) -> list[str]:
    """Return the nodes of a service's pods that are ready and stay."""
    pods = plane.api.get("/api/v1/namespaces/default/pods", {"labelSelector": f"app={name}"})["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return [pod["spec"].get("nodeName", "") for pod in staying if pod["status"].get("phase") == "Running"]


def stays(check: Callable[[], bool]) -> None:
    """See that something is true for longer than the runtime waits before it lets go."""
    until = time.monotonic() + STAY_SECONDS
    while time.monotonic() < until:
        assert check()
        time.sleep(waiting.INTERVAL_SECONDS)


@contextlib.contextmanager
def under_way(work: Callable[[], Result]) -> Iterator["concurrent.futures.Future[Result]"]:
    """Run the engine beside the test; an error of it is the test's."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        yield running
        running.result()


@pytest.mark.accept("S1", "S12")
def test_a_pool_and_then_the_stack_are_emptied_before_they_go(plane: Plane, engine: Engine) -> None:
    aws, empty = stacks.Aws(plane=plane), stacks.inventory(plane)
    document = stacks.local()
    pools = document["config"]["sluice:clusters"]["local"]["nodePools"]
    pools["more"] = {"nodeType": "worker", "instanceTypes": ["r5.large"], "zones": ["eu-west-1b"], "drainSeconds": 600}
    engine.write_stack("local", document)
    engine.up("local")
    start(plane)
    more = "local.more.eu-west-1b.r5.large"

    # One pool is taken out of the config, while a pod works on its instance and services run there.
    node = run_work(plane, "sums", "more")
    run_service(plane, "web")
    waiting.eventually(lambda: set(nodes_of_service(plane, "web")) == {node}, within_seconds=PATIENCE_SECONDS)
    del pools["more"]
    engine.write_stack("local", document)
    with under_way(lambda: engine.up("local")) as running:
        waiting.eventually(lambda: draining(plane, "more").get("reason") == "WorkRunning", within_seconds=60)
        waiting.eventually(
            lambda: (moved := nodes_of_service(plane, "web")) and len(moved) == 2 and node not in moved,
            within_seconds=2 * PATIENCE_SECONDS,
        )
        waiting.eventually(lambda: "1 pod still run: default/sums" in draining(plane, "more")["message"])
        assert not running.done()
        assert aws.groups()[more]["Instances"]  # the instance is there, and so is the work
        assert node_of(plane, "sums") == node
        end_work(plane, "sums")
    assert "more" not in stacks.objects(plane, "instancepools")
    assert more not in aws.groups()
    deleted = [f"{entry.type} {entry.name}" for entry in engine.journal() if entry.method == "delete"]
    assert stacks.before(deleted, f"{POOL} local.objects.instancepool.more", f"{GROUP} local.pool.more")

    # The whole stack goes, while a pod works and somebody's worker pool is in a namespace that goes along.
    run_work(plane, "last", "workers")
    theirs = builders.resource("WorkerPool", name="theirs")
    theirs["metadata"].pop("namespace", None)
    plane.api.create(f"{stacks.GROUPS}/namespaces/research/workerpools", theirs)
    theirs_path = f"{stacks.GROUPS}/namespaces/research/workerpools/theirs"
    waiting.eventually(lambda: keys.FINALIZER in finalizers(plane, theirs_path))
    with under_way(lambda: engine.destroy("local")) as running:
        waiting.eventually(lambda: draining(plane, "workers").get("reason") == "WorkRunning", within_seconds=60)
        waiting.eventually(lambda: not finalizers(plane, theirs_path))
        waiting.eventually(lambda: finalizers(plane, drain_object()) == [keys.part_finalizer("capacity")])
        stays(lambda: finalizers(plane, drain_object()) == [keys.part_finalizer("capacity")])
        assert not running.done()
        assert plane.api.get("/api/v1/namespaces/research")["status"]["phase"] == "Active"
        assert "local.workers.eu-west-1a.m5.xlarge" in aws.groups()
        assert len(nodes_of_service(plane, "web")) == 2  # the work may need it until it has ended
        plane.api.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web")  # it would hold up everybody
        end_work(plane, "last")
    deleted = [f"{entry.type} {entry.name}" for entry in engine.journal() if entry.method == "delete"]
    assert stacks.before(deleted, "ConfigMap local.drain-object", "Deployment local.runtime")
    assert stacks.before(deleted, "ConfigMap local.drain-object", "Namespace local.namespaces.research")
    plane.stop_guests()
    assert aws.everything() == []
    left = {"deployments default/web", "replicasets default/web"}
    stacks.only_left(plane, empty | _mine(plane, left) | stacks.records(plane))


@pytest.mark.accept("S1")
def test_a_team_goes_in_one_update_and_its_scope_waits_for_other_namespaces_that_use_it(
    plane: Plane, engine: Engine
) -> None:
    document = stacks.local()
    cluster = document["config"]["sluice:clusters"]["local"]
    cluster["scopes"]["team"] = {"namespaces": ["team"], "pools": [{"name": "workers"}]}
    cluster["namespaces"]["team"] = {"existing": False}
    cluster["localQueues"]["team"] = {"door": {"clusterQueue": "research"}}
    engine.write_stack("local", document)
    engine.up("local")
    start(plane)
    scope = f"{stacks.GROUPS}/scopes/team"
    waiting.eventually(lambda: finalizers(plane, scope) == [keys.FINALIZER], within_seconds=PATIENCE_SECONDS)
    theirs = {"metadata": {"name": "theirs", "labels": {keys.SCOPE: "team"}}}
    plane.api.create("/api/v1/namespaces", theirs)

    for kind in ("scopes", "namespaces", "localQueues"):
        del cluster[kind]["team"]
    engine.write_stack("local", document)
    with under_way(lambda: engine.up("local")) as running:
        waiting.eventually(lambda: used(plane, scope).get("reason") == "DeletionHeld", within_seconds=PATIENCE_SECONDS)
        assert used(plane, scope)["message"].endswith("; namespaces: theirs")  # the stack's own is gone already
        assert "DeletionHeld" in plane.kubectl("get", "scopes", "team")
        stays(lambda: not running.done())
        plane.api.merge("/api/v1/namespaces/theirs", {"metadata": {"labels": {keys.SCOPE: None}}})
    assert "team" not in stacks.objects(plane, "scopes")
    assert "research" in stacks.objects(plane, "scopes")
    engine.destroy("local")  # research is in use until the end


def used(plane: Plane, scope: str) -> Object:
    """Return what a scope says about who uses it."""
    conditions = plane.api.get(scope).get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "InUse"), {})


def _mine(plane: Plane, names_: set[str]) -> set[str]:
    """Name what the test itself made, and what Kubernetes made of that."""
    return {one for one in stacks.inventory(plane) for mine in names_ if one.startswith(mine)}


def release(plane: Plane, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autoscaler", "release", "--kubeconfig", str(plane.kubeconfig), *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=os.environ, check=False)


@pytest.mark.accept("S14", "S23")
def test_a_cluster_whose_runtime_is_gone_is_freed_by_force(plane: Plane, engine: Engine) -> None:
    document = stacks.local()
    document["config"]["sluice:clusters"]["local"]["autoscaler"]["deployers"] = {"groups": []}
    engine.write_stack("local", document)
    engine.up("local")
    start(plane)
    node = run_work(plane, "sums", "workers")

    # It wants to be told that this is meant, and that nobody is there who would do it properly.
    assert "--force" in (refused := release(plane)).stderr
    assert refused.returncode == 2
    refused = release(plane, "--force")
    assert refused.returncode == 2
    assert "the runtime lives" in refused.stderr
    assert keys.FINALIZER in finalizers(plane, pool_path("workers"))

    # Without the runtime a deletion hangs.
    plane.stop_guests()
    leave_traces(plane, node)
    plane.api.delete(pool_path("gpu"))
    assert "deletionTimestamp" in plane.api.get(pool_path("gpu"))["metadata"]

    def freed() -> subprocess.CompletedProcess[str]:
        done = release(plane, "--force")
        assert done.returncode == 0, done.stderr
        return done

    done = waiting.eventually(freed, within_seconds=PATIENCE_SECONDS)  # a Lease may still be running out
    assert f"Node {node}: mark" in done.stdout
    assert "Pod default/gated: finalizer, gate" in done.stdout
    assert "gates-are-kept.sluice.dev: deleted" in done.stdout  # a policy lets nobody but the runtime open one
    assert [each for each in everything(plane) if owned_marks.without(each)] == []
    assert "gpu" not in stacks.objects(plane, "instancepools")
    assert "0 objects freed, 0 failures" in release(plane, "--force").stdout

    # No deployer is named, so leaving has to be confirmed; until then all that work needs stays.
    before = {one["urn"] for one in engine.resources("local")}
    with pytest.raises(EngineError, match=f"annotate configmap {names.DRAIN_OBJECT} {keys.CONFIRM_LEAVING}=true"):
        engine.destroy("local")
    assert before - {one["urn"] for one in engine.resources("local")} == set()
    plane.kubectl("-n", HOME, "annotate", "configmap", names.DRAIN_OBJECT, f"{keys.CONFIRM_LEAVING}=true")

    # And the stack goes, although nobody is there to drain it.
    engine.destroy("local")
    assert stacks.Aws(plane=plane).everything() == []


def leave_traces(plane: Plane, node: str) -> None:
    """Leave behind what a runtime may that dies in the midst of its work."""
    taints = plane.api.get(f"/api/v1/nodes/{node}")["spec"].get("taints", [])
    mark = {"key": keys.REMOVING, "value": "Emptied", "effect": "NoSchedule"}
    metadata = {"annotations": {keys.MACHINE_GROUP: "group"}, "labels": {keys.machine_label("big"): "group"}}
    plane.api.merge(f"/api/v1/nodes/{node}", {"metadata": metadata, "spec": {"taints": [*taints, mark]}})
    gates = [{"name": keys.PLACEMENT_GATE}, {"name": keys.ADMISSION_GATE}]
    spec = {"containers": [{"name": "main", "image": "app:1"}], "schedulingGates": gates}
    gated = {"name": "gated", "finalizers": [keys.FINALIZER]}
    plane.api.create("/api/v1/namespaces/default/pods", {"metadata": gated, "spec": spec})


def everything(plane: Plane) -> list[Object]:
    """Return all that may carry something of ours."""
    found: list[Object] = []
    built_in = [kinds.NODES, kinds.PODS, kinds.CONFIG_MAPS]
    for resource in (*built_in, *map(kinds.custom, resources.KINDS)):
        items = plane.api.get(resource.collection())["items"]
        found += [{**item, "kind": resource.kind} for item in items]
    assert any(each["kind"] == "InstancePool" for each in found), version.GROUP
    return found
