"""Distributed jobs on the real API server, Job controller and scheduler: one zone for all pods, or none for any."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.api import keys, manifests, version
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import placement_gate
from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import WHOLE_NODE, Object, Site
from tools.local.groups import GROUP_LABEL
from tools.local.plane import Plane

GATE = {"name": keys.PLACEMENT_GATE}
INDEX = "batch.kubernetes.io/job-completion-index"
HALF_WAY = base.ValidatingPolicy(
    name=f"half-way.{version.GROUP}",
    match=base.Match(
        group="",
        version="v1",
        resources=("pods",),
        operations=(base.Operation.UPDATE,),
        conditions={"late": f"object.metadata.?labels[?'{INDEX}'].orValue('0') in ['2', '3']"},
    ),
    validations=(base.Validation(expression="has(object.spec.schedulingGates)", message="not yet"),),
    twin=lambda _: None,
)
"""Lets the first two pods of a job be opened only."""
Launch = Callable[[int], None]


@contextlib.contextmanager
def in_force(plane: Plane, policy: base.ValidatingPolicy | base.MutatingPolicy) -> Iterator[None]:
    text = manifests.dump(policy.manifests())
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    try:
        yield
    finally:
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)


@pytest.fixture(scope="module")
def gated(capacity_plane: Plane) -> Iterator[None]:
    """Pods that ask for one zone are gated."""
    with in_force(capacity_plane, placement_gate.POLICY):
        probe = {
            "metadata": {"name": "probe", "annotations": {keys.SAME_ZONE: "true"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }

        def is_gated() -> bool:
            path, query = "/api/v1/namespaces/default/pods", {"dryRun": "All"}
            made = capacity_plane.api.request("POST", path, probe, query=query).required()
            return bool(made["spec"].get("schedulingGates") == [GATE])

        waiting.eventually(is_gated)
        yield


@pytest.fixture
def launch(site: Site, gated: None) -> Iterator[Launch]:  # noqa: ARG001
    """Make the Job `train`, whose pods have a node each and go to one zone."""
    path = f"/apis/batch/v1/namespaces/{site.namespace}/jobs"

    def make(pods: int) -> None:
        requests = {"requests": {"cpu": WHOLE_NODE, "memory": "512Mi"}}
        container = {"name": "main", "image": "app:1", "resources": requests}
        template = {
            "metadata": {"annotations": {keys.SAME_ZONE: "true"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
        site.plane.api.create(path, {"metadata": {"name": "train"}, "spec": spec})

    yield make
    site.plane.api.request("DELETE", f"{path}/train", {"propagationPolicy": "Background"})


def zones(site: Site) -> set[str]:
    """Return the zones that the site's pods are in."""
    nodes = site.nodes()
    return {nodes[node]["metadata"]["labels"][keys.ZONE] for node in site.bound().values()}


def gates(site: Site) -> list[str]:
    """Return the pods that wait behind the gate, by their index."""
    pods = site.pods().values()
    return sorted(pod["metadata"]["labels"].get(INDEX, "") for pod in pods if pod["spec"].get("schedulingGates"))


def all_bound(site: Site, pods: int) -> None:
    def done() -> bool:
        assert len(site.pods()) == len(site.bound()) == pods, (sorted(site.bound()), gates(site))
        return True

    waiting.eventually(done, within_seconds=60)


def await_half_way(site: Site) -> None:
    """Wait until later pods cannot be opened: a policy comes into force some time after it was made."""
    site.add_pod("probe", labels={INDEX: "2"}, schedulingGates=[{"name": "example.com/probe"}])
    path, merge = f"/api/v1/namespaces/{site.namespace}/pods/probe", "application/merge-patch+json"
    body, query = {"spec": {"schedulingGates": None}}, {"dryRun": "All"}
    api = site.plane.api
    waiting.eventually(lambda: api.request("PATCH", path, body, content_type=merge, query=query).status == 422)
    site.delete_pods("probe")


