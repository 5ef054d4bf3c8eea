"""Which pods an instance is started for, and which pools may serve whom."""

from typing import Any

import pytest

from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.scaleup import demand, missed_placements
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen


def test_a_pod_that_no_node_has_room_for_is_demand() -> None:
    assert demand.is_demand(seen.pod())


@pytest.mark.parametrize(
    "what",
    [
        {"waits": False},
        {"node": "n"},
        {"owner": "DaemonSet"},
        {"schedulerName": "volcano"},
        {"priority": -11},
        {"schedulingGates": [{"name": "sluice.dev/admission"}]},
        {"status": {"nominatedNodeName": "n"}},
        {"metadata": {"deletionTimestamp": seen.STAMP}},
        {"metadata": {"labels": {"sluice.dev/pod-role": "reservation"}}},
        {"status": {"phase": "Failed"}},
    ],
    ids=str,
)
def test_what_an_instance_would_not_help_is_no_demand(what: dict[str, Any]) -> None:
    assert not demand.is_demand(seen.pod(**what))


def waiting(pods: list[objects.Pod]) -> dict[missed_placements.Waiting, list[objects.Pod]]:
    return demand.waiting(pod_index.indexed(pods))


def test_pods_that_are_alike_are_one_demand() -> None:
    found = waiting([seen.pod("a"), seen.pod("b"), seen.pod("c", cpu="2")])
    assert sorted(len(pods) for pods in found.values()) == [1, 2]


def test_a_scope_has_its_pools_by_priority_and_then_those_that_are_for_all() -> None:
    pools = {
        "own": seen.pool(instanceWide=False),
        "first": seen.pool(),
        "second": seen.pool(),
        "common": seen.pool(),
        "strangers": seen.pool(instanceWide=False),
    }
    scope = ScopeSpec.model_validate(
        {
            "pools": [
                {"name": "second", "priority": 1},
                {"name": "first", "priority": 5},
                {"name": "own", "priority": 5},
                {"name": "ghost", "priority": 9},
            ]
        }
    )
    assert [sorted(tier) for tier in demand.pools_of(scope, pools)] == [["first", "own"], ["second"], ["common"]]
    assert [sorted(tier) for tier in demand.pools_of(None, pools)] == [["common", "first", "second"]]


def test_a_namespace_joins_a_scope_by_its_label_if_the_scope_exists() -> None:
    labels = {"team": {"sluice.dev/scope": "research"}, "lost": {"sluice.dev/scope": "gone"}}
    snapshot = seen.snapshot(namespaces=labels, scopes={"research": ScopeSpec()})
    assert [demand.scope_of(snapshot, name) for name in ("team", "lost", "none")] == ["research", "", ""]


def test_pods_are_told_apart_by_labels_that_somebodys_rule_looks_at() -> None:
    rule = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    plain = [
        seen.pod("a", metadata={"labels": {"app": "a", "x": "1"}}),
        seen.pod("b", metadata={"labels": {"app": "b", "x": "2"}}),
        seen.pod("c", metadata={"labels": {"app": "b", "x": "3"}}),
    ]
    assert len(waiting(plain)) == 1
    assert len(waiting([*plain, seen.pod("there", node="n", affinity=affinity)])) == 2
