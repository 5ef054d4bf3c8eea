import json
from typing import Any

import pulumi_aws as aws
import pytest

from components.config.clusters import Addon, AddonName
from components.eks import addons, cluster
from tests.components import configs, monitor, places

PINNED = {AddonName.COREDNS: Addon.model_validate({"version": "v1.12.1-eksbuild.2"})}


def run(**fields: Any) -> monitor.World:
    config = configs.of_cluster(configs.existing(existing={"eksCluster": "lab"})).stack.config.clusters["bench"]
    assert config.existing is not None
    existing = cluster.ExistingClusterArgs(place=places.place(), config=config, existing=config.existing)

    def program() -> dict[str, Any]:
        access = cluster.ExistingCluster("bench", existing).access
        instances = aws.ec2.Vpc("instances", cidr_block="10.0.0.0/16")
        first = addons.NetworkingAddons(
            "bench.networking", addons.AddonsArgs(place=places.place(), cluster=access, **fields)
        )
        args = addons.AddonsArgs(place=places.place(), cluster=access, after=[instances, *first.ready], **fields)
        second = addons.ServicesAddons("bench.services", args)
        return {"first": [one.urn for one in first.ready], "second": [one.urn for one in second.ready]}

    return monitor.run(program)


def by_addon(world: monitor.World) -> dict[str, monitor.Made]:
    return {one.inputs["addonName"]: one for one in world.of_type(":Addon")}


def test_all_add_ons_are_made_and_no_other() -> None:
    made = by_addon(run())
    assert set(made) == set(AddonName)
    for one in made.values():
        assert one.inputs["clusterName"] == "lab"
        assert one.inputs["resolveConflictsOnCreate"] == "NONE"
        assert one.inputs["resolveConflictsOnUpdate"] == "OVERWRITE"
        assert one.inputs["tags"] == places.OWNED
        assert "addonVersion" not in one.inputs


def test_a_pinned_version_is_used() -> None:
    made = by_addon(run(versions=PINNED))
    assert made["coredns"].inputs["addonVersion"] == "v1.12.1-eksbuild.2"
    assert "addonVersion" not in made["kube-proxy"].inputs


@pytest.mark.accept("G18")
def test_what_runs_once_for_the_cluster_runs_on_services_nodes() -> None:
    made = by_addon(run())
    want = {"node.type": "k8s-services"}
    coredns = json.loads(made["coredns"].inputs["configurationValues"])
    ebs = json.loads(made["aws-ebs-csi-driver"].inputs["configurationValues"])
    assert set(ebs) == {"controller"}
    assert coredns["nodeSelector"] == ebs["controller"]["nodeSelector"] == want
    assert {"key": "sluice.dev/instance-pool", "operator": "Exists"} in coredns["tolerations"]
    assert coredns["tolerations"] == ebs["controller"]["tolerations"]
    assert all("configurationValues" not in made[name].inputs for name in ("eks-pod-identity-agent", "kube-proxy"))


def test_network_policies_are_enforced() -> None:
    values = json.loads(by_addon(run())["vpc-cni"].inputs["configurationValues"])
    assert values == {"enableNetworkPolicy": "true"}  # a text: the add-on's schema knows no boolean here


@pytest.mark.accept("S1")
def test_networking_waits_for_no_instance_and_services_do() -> None:
    world = run()
    made = by_addon(world)
    instances = world.one(":Vpc")
    first = [made[name] for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")]
    second = [made[name] for name in ("coredns", "aws-ebs-csi-driver")]
    assert {one.urn for one in first} == set(world.outputs["first"])
    assert {one.urn for one in second} == set(world.outputs["second"])
    assert not any(one.waits_for(instances) for one in first)
    assert all(one.waits_for(instances) and all(one.waits_for(other) for other in first) for one in second)


def test_each_add_on_with_rights_has_a_role_of_its_own_before_it_starts() -> None:
    world = run()
    made = by_addon(world)
    want = {
        "aws-node": ("bench.networking.cni", "AmazonEKS_CNI_Policy", "vpc-cni"),
        "ebs-csi-controller-sa": ("bench.services.ebs", "service-role/AmazonEBSCSIDriverPolicy", "aws-ebs-csi-driver"),
    }
    associations = {one.inputs["serviceAccount"]: one for one in world.of_type(":PodIdentityAssociation")}
    assert set(associations) == set(want)
    attached = {one.inputs["role"]: one.inputs["policyArn"] for one in world.of_type(":RolePolicyAttachment")}
    for account, (role, policy, addon) in want.items():
        association = associations[account]
        assert association.inputs["namespace"] == "kube-system"
        assert association.inputs["roleArn"] == f"arn:aws:mock::Role/{role}"
        assert attached[role] == f"arn:aws:iam::aws:policy/{policy}"
        assert made[addon].waits_for(association)
    assert made["vpc-cni"].waits_for(made["eks-pod-identity-agent"])