@pytest.mark.accept("G10")
def test_a_job_moves_as_a_whole_to_a_zone_that_has_capacity_and_goes_there_with_its_selector(
    site: Site, start: conftest.Start, launch: Launch
) -> None:
    pool = site.add_pool("ring")
    a, b = (site.add_group(pool, zone=zone) for zone in "ab")
    site.asg_rules.orders.withhold(zone=site.zone("a"), instance_type="m5.large")
    start()
    site.wait_known(a, b)
    launch(4)
    all_bound(site, 4)
    assert zones(site) == {site.zone("b")}
    assert {pod["spec"]["nodeSelector"][keys.ZONE] for pod in site.pods().values()} == {site.zone("b")}
    assert site.group_status(pool, a).get("unavailableUntil"), "it was tried first"
    assert site.desired() == {b: 4}
    assert site.instances() == {"running": 4}


@pytest.mark.accept("G10")
def test_where_no_zone_takes_all_of_a_job_nothing_is_started_and_its_pods_are_told(
    site: Site, start: conftest.Start, launch: Launch
) -> None:
    pool = site.add_pool("small")
    made = [site.add_group(pool, zone=zone, sizes=(0, 0, 2)) for zone in "ab"]
    start()
    site.wait_known(*made)
    launch(3)
    (last,) = waiting.eventually(lambda: sorted(site.pods())[2:])
    site.wait_told(
        last,
        "NotTriggerScaleUp",
        "no zone takes all 3 pods of Job train: at most 2, with what would be started; the group has ",
    )
    assert gates(site) == ["0", "1", "2"]
    assert not site.instances()
    job = f"/apis/batch/v1/namespaces/{site.namespace}/jobs/train"
    site.plane.api.merge(job, {"spec": {"parallelism": 2}})
    all_bound(site, 3)  # two at a time: the third comes when one has ended, and goes where that was
    assert zones(site) == {site.zone("a")}
    assert site.desired() == {made[0]: 2}


@pytest.mark.accept("G10")
def test_a_runtime_killed_half_way_leaves_a_job_that_the_next_one_sends_to_the_same_zone(
    site: Site, tmp_path: Path, launch: Launch
) -> None:
    pool = site.add_pool("half")
    a, b = (site.add_group(pool, zone=zone) for zone in "ab")
    with in_force(site.plane, HALF_WAY):
        await_half_way(site)
        with conftest.replica(site, tmp_path, "--lease-seconds", "2", pod="one") as first:
            replicas.ready(first)
            site.wait_known(a, b)
            launch(4)
            waiting.eventually(lambda: gates(site) == ["2", "3"] and len(site.bound()) == 2, within_seconds=60)
            first.send(signal.SIGKILL)
        assert zones(site) == {site.zone("a")}
        for number in range(4):  # they take all room in the job's zone: its first pods have ended by now
            site.add_pod(f"thief-{number}", nodeSelector={keys.ZONE: site.zone("a")})
        site.wait_bound(*(f"thief-{number}" for number in range(4)))
    site.autoscaling.set_desired_capacity(AutoScalingGroupName=b, DesiredCapacity=2)
    waiting.eventually(lambda: sum(node["metadata"]["labels"][GROUP_LABEL] == b for node in site.nodes().values()) == 2)
    with conftest.replica(site, tmp_path, "--lease-seconds", "2", pod="two") as second:
        replicas.ready(second)
        all_bound(site, 8)
    assert zones(site) == {site.zone("a")}


@pytest.mark.accept("G10")
def test_pods_that_want_one_another_in_one_zone_get_it_without_a_gate(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("near")
    made = [site.add_group(pool, zone=zone) for zone in "ab"]
    site.asg_rules.orders.withhold(zone=site.zone("a"), instance_type="m5.large")
    start()
    site.wait_known(*made)
    term: Object = {"labelSelector": {"matchLabels": {"app": "ring"}}, "topologyKey": keys.ZONE}
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(3):
        site.add_pod(f"ring-{number}", labels={"app": "ring"}, affinity=together)
    all_bound(site, 3)
    assert zones(site) == {site.zone("b")}
    assert site.desired() == {made[1]: 3}
