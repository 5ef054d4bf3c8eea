"""The grid: each (pool, zone, type) once, stable names, tags that a from-zero scaler needs, and what is left out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys, names
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from components import loading
from components.config.clusters import Cluster
from components.config.network import Network
from components.nodes import grid
from components.regions import offerings
from components.regions.offerings import Offerings
from tests.components import configs

ALL = configs.offerings(
    m7i_large=configs.offer("a", "b", "c"),
    m7g_large=configs.offer("a", "b", architecture="arm64"),
    p3_8xlarge=configs.offer("b", gpus=4, gpu_name="V100", vcpus=32),
)
ZONES = tuple(ALL.zones)


def cluster(**pools: dict[str, Any]) -> Cluster:
    fields = configs.existing(nodePools={name.replace("_", "-"): pool for name, pool in pools.items()})
    return Cluster.model_validate_json(json.dumps(fields), strict=True)


def plan(offered: Offerings = ALL, tags: dict[str, str] | None = None, **pools: dict[str, Any]) -> grid.Grid:
    return grid.plan("c", cluster(**pools), offered, tags=tags or {})


def located(made: grid.Grid) -> set[tuple[str, str, str]]:
    return {(group.key.pool, group.key.zone, group.key.instance_type) for group in made.groups}


pools = st.dictionaries(
    st.from_regex(r"[a-z]([-a-z0-9]{0,55}[a-z0-9])?", fullmatch=True),
    st.builds(
        lambda types, zones: configs.pool(instanceTypes=types, zones=zones),
        st.lists(st.sampled_from(sorted(ALL.types)), min_size=1, unique=True),
        st.just("all") | st.lists(st.sampled_from(ZONES), min_size=1, unique=True),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.accept("G1")
@given(pools)
def test_every_offered_pool_zone_and_type_has_exactly_one_group(given: dict[str, Any]) -> None:
    made = grid.plan("c", cluster(**given), ALL, tags={})
    want = {
        (name, zone, instance_type)
        for name, pool in given.items()
        for instance_type in pool["instanceTypes"]
        for zone in (ZONES if pool["zones"] == "all" else pool["zones"])
        if zone in ALL.types[instance_type].zones
    }
    assert located(made) == want
    assert len(made.groups) == len(want) == len({group.name for group in made.groups})
    assert all(len(group.name) <= names.NODE_GROUP_MAX for group in made.groups)
    nowhere = {(one.path[1], one.value) for one in made.problems}
    missing = {(name, kind) for name, pool in given.items() for kind in pool["instanceTypes"]} - {
        (pool, kind) for pool, _, kind in want
    }
    assert nowhere == missing


@given(pools, pools)
def test_adding_a_pool_changes_no_other_group(given: dict[str, Any], more: dict[str, Any]) -> None:
    before = grid.plan("c", cluster(**given), ALL, tags={})
    after = grid.plan("c", cluster(**{**more, **given}), ALL, tags={})
    assert all(one in after.groups for one in before.groups)


def test_adding_a_zone_changes_no_other_group() -> None:
    before = plan(work=configs.pool(instanceTypes=["m7i.large"], zones=[ZONES[1]]))
    after = plan(work=configs.pool(instanceTypes=["m7i.large"], zones=[ZONES[0], ZONES[1]]))
    assert [group for group in after.groups if group.key.zone == ZONES[1]] == list(before.groups)


@given(
    st.from_regex(r"[a-z][-a-z0-9]{0,59}", fullmatch=True),
    st.lists(
        st.builds(
            lambda pool, zone, instance_type: NodeGroupKey(pool=pool, zone=zone, instance_type=instance_type),
            pool=st.from_regex(r"[a-z]{1,20}(-[a-z]{1,5})?", fullmatch=True),
            zone=st.sampled_from(ZONES),
            instance_type=st.sampled_from(sorted(ALL.types)),
        ),
        unique=True,
        min_size=2,
        max_size=6,
    ),
)
def test_no_two_keys_share_a_name(name: str, groups: list[NodeGroupKey]) -> None:
    assert len({grid.name(name, key) for key in groups}) == len(groups)


@pytest.mark.parametrize(("percent", "want"), [(0, "7518Mi"), (7.5, "6903Mi"), (10, "6698Mi")])
def test_the_memory_that_hypervisors_take_is_configured(percent: float, want: str) -> None:
    where = cluster(gpu=configs.pool(instanceTypes=["p3.8xlarge"]))
    where = where.model_copy(update={"vm_memory_overhead_percent": percent})
    (group,) = grid.plan("c", where, ALL, tags={}).groups
    assert group.resources["memory"] == want


@pytest.mark.accept("G2")
def test_every_group_carries_discovery_and_template_tags() -> None:
    gpu = configs.pool(
        nodeType="bai-worker",
        instanceTypes=["p3.8xlarge"],
        tags=["disk=500", "kvm"],
        labels={"team": "ml"},
        taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}],
    )
    (group,) = plan(tags={"cost": "research"}, gpu=gpu).groups
    template = "k8s.io/cluster-autoscaler/node-template"
    want = {
        "cost": "research",
        "Name": "c.gpu.eu-west-1b.p3.8xlarge",
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/c": "owned",
        "kubernetes.io/cluster/c": "owned",
        "sluice.dev/instance-pool": "gpu",
        f"{template}/label/node.type": "bai-worker",
        f"{template}/label/eks.amazonaws.com/capacityType": "ON_DEMAND",
        f"{template}/label/sluice.dev/instance-pool": "gpu",
        f"{template}/label/topology.kubernetes.io/zone": "eu-west-1b",
        f"{template}/label/failure-domain.beta.kubernetes.io/zone": "eu-west-1b",
        f"{template}/label/node.kubernetes.io/instance-type": "p3.8xlarge",
        f"{template}/label/kubernetes.io/arch": "amd64",
        f"{template}/label/k8s.amazonaws.com/accelerator": "nvidia-v100",
        f"{template}/label/tag.sluice.dev/disk": "500",
        f"{template}/label/tag.sluice.dev/kvm": "",
        f"{template}/label/team": "ml",
        f"{template}/taint/dedicated": "ml:NoSchedule",
        f"{template}/taint/sluice.dev/instance-pool": "gpu:PreferNoSchedule",
        f"{template}/resources/nvidia.com/gpu": "4",
        f"{template}/resources/memory": "6903Mi",
        f"{template}/resources/ephemeral-storage": f"{44 * 1024}Mi",
    }
    assert group.tags == want
    assert group.gpus == 4


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1", "us-west-2"])
def test_every_type_of_the_example_regions_makes_a_group(region: str) -> None:
    offered = offerings.load(region, loading.OFFERINGS)
    names = list(offered.types)
    for start in range(0, len(names), 64):
        made = grid.plan("c", cluster(work=configs.pool(instanceTypes=names[start : start + 64])), offered, tags={})
        assert made.problems == ()


@pytest.mark.accept("G3")
def test_the_kubelet_registers_the_node_type_that_the_template_tag_promises() -> None:
    for group in plan(work=configs.pool(nodeType="bai-worker", instanceTypes=["m7i.large"])).groups:
        registered = grid.registered_labels(group)
        assert registered[keys.NODE_TYPE] == group.tags[f"{keys.TAG_TEMPLATE_LABEL}node.type"] == "bai-worker"
        assert registered[keys.ZONE_BETA] == group.key.zone
        assert not registered.keys() & {keys.ZONE, keys.INSTANCE_TYPE, keys.ARCHITECTURE}


@pytest.mark.accept("G4")
def test_zones_that_do_not_offer_the_type_are_left_out_and_named() -> None:
    made = plan(work=configs.pool(instanceTypes=["m7g.large"]))
    assert [group.key.zone for group in made.groups] == ["eu-west-1a", "eu-west-1b"]
    want = grid.Omission(pool="work", instance_type="m7g.large", zone="eu-west-1c", reason="not offered")
    assert made.omissions == (want,)
    assert not made.problems


@pytest.mark.accept("G4")
@pytest.mark.parametrize(
    ("pool", "want"),
    [
        (configs.pool(instanceTypes=["m8i.large"]), "is offered nowhere in eu-west-1; did you mean m7i.large"),
        (
            configs.pool(instanceTypes=["p3.8xlarge"], zones=["eu-west-1a"]),
            "is offered in eu-west-1b only, and the pool",
        ),
    ],
)
def test_a_type_that_no_chosen_zone_offers_is_a_problem(pool: dict[str, Any], want: str) -> None:
    (problem,) = plan(work=pool).problems
    assert want in problem.message
    assert problem.path == ("nodePools", "work", "instanceTypes", 0)


def test_zones_without_a_subnet_are_left_out_unless_they_are_named() -> None:
    network = {"vpcId": "vpc-12345678", "subnetIds": {"eu-west-1a": "subnet-12345678"}}
    everywhere = cluster(work=configs.pool(instanceTypes=["m7i.large"]))
    named = cluster(work=configs.pool(instanceTypes=["m7i.large"], zones=["eu-west-1a", "eu-west-1b"]))
    adopted = Network.model_validate(network)
    made = grid.plan("c", everywhere.model_copy(update={"network": adopted}), ALL, tags={})
    assert [group.key.zone for group in made.groups] == ["eu-west-1a"]
    assert {(one.zone, one.reason) for one in made.omissions} == {
        ("eu-west-1b", "no subnet"),
        ("eu-west-1c", "no subnet"),
    }
    (problem,) = grid.plan("c", named.model_copy(update={"network": adopted}), ALL, tags={}).problems
    assert (problem.value, problem.message) == ("eu-west-1b", "has no subnet; add one to network.subnetIds")


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, {("sluice.dev/instance-pool", "work", "PreferNoSchedule")}),
        (
            {"ephemeral": True},
            {
                ("sluice.dev/instance-pool", "work", "PreferNoSchedule"),
                ("sluice.dev/reserved-for", "none", "NoSchedule"),
            },
        ),
    ],
)
def test_pool_nodes_are_tainted_by_what_the_pool_is(fields: dict[str, Any], want: set[tuple[str, str, str]]) -> None:
    (group, *_) = plan(work=configs.pool(instanceTypes=["m7i.large"], **fields)).groups
    assert {(taint.key, taint.value, str(taint.effect)) for taint in group.taints} == want


def test_an_exclusive_pool_keeps_others_away() -> None:
    fields = configs.existing(
        nodePools={"work": configs.pool(instanceTypes=["m7i.large"], instanceWide=False)},
        scopes={"s": {"pools": [{"name": "work"}]}},
    )
    made = configs.of_cluster(fields).grids["bench"]
    for group in made.groups:
        got = [(taint.key, taint.value, str(taint.effect)) for taint in group.taints]
        assert got == [(keys.INSTANCE_POOL, "work", "PreferNoSchedule"), (keys.INSTANCE_POOL, "work", "NoSchedule")]
        assert group.tags[f"{keys.TAG_TEMPLATE_TAINT}{keys.INSTANCE_POOL}"] == "work:NoSchedule"


def test_one_image_cannot_serve_two_architectures() -> None:
    pool = configs.pool(instanceTypes=["m7i.large", "m7g.large"], image={"imageId": "ami-12345678"})
    (problem,) = plan(work=pool).problems
    assert problem.path == ("nodePools", "work", "image")
    assert "amd64 and arm64" in problem.message


@pytest.mark.accept("G5")
@pytest.mark.parametrize(
    ("groups", "limit", "refused", "warned"),
    [(79, 100, False, False), (80, 100, False, True), (100, 100, False, True), (101, 100, True, True)],
)
def test_the_quota_warns_at_80_percent_and_refuses_above(groups: int, limit: int, refused: bool, warned: bool) -> None:  # noqa: FBT001
    assert (grid.quota(groups, limit) is not None) == refused
    assert (grid.quota_warning(groups, limit) is not None) == warned


def test_the_pool_of_the_config_fits_the_custom_resource() -> None:
    """Names, tags and limits that the config accepts are ones that the API server accepts too."""
    shared = {
        "tags",
        "limits",
        "enabled",
        "instance_wide",
        "ephemeral",
        "registration_timeout_seconds",
        "drain_seconds",
    }
    pool = cluster(work=configs.pool(instanceTypes=["m7i.large"])).node_pools["work"]
    spec = InstancePoolSpec(provider_account="aws")
    assert {name: getattr(pool, name) for name in shared} == {name: getattr(spec, name) for name in shared}


SERVICES_TAINT = {"k8s.io/cluster-autoscaler/node-template/taint/CriticalAddonsOnly": "true:NoSchedule"}


def taint_tags(fields: dict[str, Any], pool: str) -> dict[str, str]:
    chosen = Cluster.model_validate_json(json.dumps(fields), strict=True)
    group = grid.plan("c", chosen, ALL, tags={}).of_pool(pool)[0]
    tags = {key: value for key, value in group.tags.items() if key.startswith(keys.TAG_TEMPLATE_TAINT)}
    return {key: value for key, value in tags.items() if keys.INSTANCE_POOL not in key}


@pytest.mark.accept("S16", part="the services pool's taint")
def test_services_nodes_of_a_new_cluster_are_for_the_clusters_services_unless_the_config_says_otherwise() -> None:
    services = configs.SERVICES
    new = configs.cluster(nodePools={"services": services, "work": configs.pool(instanceTypes=["m7i.large"])})
    assert taint_tags(new, "services") == SERVICES_TAINT
    assert taint_tags(new, "work") == {}
    assert taint_tags(configs.cluster(nodePools={"services": {**services, "taints": []}}), "services") == {}
    there = configs.existing(nodePools={"services": services})
    assert taint_tags(there, "services") == {}
    own = [{"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}]
    assert taint_tags(configs.existing(nodePools={"services": {**services, "taints": own}}), "services") == (
        SERVICES_TAINT
    )


IDLE_TAG = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime"


@pytest.mark.parametrize(("scaler", "want"), [("cluster-autoscaler", "600s"), ("native", None)])
def test_the_upstream_autoscaler_is_told_how_long_instances_may_be_idle(scaler: str, want: str | None) -> None:
    pools = {"services": {**configs.SERVICES, "limits": {"maxIdleSeconds": 600}}}
    fields = configs.cluster(nodePools=pools, autoscaler={"nodeScaler": scaler})
    group = configs.of_cluster(fields).grids["bench"].groups[0]
    assert group.tags.get(IDLE_TAG) == want
    assert (
        IDLE_TAG
        not in configs.of_cluster(configs.cluster(autoscaler={"nodeScaler": scaler})).grids["bench"].groups[0].tags
    )


def test_money_that_nobody_keeps_is_warned_of() -> None:
    pools = {"services": configs.SERVICES, "w": configs.pool(limits={"targetMaxCostPerMonth": 5})}
    fields = configs.cluster(nodePools=pools, autoscaler={"nodeScaler": "cluster-autoscaler"})
    loaded = configs.load(configs.values(clusters={"bench": fields}, alarms={"emails": ["a@x.org"]}))
    assert any("cluster bench: node pool w: targetMaxCostPerMonth is a budget" in one for one in loaded.warnings)
