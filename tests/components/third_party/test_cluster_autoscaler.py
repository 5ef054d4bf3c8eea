"""The upstream cluster-autoscaler runs as seed 002 runs it, in this cluster's version, under rights of its own."""

import json
from collections.abc import Callable
from typing import Any

import pulumi_kubernetes as k8s
import pytest

from components.eks import cluster
from components.third_party import cluster_autoscaler
from components.third_party import cluster_autoscaler_manifests as manifests
from tests.components import accesses, monitor, places


def run(access: Callable[[], cluster.Access] = accesses.of_eks, **autoscaler: Any) -> monitor.World:
    config = accesses.config(autoscaler={"nodeScaler": "cluster-autoscaler", **autoscaler})

    def program() -> None:
        services = k8s.core.v1.ServiceAccount("services")
        args = cluster_autoscaler.ClusterAutoscalerArgs(
            config=config, place=places.place(), access=access(), after=[services]
        )
        cluster_autoscaler.ClusterAutoscaler("ca", args)

    return monitor.run(program)


def pod(world: monitor.World) -> dict[str, Any]:
    spec: dict[str, Any] = world.one(":Deployment").inputs["spec"]["template"]["spec"]
    return spec


@pytest.mark.accept("G14")
def test_it_finds_groups_by_tag_balances_zones_and_wastes_least() -> None:
    command = pod(run())["containers"][0]["command"]
    tags = f"k8s.io/cluster-autoscaler/enabled,kubernetes.io/cluster/{places.CLUSTER}"
    assert f"--node-group-auto-discovery=asg:tag={tags}" in command
    assert {"--balance-similar-node-groups", "--expander=least-waste", "--cloud-provider=aws"} <= set(command)
    assert "--balancing-ignore-label=failure-domain.beta.kubernetes.io/zone" in command


@pytest.mark.accept("G14")
@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_its_version_is_the_clusters(minor: str) -> None:
    assert manifests.image(minor) == f"registry.k8s.io/autoscaling/cluster-autoscaler:v{minor}.0"
    assert pod(run())["containers"][0]["image"].endswith(":v1.36.0")


@pytest.mark.accept("G18")
def test_it_runs_on_services_nodes_and_may_gain_nothing() -> None:
    spec = pod(run())
    assert spec["nodeSelector"] == {"node.type": "k8s-services"}
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert {"key": "CriticalAddonsOnly", "operator": "Exists"} in spec["tolerations"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["containers"][0]["env"] == [{"name": "AWS_REGION", "value": "eu-west-1"}]


@pytest.mark.accept("S6")
def test_no_right_is_a_wildcard_and_leases_are_its_own() -> None:
    rules = [*manifests.cluster_rules(), *manifests.own_rules()]
    assert "*" not in json.dumps(rules)
    leases = [rule for rule in manifests.own_rules() if rule["resources"] == ["leases"] and "update" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in leases] == [["cluster-autoscaler"]]
    assert not any("leases" in rule["resources"] for rule in manifests.cluster_rules())


@pytest.mark.accept("G14", "S6")
def test_it_has_a_role_of_its_own_that_scales_this_clusters_groups_alone() -> None:
    world = run()
    tie = world.one(":PodIdentityAssociation")
    assert (tie.inputs["namespace"], tie.inputs["serviceAccount"]) == ("kube-system", "cluster-autoscaler")
    policy = json.loads(world.one(":RolePolicy").inputs["policy"])
    scale = next(one for one in policy["Statement"] if "autoscaling:SetDesiredCapacity" in one["Action"])
    assert f"kubernetes.io/cluster/{places.CLUSTER}" in json.dumps(scale["Condition"])
    assert run(accesses.of_another).of_type(":PodRole") == []


def test_its_pods_start_when_all_rights_are_in_place() -> None:
    world = run()
    deployment = world.one(":Deployment")
    first = [one for one in world.made if "rbac" in one.type or one.type.endswith(":PodIdentityAssociation")]
    assert len(first) == 5
    for one in (*first, world.one(":ServiceAccount", "ca"), world.one(":ServiceAccount", "services")):
        assert deployment.waits_for(one), one.urn
    for one in first:
        if one.type.endswith("Binding"):
            assert one.inputs["subjects"] == [
                {"kind": "ServiceAccount", "name": "cluster-autoscaler", "namespace": "kube-system"}
            ]
            assert one.waits_for(world.one(f"v1:{one.inputs['roleRef']['kind']}", "ca"))


def test_everything_is_in_kube_system_under_the_component() -> None:
    world = run()
    component = world.one(":ClusterAutoscaler")
    for one in world.made:
        if one.custom and one.parent == component.urn and "Cluster" not in one.type:
            assert one.inputs["metadata"]["namespace"] == "kube-system"
    kinds = sorted(one.type.rpartition(":")[2] for one in world.made if one.parent == component.urn)
    want = ["ClusterRole", "ClusterRoleBinding", "Deployment", "PodDisruptionBudget", "PodRole"]
    assert kinds == [*want, "Role", "RoleBinding", "ServiceAccount"]


def test_a_single_replica_has_no_budget() -> None:
    assert run(replicas=1).of_type(":PodDisruptionBudget") == []
