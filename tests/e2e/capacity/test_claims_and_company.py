"""Volumes, and pods that stay together, on the real API server and scheduler: what is started for them and what not."""

import signal
import time

import pytest

from autoscaler.api import keys
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import WHOLE_NODE, Object, Site

DRIVER = "ebs.csi.aws.com"
PAST_PATIENCE_SECONDS = 35.0
"""Longer than a scheduler may take to find room that is there."""


def claiming(claim: str) -> list[Object]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def near(app: str) -> Object:
    term = {"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def add_volume(site: Site, name: str, mode: str = "ReadWriteOnce") -> None:
    """A volume and the claim that it is bound to."""
    api, volume = site.plane.api, f"{name}-{site.id}"
    common = {"accessModes": [mode], "storageClassName": ""}
    reference = {"kind": "PersistentVolumeClaim", "namespace": site.namespace, "name": name}
    csi = {"driver": DRIVER, "volumeHandle": volume}
    spec = {**common, "capacity": {"storage": "1Gi"}, "claimRef": reference, "csi": csi}
    api.create("/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": spec})
    add_claim(site, name, **common, volumeName=volume)


def add_claim(site: Site, name: str, **spec: object) -> None:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    path = f"/api/v1/namespaces/{site.namespace}/persistentvolumeclaims"
    site.plane.api.create(path, {"metadata": {"name": name}, "spec": body})


def add_attach_limit(site: Site, node: str) -> None:
    driver = {"name": DRIVER, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 2}}
    path, metadata = "/apis/storage.k8s.io/v1/csinodes", {"name": node}
    site.plane.api.create(path, {"metadata": metadata, "spec": {"drivers": [driver]}})


@pytest.mark.accept("G26")
def test_pods_that_no_instance_helps_start_at_most_one_under_any_leader_and_are_told_why(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("work")
    groups = [site.add_group(pool, zone=zone) for zone in "ab"]
    first = start()
    site.wait_known(*groups)
    site.add_pod("missing", volumes=claiming("missing"))
    add_claim(site, "unbound", storageClassName="nobody")
    site.add_pod("unbound", volumes=claiming("unbound"))
    site.wait_told("missing", "NotTriggerScaleUp", "its volume claim missing does not exist")
    site.wait_told("unbound", "NotTriggerScaleUp", "names StorageClass nobody, which does not exist")
    assert not site.instances()
    add_volume(site, "single", "ReadWriteOncePod")  # of which plans know nothing
    site.add_pod("holder", volumes=claiming("single"))
    site.wait_bound("holder")
    site.add_pod("second", cpu="100m", volumes=claiming("single"), nodeSelector={keys.ZONE: site.zone("b")})
    site.wait_told("second", "TriggeredScaleUp")
    site.wait_told("second", "NotTriggerScaleUp", "did not take such a pod although it had room")
    launched = site.instances()
    first.send(signal.SIGTERM)
    first.wait()
    start(pod="two")
    site.wait_told("missing", "NotTriggerScaleUp")
    time.sleep(PAST_PATIENCE_SECONDS)
    assert site.instances() == launched
    assert launched["running"] == 2
    add_volume(site, "missing")
    site.wait_bound("missing")  # it is helped as soon as it can be


@pytest.mark.accept("G28")
def test_a_node_with_as_many_volumes_as_it_attaches_has_no_room_for_another(site: Site, start: conftest.Start) -> None:
    pool = site.add_pool("work")
    group = site.add_group(pool, sizes=(1, 1, 5))
    (node,) = site.wait_nodes(1)
    add_attach_limit(site, node)
    start()
    site.wait_known(group)
    for number in range(3):
        add_volume(site, f"v-{number}")
        site.add_pod(f"p-{number}", cpu="100m", volumes=claiming(f"v-{number}"))
    (other,) = site.wait_nodes(2).keys() - {node}
    add_attach_limit(site, other)  # as every kubelet does; it makes the scheduler look at such pods again
    site.wait_bound()
    nodes = list(site.bound().values())
    assert (nodes.count(node), len(set(nodes)), site.desired()) == (2, 2, {group: 2})


@pytest.mark.accept("G30")
def test_pods_that_stay_together_get_one_node_for_all_and_who_finds_no_room_there_is_told(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("work")
    groups = [site.add_group(pool, kind=kind) for kind in ("m5.large", "m5.xlarge")]
    start()
    site.wait_known(*groups)
    for number in range(2):
        site.add_pod(f"web-{number}", cpu=WHOLE_NODE, labels={"app": "web"}, affinity=near("web"))
    site.wait_bound()
    assert len(set(site.bound().values())) == 1
    assert site.desired() == {groups[1]: 1}
    site.add_pod("late", cpu=WHOLE_NODE, affinity=near("web"))
    site.wait_told("late", "NotTriggerScaleUp", "the pod must share a node with one that it names")
    site.delete_pods("web-0")
    site.wait_bound("late")
    assert site.desired() == {groups[1]: 1}
