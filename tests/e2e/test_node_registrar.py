"""The registrar on the real API server: instances of moto's groups are nodes, and work runs on them."""

import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.e2e import groups, waiting
from tools.local.components import Component, Options
from tools.local.plane import REPOSITORY, Plane
from tools.local.registrar import registrar_cloud, registrar_nodes

# Enough for nodes to appear and go, though not to become Ready; quick to start.
REGISTRAR_ONLY = frozenset({Component.ETCD, Component.API_SERVER, Component.MOTO, Component.NODE_REGISTRAR})


def test_a_pod_is_scheduled_onto_a_fleet_node_and_runs(plane: Plane, namespace: str, group: groups.NodeGroup) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    plane.api.create(pods, {"metadata": {"name": "work"}, "spec": _pod_spec(group)})
    group.set_desired(1)
    node = group.wait_for_nodes(1)[0]
    pod = waiting.eventually(lambda: _in_phase(plane, f"{pods}/work", "Running"))
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    assert pod["status"]["containerStatuses"][0]["ready"] is True


def test_raising_desired_makes_a_node_with_what_the_tags_and_the_type_say(plane: Plane) -> None:
    name = f"group-{secrets.token_hex(4)}"
    tags = {
        f"{registrar_nodes.LABEL_TAG}node.type": "bai-worker",
        f"{registrar_nodes.TAINT_TAG}nvidia.com/gpu": "present:NoSchedule",
        f"{registrar_nodes.RESOURCE_TAG}example.com/fpga": "2",
        f"{registrar_nodes.RESOURCE_TAG}ephemeral-storage": "100Gi",
    }
    group = groups.create(plane, name, instance_type="p3.8xlarge", zone="b", template_tags=tags)
    group.set_desired(1)
    node = group.wait_for_nodes(1)[0]
    instance = node["metadata"]["name"].partition(".")[0]
    labels, status = node["metadata"]["labels"], node["status"]

    assert node["metadata"]["name"] == f"{instance}.eu-west-1.compute.internal"
    assert node["spec"]["providerID"] == f"aws:///eu-west-1b/{instance}"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    want_labels = {
        "group": name,
        "node.type": "bai-worker",
        "kubernetes.io/hostname": node["metadata"]["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "p3.8xlarge",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": "eu-west-1b",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1b",
    }
    assert labels | want_labels == labels
    want_capacity = {"cpu": "32", "memory": "244Gi", "nvidia.com/gpu": "4", "example.com/fpga": "2", "pods": "234"}
    assert status["capacity"] == {**want_capacity, "ephemeral-storage": "100Gi"}
    assert status["allocatable"]["cpu"] == "31850m"
    assert status["allocatable"]["nvidia.com/gpu"] == "4"
    group.delete()


def test_lowering_desired_makes_the_node_go(group: groups.NodeGroup) -> None:
    group.set_desired(2)
    group.wait_for_nodes(2)
    group.set_desired(1)
    group.wait_for_nodes(1)


def test_a_terminated_instance_takes_its_node_along(plane: Plane, group: groups.NodeGroup) -> None:
    group.set_desired(1)
    node = group.wait_for_nodes(1)[0]["metadata"]["name"]
    registrar_cloud.autoscaling_client(plane.aws_endpoint, plane.region).terminate_instance_in_auto_scaling_group(
        InstanceId=registrar_nodes.instance_of(node), ShouldDecrementDesiredCapacity=True
    )
    group.wait_for_nodes(0)


def test_nodes_of_others_are_left_alone(plane: Plane, group: groups.NodeGroup) -> None:
    name = f"static-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/nodes", {"metadata": {"name": name}})
    group.set_desired(1)
    group.wait_for_nodes(1)
    group.set_desired(0)
    group.wait_for_nodes(0)
    assert plane.api.request("GET", f"/api/v1/nodes/{name}").ok
    plane.api.delete(f"/api/v1/nodes/{name}")


def test_a_job_completes(plane: Plane, namespace: str, group: groups.NodeGroup) -> None:
    group.set_desired(1)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {**_pod_spec(group), "restartPolicy": "Never"}}
    plane.api.create(jobs, {"metadata": {"name": "sum"}, "spec": {"completions": 2, "template": template}})
    job = waiting.eventually(lambda: _complete(plane.api.get(f"{jobs}/sum")))
    assert job["status"]["succeeded"] == 2


def test_a_pod_that_says_how_long_it_runs_succeeds_after_that(
    plane: Plane, namespace: str, group: groups.NodeGroup
) -> None:
    group.set_desired(1)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    metadata = {"name": "brief", "annotations": {"local.sluice.dev/run-for": "2s"}}
    plane.api.create(pods, {"metadata": metadata, "spec": {**_pod_spec(group), "restartPolicy": "Never"}})
    waiting.eventually(lambda: _in_phase(plane, f"{pods}/brief", "Running"))
    waiting.eventually(lambda: _in_phase(plane, f"{pods}/brief", "Succeeded"))


def test_the_registrar_outlives_restarts_of_the_api_server_and_of_moto(start_plane: Callable[[Options], Plane]) -> None:
    plane = start_plane(Options(components=REGISTRAR_ONLY))
    group = groups.create(plane, "outlives", desired=1)
    waiting.eventually(lambda: len(group.nodes()) == 1)
    registrar_process = plane.processes()[Component.NODE_REGISTRAR]

    plane.restart(Component.API_SERVER)
    group.set_desired(2)
    waiting.eventually(lambda: len(group.nodes()) == 2)
    plane.restart(Component.MOTO)  # it forgets everything, so no instance is left
    waiting.eventually(lambda: len(group.nodes()) == 0)

    assert plane.processes()[Component.NODE_REGISTRAR] == registrar_process


def test_a_node_appears_when_its_instance_has_booted_and_planes_share_nothing(
    plane: Plane, start_plane: Callable[[Options], Plane]
) -> None:
    slow = start_plane(Options(components=REGISTRAR_ONLY, boot_seconds=3.0))
    name = f"group-{secrets.token_hex(4)}"
    asked_at = time.time()
    group = groups.create(slow, name, desired=1)
    waiting.eventually(group.nodes)
    assert time.time() - asked_at >= 3.0
    assert groups.NodeGroup(plane=plane, name=name).nodes() == []


def _pod_spec(group: groups.NodeGroup) -> dict[str, Any]:
    return {
        "nodeSelector": {"group": group.name},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}],
    }


def _in_phase(plane: Plane, path: str, phase: str) -> Any:
    pod = plane.api.get(path)
    assert pod["status"]["phase"] == phase, pod["status"]
    return pod


def _complete(job: Any) -> Any:
    conditions = {condition["type"] for condition in job["status"].get("conditions", [])}
    assert "Complete" in conditions, job["status"]
    return job


def test_the_scale_command_makes_a_group_and_resizes_it(plane: Plane) -> None:
    name = f"typed-{secrets.token_hex(4)}"

    def scale(size: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.local", "scale", name, str(size), "--directory", str(plane.paths.root)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY)

    assert scale(1).returncode == 0
    made = groups.NodeGroup(plane=plane, name=name)
    made.wait_for_nodes(1)
    assert scale(0).returncode == 0
    made.wait_for_nodes(0)
    made.delete()
    refused = scale(99)
    assert refused.returncode == 1
    assert "SIZE must be from 0 to 20" in refused.stderr
