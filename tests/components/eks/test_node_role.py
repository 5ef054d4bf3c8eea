"""What a node may do before any pod runs on it."""

import json
from typing import Any

import pytest

from components.eks import cluster
from components.eks import node_role as nodes
from tests.components import configs, monitor, places


def node_role(eks_name: str | None, *, cni: bool = False) -> monitor.World:
    fields: dict[str, Any] = {"existing": {"eksCluster": eks_name}} if eks_name else {}
    config = configs.of_cluster(configs.existing(**fields)).stack.config.clusters["bench"]
    assert config.existing is not None
    args = cluster.ExistingClusterArgs(place=places.place(), config=config, existing=config.existing)

    def program() -> dict[str, Any]:
        access = cluster.ExistingCluster("bench", args).access
        role = nodes.NodeRole("bench.nodes", nodes.NodeRoleArgs(place=places.place(), access=access, cni=cni))
        return {"ready": [one.urn for one in role.ready]}

    return monitor.run(program)


def test_nodes_may_join_and_pull_images_and_no_more() -> None:
    world = node_role("lab")
    role = world.one("iam/role:Role")
    assert json.loads(role.inputs["assumeRolePolicy"])["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert {one.inputs["policyArn"] for one in world.of_type(":RolePolicyAttachment")} == {
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
    }
    assert not world.of_type(":RolePolicy")
    entry = world.one(":AccessEntry").inputs
    assert entry["principalArn"] == "arn:aws:mock::Role/bench.nodes"
    assert (entry["clusterName"], entry["type"]) == ("lab", "EC2_LINUX")
    made = [*world.of_type(":RolePolicyAttachment"), world.one(":InstanceProfile"), world.one(":AccessEntry")]
    assert set(world.outputs["ready"]) == {one.urn for one in made}


@pytest.mark.accept("S15", part="nodes get the rights of the CNI where its pods have no role of their own")
def test_nodes_get_the_rights_of_the_cni_where_the_config_says_so() -> None:
    with_cni = {one.inputs["policyArn"] for one in node_role("lab", cni=True).of_type(":RolePolicyAttachment")}
    without = {one.inputs["policyArn"] for one in node_role("lab").of_type(":RolePolicyAttachment")}
    assert with_cni - without == {"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"}


def test_nodes_of_another_cluster_have_no_entry() -> None:
    world = node_role(None)
    assert not world.of_type(":AccessEntry")
    assert world.one(":InstanceProfile").inputs["role"] == "bench.nodes"
