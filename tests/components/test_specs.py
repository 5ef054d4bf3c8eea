"""A declared object is sent as its user wrote it; what the stack works out, as far as it differs from defaults."""

import pytest

from autoscaler.api import schema
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.api.resources.pools import InstancePoolSpec, PoolLimits
from autoscaler.api.resources.queues import ClusterQueueSpec
from components import specs
from tests.components import accesses, configs


def bench_pool(**fields: object) -> Manifest:
    loaded = configs.of_cluster(configs.cluster(nodePools={"services": configs.SERVICES, "w": configs.pool(**fields)}))
    pool = loaded.stack.config.clusters["bench"].node_pools["w"]
    return specs.instance_pool(pool, loaded.grids["bench"].of_pool("w"))


def test_what_the_user_left_out_is_left_to_the_api_server() -> None:
    given = {
        "cohort": None,
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 20}]}],
            }
        ],
    }
    want = {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "20"}]}],
            }
        ]
    }
    assert specs.declared(ClusterQueueSpec.model_validate(given)) == want


@pytest.mark.accept("S4", "P4")
def test_a_node_pool_becomes_an_instance_pool_with_its_limits() -> None:
    limits = {"maxActiveInstances": 40, "targetMaxSecondsPerMonth": 2_000_000, "maxIdleSeconds": 600}
    got = bench_pool(
        instanceTypes=["c5.18xlarge", "a1.large"],
        zones=["eu-west-1b"],
        limits=limits,
        tags=["ssd", "disk=200"],
        capacityType="spot",
        drainSeconds=60,
        ephemeral=True,
        startupTaints=[{"key": "efs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}],
    )
    want = {
        "providerAccount": "aws",
        "architectures": ["amd64", "arm64"],
        "tags": ["ssd", "disk=200"],
        "specifications": {
            "instanceTypes": ["c5.18xlarge", "a1.large"],
            "zones": ["eu-west-1b"],
            "capacityType": "spot",
            "nodeType": "worker",
        },
        "ephemeral": True,
        "limits": limits,
        "startupTaints": [{"key": "efs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}],
        "drainSeconds": 60,
    }
    assert got == want


@pytest.mark.accept("P4")
def test_a_pools_defaults_are_the_runtimes_own() -> None:
    got = InstancePoolSpec.model_validate(bench_pool())
    assert got.limits == PoolLimits()
    want = InstancePoolSpec(provider_account="aws")
    for field in ("enabled", "instance_wide", "ephemeral", "registration_timeout_seconds", "drain_seconds"):
        assert getattr(got, field) == getattr(want, field)


@pytest.mark.accept("S2")
def test_no_default_is_sent() -> None:
    known = schema.structural(InstancePoolSpec, defaults=True)["properties"]
    defaulted = {name for name, field in known.items() if "default" in field}
    assert {"enabled", "instanceWide", "registrationTimeoutSeconds", "drainSeconds", "limits"} <= defaulted
    assert not defaulted & bench_pool().keys() - {"specifications"}
    assert "capacityType" not in bench_pool()["specifications"]
    want = {"enabled": False, "registrationTimeoutSeconds": 60, "limits": {"maxIdleSeconds": 60}}
    said = bench_pool(**want)
    assert {name: said[name] for name in want} == want


def test_no_field_is_sent_that_the_definition_does_not_have() -> None:
    known = schema.structural(InstancePoolSpec, defaults=True)
    _assert_declared(bench_pool(limits={"maxActiveInstances": 1}), known)
    _assert_declared(specs.account("eu-west-1"), schema.structural(ProviderAccountSpec, defaults=True))


def _assert_declared(value: object, known: schema.Schema) -> None:
    if isinstance(value, dict) and "properties" in known:
        for key, inner in value.items():
            assert key in known["properties"]
            _assert_declared(inner, known["properties"][key])


@pytest.mark.accept("P19")
def test_namespaces_of_workloads_are_baseline_and_in_their_scope() -> None:
    config = accesses.config(
        namespaces={"lab": {"labels": {"team": "blue"}}},
        scopes={"research": {"namespaces": ["lab"], "pools": [{"name": "services"}]}},
    )
    want = {
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.36",
        "team": "blue",
        "sluice.dev/scope": "research",
    }
    assert specs.namespace_labels(config, "lab") == want


@pytest.mark.accept("M2", part="the stack labels the namespaces whose pods may be guests, and no others")
@pytest.mark.parametrize(("guests", "want"), [({"guests": True}, "enabled"), ({"guests": False}, None), ({}, None)])
def test_namespaces_of_guests_say_so(guests: dict[str, bool], want: str | None) -> None:
    config = accesses.config(namespaces={"lab": guests})
    assert specs.namespace_labels(config, "lab").get("sluice.dev/inject-resource") == want


@pytest.mark.parametrize(
    ("autoscaler", "namespaces", "want"),
    [
        ({"scope": "cluster"}, {}, "restricted"),
        ({"scope": "namespace"}, {}, "baseline"),  # workers run beside the runtime
        ({"scope": "cluster"}, {"sluice-system": {}}, "baseline"),
    ],
)
def test_the_runtimes_namespace_is_restricted_unless_workloads_share_it(
    autoscaler: dict[str, str], namespaces: dict[str, dict[str, str]], want: str
) -> None:
    config = accesses.config(autoscaler=autoscaler, namespaces=namespaces)
    assert specs.namespace_labels(config, "sluice-system")["pod-security.kubernetes.io/enforce"] == want


def test_a_namespace_is_made_unless_it_is_there_already() -> None:
    new = accesses.config(namespaces={"mine": {"existing": True}, "own": {}})
    assert [specs.is_existing_namespace(new, name) for name in ("mine", "own", "sluice-system")] == [True, False, False]
    there = configs.of_cluster(configs.existing(namespaces={"mine": {"existing": False}, "theirs": {}}))
    config = there.stack.config.clusters["bench"]
    assert [specs.is_existing_namespace(config, name) for name in ("mine", "theirs", "sluice-system")] == [
        False,
        True,
        False,
    ]
