"""Pools with GPUs bring the device plugin and the feature discovery, on every node that will have GPUs."""

import json
from typing import Any

import pulumi_kubernetes as k8s
import pytest

from components.third_party import gpu
from components.third_party import gpu_manifests as manifests
from tests.components import accesses, configs, monitor


def run() -> monitor.World:
    def program() -> None:
        services = k8s.core.v1.ServiceAccount("services")
        gpu.GpuSupport("g", gpu.GpuSupportArgs(access=accesses.of_eks(), after=[services]))

    return monitor.run(program)


def pods(world: monitor.World, kind: str) -> dict[str, dict[str, Any]]:
    return {one.inputs["metadata"]["name"]: one.inputs["spec"]["template"]["spec"] for one in world.of_type(f":{kind}")}


@pytest.mark.accept("G20")
def test_device_plugin_and_feature_discovery_run_on_every_node_with_gpus_whatever_its_taints() -> None:
    found = pods(run(), "DaemonSet")
    assert set(found) == {"nvidia-device-plugin", "gpu-feature-discovery"}
    for spec in found.values():
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": "k8s.amazonaws.com/accelerator", "operator": "Exists"}]}
        assert spec["tolerations"] == [{"operator": "Exists"}]
        assert spec["containers"][0]["image"] == manifests.NVIDIA_IMAGE


@pytest.mark.accept("G20")
def test_every_gpu_node_of_the_grid_has_the_label_they_look_for() -> None:
    pools = {"services": configs.SERVICES, "w": configs.pool(instanceTypes=["p3.8xlarge"])}
    groups = configs.of_cluster(configs.cluster(nodePools=pools)).grids["bench"].of_pool("w")
    assert groups
    assert all("k8s.amazonaws.com/accelerator" in group.labels for group in groups)


@pytest.mark.accept("G18")
def test_what_runs_once_runs_on_services_nodes() -> None:
    found = pods(run(), "Deployment")
    assert set(found) == {"nfd-master", "nfd-gc"}
    for name, spec in found.items():
        assert spec["nodeSelector"] == {"node.type": "k8s-services"}
        assert spec["priorityClassName"] == "system-cluster-critical"
        assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in spec["tolerations"]
        assert spec["containers"][0]["command"][0] == name
        assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_versions_are_pinned() -> None:
    for image in (manifests.NVIDIA_IMAGE, manifests.NFD_IMAGE):
        assert image.rpartition(":")[2].startswith("v0.")


def test_the_definitions_of_others_are_neither_taken_over_nor_kept() -> None:
    world = run()
    made = world.of_type(":CustomResourceDefinition")
    names = {one.inputs["metadata"]["name"] for one in made}
    assert names == {"nodefeatures.nfd.k8s-sigs.io", "nodefeaturerules.nfd.k8s-sigs.io"}
    deployment = next(iter(world.of_type(":Deployment")))
    for one in made:
        assert not one.retain_on_delete
        assert one.provider == deployment.provider


def test_pods_start_when_definitions_and_rights_are_in_place() -> None:
    world = run()
    starting = {
        "gpu-feature-discovery": world.one(":DaemonSet", "g.gpu-feature-discovery"),
        "nfd-master": world.one(":Deployment", "g.nfd-master"),
        "nfd-gc": world.one(":Deployment", "g.nfd-gc"),
    }
    for name, one in starting.items():
        for definition in world.of_type(":CustomResourceDefinition"):
            assert one.waits_for(definition)
        assert one.waits_for(world.one(":ServiceAccount", f"g.{name}"))
        (binding,) = [made for made in world.made if made.name == f"g.{name}" and made.type.endswith("Binding")]
        assert one.waits_for(binding)
        assert binding.inputs["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}]
    for one in world.made:
        if one.custom and one.parent == world.one(":GpuSupport").urn:
            assert one.waits_for(world.one(":ServiceAccount", "services")), one.urn


@pytest.mark.accept("S6")
def test_no_right_is_a_wildcard() -> None:
    assert "*" not in json.dumps([manifests.node_rules(), manifests.feature_rules()])
