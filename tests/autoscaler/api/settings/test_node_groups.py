"""The contract between the stack's grid and the simulation survives JSON, sorts, and refuses nonsense."""

import json
import random
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources import types
from autoscaler.api.settings import node_groups


def key(pool: str = "bench", zone: str = "eu-west-1a", instance_type: str = "p3.8xlarge") -> node_groups.NodeGroupKey:
    return node_groups.NodeGroupKey(pool=pool, zone=zone, instance_type=instance_type)


KEYS = st.tuples(
    st.sampled_from(["bench", "services", "a"]),
    st.sampled_from(["eu-west-1a", "eu-west-1b"]),
    st.sampled_from(["p3.8xlarge", "c5.18xlarge", "m7i.large"]),
).map(lambda parts: key(*parts))


def spec(**changes: Any) -> node_groups.NodeGroupSpec:
    defaults: dict[str, Any] = {
        "key": key(),
        "name": "bench-bench-eu-west-1a-p3-8xlarge",
        "minimum": 0,
        "maximum": 10,
        "architecture": "amd64",
        "vcpus": 32,
        "memory_bytes": 244 * 1024**3,
        "gpus": 4,
        "max_pods": 234,
        "labels": {"node.type": "bai-worker"},
        "taints": (types.Taint(key="sluice.dev/instance-pool", value="bench", effect=types.TaintEffect.NO_SCHEDULE),),
        "resources": {"nvidia.com/gpu": "4"},
        "tags": {"k8s.io/cluster-autoscaler/enabled": "true"},
    }
    return node_groups.NodeGroupSpec(**(defaults | changes))


@given(st.lists(KEYS))
def test_keys_sort_by_pool_then_zone_then_type(keys: list[node_groups.NodeGroupKey]) -> None:
    want = sorted((each.pool, each.zone, each.instance_type) for each in keys)
    assert [(each.pool, each.zone, each.instance_type) for each in sorted(keys)] == want


def test_equal_keys_are_one_key() -> None:
    assert len({key(), key(), key(zone="eu-west-1b")}) == 2
    assert key() <= key() < key(zone="eu-west-1b")


def test_groups_survive_json_in_camel_case() -> None:
    groups = node_groups.NodeGroups(cluster="bench", region="eu-west-1", groups=(spec(),))
    text = groups.to_json()
    assert node_groups.NodeGroups.model_validate_json(text) == groups
    written = json.loads(text)["groups"][0]
    assert written["key"] == {"pool": "bench", "zone": "eu-west-1a", "instanceType": "p3.8xlarge"}
    assert written["memoryBytes"] == 244 * 1024**3
    assert written["taints"] == [{"key": "sluice.dev/instance-pool", "value": "bench", "effect": "NoSchedule"}]


@given(st.randoms(use_true_random=False), st.sets(KEYS, max_size=8))
def test_the_text_does_not_depend_on_the_order_of_groups(
    shuffler: random.Random, keys: set[node_groups.NodeGroupKey]
) -> None:
    groups = [spec(key=each, name=f"{each.pool}-{each.zone}-{each.instance_type}") for each in sorted(keys)]
    want = node_groups.NodeGroups(cluster="c", region="r", groups=tuple(groups)).to_json()
    shuffler.shuffle(groups)
    assert node_groups.NodeGroups(cluster="c", region="r", groups=tuple(groups)).to_json() == want


def test_a_field_of_a_newer_stack_is_ignored() -> None:
    written = json.loads(node_groups.NodeGroups(cluster="c", region="r", groups=(spec(),)).to_json())
    written["groups"][0]["colour"] = "blue"
    assert node_groups.NodeGroups.model_validate(written).groups == (spec(),)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"minimum": 11}, "minimum 11 is above maximum 10"),
        ({"vcpus": 0}, "vcpus"),
        ({"architecture": "sparc"}, "architecture"),
        ({"tags": {str(number): "" for number in range(51)}}, "tags"),
        ({"resources": {"nvidia.com/gpu": "many"}}, "resources"),
    ],
)
def test_nonsense_is_refused_and_named(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=want):
        spec(**changes)


@pytest.mark.parametrize(
    ("second", "want"),
    [({"name": "other"}, "have the key"), ({"key": key(zone="eu-west-1b")}, "have the name")],
)
def test_two_groups_with_one_key_or_one_name_are_refused(second: dict[str, Any], want: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=want):
        node_groups.NodeGroups(cluster="c", region="r", groups=(spec(), spec(**second)))
