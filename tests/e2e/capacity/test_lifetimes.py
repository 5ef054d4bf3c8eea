"""How instances come to their end and what is kept of their lives: idle, outdated, lost, or never there."""

import contextlib
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from autoscaler.api import keys, version
from autoscaler.kube import objects
from tests import builders
from tests.e2e import waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import WHOLE_NODE, Object, Site
from tools.local.components import Component
from tools.local.groups import GROUP_LABEL

IDLE_SECONDS = 4
NEWER_IMAGE = "ami-03cf127a"
"""Another one that moto has."""
KWOK = "kwok.x-k8s.io/node"
"""The annotation of nodes that KWOK keeps ready."""


def records(site: Site, pool: str) -> dict[str, Object]:
    """Return the status of a pool's Instance objects, by name."""
    listed = site.plane.api.get(f"/apis/{version.GROUP_VERSION}/instances")["items"]
    return {one["metadata"]["name"]: one.get("status", {}) for one in listed if one["spec"]["pool"] == pool}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextlib.contextmanager
def frozen(site: Site, component: Component) -> Iterator[None]:
    site.plane.send(component, signal.SIGSTOP)
    try:
        yield
    finally:
        site.plane.send(component, signal.SIGCONT)


# Lives


@pytest.mark.accept("P8", "P9", "P12")
def test_lives_have_names_times_and_work_and_end_when_they_were_idle_for_too_long(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("lives", limits__maxIdleSeconds=IDLE_SECONDS)
    group = site.add_group(pool)
    namespace = put_in_scope(site, pool)
    runtime = start()
    site.wait_known(group)
    run_pod(site, namespace, "ends", "9s")  # a record may come five seconds after the launch
    run_pod(site, namespace, "broken-off", "1h")
    waiting.eventually(lambda: set(site.bound(namespace)) == {"ends", "broken-off"}, within_seconds=60)
    waiting.eventually(lambda: set(records(site, pool)) == {f"{pool}-001", f"{pool}-002"})
    first = waiting.eventually(lambda: all_in(site, pool, "Ready"))
    assert {one["instanceCreatedAt"] for one in first.values()} == launch_times(site, group)
    path = f"/api/v1/namespaces/{namespace}/pods/broken-off"
    waiting.eventually(lambda: site.plane.api.get(path)["status"]["phase"] == "Running")
    time.sleep(3)  # work that counts: whole seconds of its share of the node, after the second in which it began
    site.plane.api.request("DELETE", path, {"gracePeriodSeconds": 0}).required()
    waiting.eventually(lambda: [work_of(one) for one in records(site, pool).values() if work_of(one) > 0][1:])
    last = waiting.eventually(lambda: all_in(site, pool, "Terminated"), within_seconds=60)
    assert site.desired() == {}
    for node, idle_since, ended in endings(runtime):
        assert IDLE_SECONDS <= ended - idle_since < IDLE_SECONDS + 30, node
    run_pod(site, namespace, "again", "1h")
    waiting.eventually(lambda: "again" in site.bound(namespace), within_seconds=60)
    second = waiting.eventually(
        lambda: (one := records(site, pool)[f"{pool}-001"]).get("phase") == "Ready" and one, within_seconds=30
    )
    assert isinstance(second, dict)
    assert len(records(site, pool)) == 2, "the lowest name that was free"
    assert second["registeredAt"] == last[f"{pool}-001"]["registeredAt"]
    assert moment(second["instanceCreatedAt"]) > moment(last[f"{pool}-001"]["instanceCreatedAt"])
    assert work_of(second) == 0


def put_in_scope(site: Site, pool: str) -> str:
    """Make a scope that uses the pool, and return a namespace in it."""
    scope, namespace = f"scope-{site.id}", f"scoped-{site.id}"
    site.make("scopes", builders.resource("Scope", name=scope, pools=[{"name": pool}]))
    site.add_namespace(namespace, {keys.SCOPE: scope})
    return namespace


def run_pod(site: Site, namespace: str, name: str, run_for: str) -> None:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": WHOLE_NODE, "memory": "512Mi"}}}
    body = {
        "metadata": {"name": name, "annotations": {"local.sluice.dev/run-for": run_for}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    site.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", body)


def all_in(site: Site, pool: str, phase: str) -> dict[str, Object]:
    """Return the records if all of them are in this phase."""
    found = records(site, pool)
    return found if {one.get("phase") for one in found.values()} == {phase} else {}


def work_of(status: Object) -> int:
    return sum(status.get("durationsByScope", {}).values())


def launch_times(site: Site, group: str) -> set[str]:
    """Return when EC2 says that a group's instances were launched."""
    ids = [one["InstanceId"] for one in site.described()[group]["Instances"]]
    reserved = site.ec2.describe_instances(InstanceIds=ids)["Reservations"]
    times = [one["LaunchTime"] for each in reserved for one in each["Instances"]]
    return {at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in times}


def endings(runtime: Any) -> list[tuple[str, float, float]]:
    """Return for each instance that ended its node, since when it was idle, and when it was ended."""
    marked = {entry["node"]: entry["idle_since"] for entry in runtime.entries("node_marked")}
    ended = {entry["node"]: moment(entry["timestamp"]).timestamp() for entry in runtime.entries("instance_ended")}
    assert len(ended) >= 2
    return [(node, marked[node], at) for node, at in ended.items()]


# Outdated instances


@pytest.fixture
def services(site: Site) -> Iterator[Site]:
    """The site, whose Deployments go first in the end: they would replace their pods."""
    yield site
    site.plane.api.request("DELETE", f"/apis/apps/v1/namespaces/{site.namespace}/deployments").required()
    site.plane.api.request("DELETE", f"/apis/apps/v1/namespaces/{site.namespace}/replicasets").required()


@pytest.mark.accept("G22", "G12")
def test_instances_of_an_old_template_are_replaced_and_those_whose_pods_may_not_leave_are_not(
    services: Site, start: conftest.Start
) -> None:
    site = services
    free, held, stays = site.add_pool("free"), site.add_pool("held"), site.add_pool("stays")
    groups = [site.add_group(pool, sizes=(1, 1, 3)) for pool in (free, held, stays)]
    site.wait_nodes(3)
    for pool in (free, held):
        serve(site, pool)
    serve(site, stays, {objects.SAFE_TO_EVICT: "false"})
    waiting.eventually(lambda: len(site.bound()) == 3, within_seconds=30)
    before = {site.group_of(pod): pod for pod in site.bound()}
    guard(site, held)
    for group in groups:
        renew(site, group)
    runtime = start()

    def moved() -> bool:
        there = {site.group_of(pod): pod for pod in site.bound()}
        assert set(there) == set(groups), there
        return there[groups[0]] != before[groups[0]]

    waiting.eventually(moved, within_seconds=60)
    waiting.eventually(lambda: site.desired().get(groups[0]) == 1, within_seconds=60)
    there = [one for one in site.described()[groups[0]]["Instances"] if one["LifecycleState"] == "InService"]
    assert [one["LaunchTemplate"]["Version"] for one in there] == ["2"]
    surged, evicted = runtime.entries("renewal_surges"), runtime.entries("pod_evicted")
    assert [entry["after"] for entry in surged] == [2, 2, 2], "one more each, and never a second"
    assert surged[0]["timestamp"] < evicted[0]["timestamp"]
    waiting.eventually(lambda: len(site.marked()) == 2, within_seconds=30)
    assert before[groups[1]] in site.bound(), "its disruption budget holds"
    assert before[groups[2]] in site.bound(), "its annotation says so"
    assert {site.desired()[group] for group in groups[1:]} == {2}
    assert all(entry["pod"][1] == before[groups[0]] for entry in runtime.entries("pod_evicted"))


def serve(site: Site, pool: str, annotations: dict[str, str] | None = None) -> None:
    """Run a Deployment of one pod in a pool."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": WHOLE_NODE, "memory": "512Mi"}}}
    template = {
        "metadata": {"labels": {"app": pool}, "annotations": annotations or {}},
        "spec": {"nodeSelector": {keys.INSTANCE_POOL: pool}, "containers": [container]},
    }
    body = {
        "metadata": {"name": pool},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": pool}}, "template": template},
    }
    site.plane.api.create(f"/apis/apps/v1/namespaces/{site.namespace}/deployments", body)


def guard(site: Site, pool: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": pool}}}
    path = f"/apis/policy/v1/namespaces/{site.namespace}/poddisruptionbudgets"
    site.plane.api.create(path, {"metadata": {"name": pool}, "spec": spec})


def renew(site: Site, group: str) -> None:
    """Give a group a launch template that says something else."""
    template: Any = {"ImageId": NEWER_IMAGE, "InstanceType": "m5.large"}
    site.ec2.create_launch_template_version(LaunchTemplateName=group, LaunchTemplateData=template)
    site.autoscaling.update_auto_scaling_group(
        AutoScalingGroupName=group, LaunchTemplate={"LaunchTemplateName": group, "Version": "2"}
    )


# Instances of no use


@pytest.mark.accept("G25")
def test_a_node_that_is_lost_and_stays_so_is_replaced(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("lost")
    group = site.add_group(pool, sizes=(1, 1, 3))
    [node] = site.wait_nodes(1)
    runtime = start()
    waiting.eventually(lambda: all_in(site, pool, "Ready"))
    lose(site, node, timedelta(minutes=10))
    time.sleep(1.5)  # it may come back: so long is not for ever
    assert not runtime.entries("useless_instance_ended")

    def is_given_up() -> bool:
        lose(site, node, timedelta(minutes=16))  # again and again: KWOK may have had a last word
        return bool(runtime.entries("useless_instance_ended"))

    waiting.eventually(is_given_up)
    waiting.eventually(lambda: set(site.nodes()) - {node} and node not in site.nodes(), within_seconds=60)
    assert site.desired() == {group: 1}
    assert {entry["reason"] for entry in runtime.entries("useless_instance_ended")} == {"NodeLost"}


def lose(site: Site, node: str, ago: timedelta) -> None:
    """Say that a node has not been ready for so long; KWOK does not look after it any more."""
    there = site.nodes().get(node)
    if there is None:
        return
    site.plane.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {KWOK: None}}})
    stamp = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {**one, "status": "False", "lastTransitionTime": stamp} if one["type"] == "Ready" else one
        for one in there["status"]["conditions"]
    ]
    site.plane.api.merge(f"/api/v1/nodes/{node}/status", {"status": {"conditions": conditions}})


@pytest.mark.accept("G19")
def test_an_instance_that_never_becomes_a_node_is_ended_and_its_offering_left_alone(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("silent", registrationTimeoutSeconds=30)
    group = site.add_group(pool)
    runtime = start()
    site.wait_known(group)
    with frozen(site, Component.NODE_REGISTRAR):
        site.add_pod("waits", nodeSelector={GROUP_LABEL: group})
        waiting.eventually(lambda: site.desired() == {group: 1})
        began = time.monotonic()
        waiting.eventually(lambda: runtime.entries("useless_instance_ended"), within_seconds=60)
        assert time.monotonic() - began > 25
        waiting.eventually(lambda: site.desired() == {})
        told = waiting.eventually(lambda: site.group_status(pool, group).get("reason", ""))
        assert told.startswith("unavailable (NeverJoined)")
        assert site.group_status(pool, group)["unavailableUntil"]
        query = {"fieldSelector": f"involvedObject.kind=InstancePool,involvedObject.name={pool}"}
        listed = waiting.eventually(lambda: site.plane.api.get("/api/v1/events", query)["items"])
        assert "NeverJoined" in {event["reason"] for event in listed}
    assert site.instances() == {"ended": 1}
