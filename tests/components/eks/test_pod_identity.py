import json
from typing import Any

import pytest

from components.eks import cluster, pod_identity
from tests.components import configs, monitor, places

POLICY = json.dumps({"Version": "2012-10-17", "Statement": []})
MANAGED = "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"


def run(eks_name: str | None = "lab", **fields: Any) -> monitor.World:
    loaded = configs.of_cluster(configs.existing(**({"existing": {"eksCluster": eks_name}} if eks_name else {})))
    config = loaded.stack.config.clusters["bench"]
    assert config.existing is not None
    existing = cluster.ExistingClusterArgs(place=places.place(), config=config, existing=config.existing)

    def program() -> dict[str, Any]:
        access = cluster.ExistingCluster("bench", existing).access
        args = pod_identity.PodRoleArgs(
            place=places.place(), cluster=access, namespace="ns", service_account="sa", **fields
        )
        role = pod_identity.PodRole("bench-runtime", args)
        return {"arn": role.role.arn, "ready": [one.urn for one in role.ready]}

    return monitor.run(program)


def test_a_role_is_tied_to_one_service_account() -> None:
    world = run(policies={"instances": POLICY})
    assert world.one(":PodIdentityAssociation").inputs == {
        "clusterName": "lab",
        "namespace": "ns",
        "serviceAccount": "sa",
        "roleArn": "arn:aws:mock::Role/bench-runtime",
        "tags": places.OWNED,
    }
    role = world.one("iam/role:Role")
    (trusted,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trusted["Condition"]["ArnEquals"] == {"aws:SourceArn": "arn:aws:eks:eu-west-1:123456789012:cluster/lab"}
    assert trusted["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"] == "sa"
    assert role.inputs["tags"] == places.OWNED
    assert "name" not in role.inputs
    component = world.one("sluice:index:PodRole")
    ours = [one for one in world.made if one.type.startswith("aws:")]
    assert all(one.parent == component.urn for one in ours)


def test_policies_are_given_before_a_pod_can_ask() -> None:
    world = run(policies={"instances": POLICY}, managed_policy_arns={"cni": MANAGED})
    inline, managed = world.one(":RolePolicy"), world.one(":RolePolicyAttachment")
    assert (inline.name, inline.inputs) == ("bench-runtime.instances", {"role": "bench-runtime", "policy": POLICY})
    assert (managed.name, managed.inputs) == ("bench-runtime.cni", {"role": "bench-runtime", "policyArn": MANAGED})
    association = world.one(":PodIdentityAssociation")
    assert association.waits_for(inline)
    assert association.waits_for(managed)
    assert set(world.outputs["ready"]) == {inline.urn, managed.urn, association.urn}


@pytest.mark.parametrize("policies", [{}, {"instances": POLICY}])
def test_outside_eks_there_is_a_role_and_no_tie(policies: dict[str, str]) -> None:
    world = run(None, policies=policies)
    assert not world.of_type(":PodIdentityAssociation")
    assert len(world.of_type(":RolePolicy")) == len(policies)
    assert world.outputs["arn"] == "arn:aws:mock::Role/bench-runtime"
