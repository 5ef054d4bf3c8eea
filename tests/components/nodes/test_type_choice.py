"""Instance types by requirement: which fit, in which order, and what is said where none or too many do."""

import json
from typing import Any

import pytest

from components import specs
from components.config.clusters import Cluster
from components.nodes import grid, type_choice
from tests.components import configs

OFFERED = configs.offerings(
    m5_2xlarge=configs.offer("a", "b", vcpus=8, memory_mib=32768),
    m7i_2xlarge=configs.offer("a", "b", vcpus=8, memory_mib=32768),
    m7i_4xlarge=configs.offer("b", vcpus=16, memory_mib=65536),
    c7i_4xlarge=configs.offer("a", vcpus=16, memory_mib=32768),
    c7i_metal=configs.offer("a", vcpus=16, memory_mib=32768),
    m7g_2xlarge=configs.offer("a", vcpus=8, memory_mib=32768, architecture="arm64"),
    p3_8xlarge=configs.offer("b", gpus=4, gpu_name="V100", vcpus=16, memory_mib=65536),
    g5_4xlarge=configs.offer("b", gpus=1, gpu_name="A10G", vcpus=16, memory_mib=65536),
)


def chosen(zones: Any = "all", **wanted: Any) -> type_choice.Chosen:
    pools = {"work": configs.pool(instanceTypes=wanted, zones=zones), "other": configs.pool()}
    cluster = Cluster.model_validate_json(json.dumps(configs.existing(nodePools=pools)), strict=True)
    return type_choice.choose(cluster, OFFERED)


def types(zones: Any = "all", **wanted: Any) -> list[str]:
    made = chosen(zones, **wanted)
    assert not made.problems
    assert made.cluster.node_pools["other"].types == ("c5.18xlarge",)
    return list(made.cluster.node_pools["work"].types)


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        ({}, ["m5.2xlarge", "m7i.2xlarge", "c7i.4xlarge", "m7i.4xlarge"]),
        ({"vcpus": 8}, ["m5.2xlarge", "m7i.2xlarge"]),
        ({"vcpus": "9-"}, ["c7i.4xlarge", "m7i.4xlarge"]),
        ({"vcpus": "-8"}, ["m5.2xlarge", "m7i.2xlarge"]),
        ({"memoryGib": "33-64"}, ["m7i.4xlarge"]),
        ({"generations": "6-"}, ["m7i.2xlarge", "c7i.4xlarge", "m7i.4xlarge"]),
        ({"families": ["c"]}, ["c7i.4xlarge"]),
        ({"architectures": ["arm64"]}, ["m7g.2xlarge"]),
        ({"architectures": ["amd64", "arm64"], "vcpus": 8}, ["m5.2xlarge", "m7g.2xlarge", "m7i.2xlarge"]),
        ({"families": ["c"], "bareMetal": True}, ["c7i.4xlarge", "c7i.metal"]),
        ({"gpu": "any"}, ["g5.4xlarge", "p3.8xlarge"]),
        ({"gpu": "V100"}, ["p3.8xlarge"]),
    ],
)
def test_types_that_fit_are_taken_small_ones_first(wanted: dict[str, Any], want: list[str]) -> None:
    assert types(**wanted) == want


def test_a_type_that_none_of_the_pools_zones_offers_is_left_out() -> None:
    assert types(["eu-west-1a"], generations="7-") == ["m7i.2xlarge", "c7i.4xlarge"]


@pytest.mark.parametrize(
    ("name", "want"), [("m7i.large", "m"), ("c7i-flex.large", "c"), ("u-6tb1.56xlarge", "u-6tb"), ("im4gn.large", "im")]
)
def test_a_family_is_the_letters_before_the_generation(name: str, want: str) -> None:
    assert type_choice.family(name) == want


@pytest.mark.parametrize(
    ("wanted", "path", "message"),
    [
        (
            {"vcpus": "99-", "families": ["m"]},
            (),
            "no instance type that eu-west-1 offers fits: without vcpus 3 would",
        ),
        ({"vcpus": "99-", "memoryGib": "99-"}, (), "fits, and dropping any one of these does not help"),
        (
            {"families": ["m", "mm"]},
            ("families", 1),
            "did you mean m? families of instance types in eu-west-1: c, g, m, p",
        ),
        ({"gpu": "v100"}, ("gpu",), "did you mean V100? known in eu-west-1: none, any, A10G, V100"),
    ],
)
def test_what_does_not_help_is_said(wanted: dict[str, Any], path: tuple[Any, ...], message: str) -> None:
    made = chosen(**wanted)
    (problem,) = made.problems
    assert problem.path == ("nodePools", "work", "instanceTypes", *path)
    assert message in problem.message
    assert made.cluster.node_pools["work"].types == ()


def test_more_types_than_a_pool_may_have_are_refused_with_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_choice, "TYPES_MAX", 3)
    (problem,) = chosen().problems
    assert "4 instance types fit, and a pool has at most 3" in problem.message
    assert problem.message.endswith("(c 1, m 3)")


def test_what_fits_becomes_groups_and_the_pools_types_and_previews_list_it() -> None:
    wanted = {"vcpus": 8, "memoryGib": 32, "families": ["m"], "generations": "7-"}
    pools = {"services": configs.SERVICES, "work": configs.pool(instanceTypes=wanted)}
    loaded = configs.load(configs.values(clusters={"bench": configs.cluster(nodePools=pools)}))
    pool = loaded.stack.config.clusters["bench"].node_pools["work"]
    groups = loaded.grids["bench"].of_pool("work")
    assert {group.key.instance_type for group in groups} == set(pool.types) > {"m7i.2xlarge"}
    assert specs.instance_pool(pool, groups)["specifications"]["instanceTypes"] == list(pool.types)
    assert "| work | m7i.2xlarge | eu-west-1a" in grid.markdown(loaded.grids)
