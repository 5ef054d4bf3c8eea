"""Viewers read everything but Secrets: what Kubernetes' own view shows, and nodes and disks."""

import json
from typing import Any

import pulumi_kubernetes as k8s
import pytest

from components.access import rbac, viewers
from tests.components import accesses, configs, monitor

VIEWER = f"arn:aws:iam::{configs.ACCOUNT}:role/developers"
ADMIN = f"arn:aws:iam::{configs.ACCOUNT}:role/deployer"


def run(*principals: str, **autoscaler: Any) -> monitor.World:
    config = accesses.config(access={"admins": [ADMIN], "viewers": list(principals)}, autoscaler=autoscaler)

    def program() -> None:
        entry = k8s.core.v1.ServiceAccount("entry")
        viewers.Viewers("v", viewers.ViewersArgs(config=config, provider=k8s.Provider("plane"), after=[entry]))

    return monitor.run(program)


@pytest.mark.parametrize(("name", "role", "want"), [("v.view", "view", "viewers"), ("v.nodes", None, "nodes-view")])
def test_the_group_is_bound_to_the_view_of_the_whole_cluster_and_to_that_of_nodes(
    name: str, role: str | None, want: str
) -> None:
    binding = run(VIEWER).one(":ClusterRoleBinding", name).inputs
    assert binding["metadata"]["name"] == f"sluice-{want}"
    assert binding["roleRef"]["kind"] == "ClusterRole"
    assert binding["roleRef"]["name"] == (role or f"sluice-{want}")
    assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "sluice:viewers"}]


def test_everything_is_in_the_cluster_after_what_it_needs() -> None:
    world = run(VIEWER)
    made = [one for one in world.made if "rbac" in one.type]
    assert len(made) == 3
    for one in made:
        assert one.parent == world.one(":Viewers").urn
        assert "::plane::" in one.provider
        assert one.waits_for(world.one(":ServiceAccount", "entry"))


def test_nothing_is_bound_where_there_are_no_viewers() -> None:
    assert [one.type for one in run().made if "rbac" in one.type] == []


def test_two_runtimes_in_a_cluster_do_not_share_a_role() -> None:
    made = run(VIEWER, rbac={"name": "second"}).of_type(":ClusterRoleBinding")
    assert {one.inputs["metadata"]["name"] for one in made} == {"second-viewers", "second-nodes-view"}


@pytest.mark.accept("S6")
def test_the_role_reads_nodes_and_disks_and_nothing_else() -> None:
    rules = run(VIEWER).one(":ClusterRole").inputs["rules"]
    assert rules == list(rbac.nodes_view())
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    seen = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    want = {("", "nodes"), ("", "namespaces"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")}
    assert seen == want
    assert "*" not in json.dumps(rules)
