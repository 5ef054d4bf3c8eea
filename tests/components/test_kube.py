"""A role and its binding go together, where the metadata says."""

from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from components import kube
from tests.components import monitor

RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
GROUP = "rbac.authorization.k8s.io"
SUBJECT = {"kind": "ServiceAccount", "name": "pump", "namespace": "ops"}


def grant(metadata: dict[str, Any]) -> monitor.World:
    def program() -> None:
        place = k8s.core.v1.Namespace("ops")
        opts = pulumi.ResourceOptions(provider=k8s.Provider("plane"), depends_on=[place])
        made = kube.grant("x", opts, metadata=metadata, rules=RULES, subject=kube.account("ops", "pump"))
        k8s.core.v1.ServiceAccount("last", opts=pulumi.ResourceOptions(depends_on=made))

    return monitor.run(program)


@pytest.mark.parametrize(("namespace", "kind"), [({"namespace": "ops"}, "Role"), ({}, "ClusterRole")])
def test_a_role_comes_with_its_binding_in_a_namespace_or_in_the_whole_cluster(
    namespace: dict[str, str], kind: str
) -> None:
    metadata = {"name": "rights", **namespace}
    world = grant(metadata)
    role, binding = world.one(f"rbac.authorization.k8s.io/v1:{kind}"), world.one(f":{kind}Binding")
    assert (role.inputs["metadata"], role.inputs["rules"]) == (metadata, RULES)
    assert binding.inputs["metadata"] == metadata
    assert binding.inputs["roleRef"] == {"apiGroup": GROUP, "kind": kind, "name": "rights"}
    assert binding.inputs["subjects"] == [SUBJECT]
    assert binding.waits_for(role)
    for one in (role, binding):
        assert "::plane::" in one.provider
        assert one.waits_for(world.one(":Namespace"))
        assert world.one(":ServiceAccount", "last").waits_for(one)


def test_a_role_that_is_there_is_bound_to_a_group() -> None:
    def program() -> None:
        subject = kube.group("staff")
        kube.bind("x", pulumi.ResourceOptions(), metadata={"name": "staff-sees"}, role="view", subject=subject)

    world = monitor.run(program)
    binding = world.one(":ClusterRoleBinding")
    assert world.of_type(":ClusterRole") == []
    assert binding.inputs["roleRef"] == {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    assert binding.inputs["subjects"] == [{"apiGroup": GROUP, "kind": "Group", "name": "staff"}]
