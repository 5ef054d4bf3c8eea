"""Static nodes weigh most, then the scope's pools by priority; a pod's own choices stay."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import node_preference
from autoscaler.api.resources.scopes import POOLS_MAX
from tests import builders

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def changed(pod_spec: Manifest, priorities: Mapping[str, int], *, namespace_scope: str | None = "team") -> Manifest:
    pools = [{"name": name, "priority": priority} for name, priority in priorities.items()]
    request = base.Request(
        operation=base.Operation.CREATE,
        object={"metadata": {"name": "p"}, "spec": pod_spec},
        namespace_labels={} if namespace_scope is None else {keys.SCOPE: namespace_scope},
        param=builders.resource("Scope", name="team", pools=pools),
    )
    spec: Manifest = node_preference.POLICY.twin(request)["spec"]
    return spec


def weights(priorities: Mapping[str, int]) -> dict[str, int]:
    terms = changed({}, priorities)["affinity"]["nodeAffinity"][PREFERRED]
    named = {}
    for term in terms:
        (expression,) = term["preference"]["matchExpressions"]
        assert expression["key"] == keys.INSTANCE_POOL
        named[expression.get("values", ["static"])[0]] = term["weight"]
    return named


@pytest.mark.parametrize(
    ("priorities", "want"),
    [
        ({}, {"static": 100}),
        ({"a": 0}, {"static": 100, "a": 12}),
        ({"a": -1, "b": 7}, {"static": 100, "b": 29, "a": 3}),
        ({"a": 5, "b": 5, "c": 1}, {"static": 100, "a": 42, "b": 42, "c": 1}),
    ],
)
def test_weights_fall_with_the_rank(priorities: dict[str, int], want: dict[str, int]) -> None:
    assert weights(priorities) == want


@given(st.lists(st.integers(-1_000_000_000, 1_000_000_000), max_size=POOLS_MAX))
def test_weights_order_pools_as_their_priorities_do(priorities: list[int]) -> None:
    named = {f"pool-{index}": priority for index, priority in enumerate(priorities)}
    got = weights(named)
    assert got.pop("static") == node_preference.STATIC_WEIGHT
    assert all(1 <= weight < node_preference.STATIC_WEIGHT for weight in got.values())
    for one, weight in got.items():
        for other, lower in got.items():
            assert (weight > lower) == (named[one] > named[other])


@pytest.mark.parametrize("namespace_scope", [None, "other"])
def test_pods_of_other_scopes_are_left_alone(namespace_scope: str | None) -> None:
    assert changed({"hostNetwork": True}, {"a": 1}, namespace_scope=namespace_scope) == {"hostNetwork": True}


def preference(key: str) -> Manifest:
    return {"weight": 9, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}


def test_a_pods_own_preferences_and_requirements_stay_beside_ours() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": keys.INSTANCE_POOL, "operator": "Exists"}]}]}
    own: dict[str, Any] = {PREFERRED: [preference("disk")], "requiredDuringSchedulingIgnoredDuringExecution": required}
    got = changed({"affinity": {"nodeAffinity": own, "podAffinity": {}}}, {"a": 1})["affinity"]
    assert got["podAffinity"] == {}
    assert got["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == required
    assert got["nodeAffinity"][PREFERRED][0] == preference("disk")
    assert len(got["nodeAffinity"][PREFERRED]) == 3


def test_a_pod_that_prefers_among_pools_itself_has_chosen() -> None:
    spec = {"affinity": {"nodeAffinity": {PREFERRED: [preference(keys.INSTANCE_POOL)]}}}
    assert changed(spec, {"a": 1}) == spec


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(-2, 2)))
def test_asked_again_nothing_is_added(priorities: dict[str, int]) -> None:
    once = changed({}, priorities)
    assert changed(once, priorities) == once
