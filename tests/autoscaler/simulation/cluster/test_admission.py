"""Policies on the simulated cluster: in force when installed, told who writes, evaluated with their params."""

import dataclasses
from typing import Any

import pytest

from autoscaler.api import keys, policies, resources
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, served
from tests import builders
from tests.autoscaler.api.policies import machine_requests
from tests.contract.worlds import World

RUNTIME = "system:serviceaccount:sluice:runtime"
RUNTIME_USER = identities.account_user(machine_requests.NAMESPACE, "sluice")


def match(*operations: base.Operation) -> base.Match:
    return base.Match(group="", version="v1", resources=("configmaps",), operations=operations)


def only_the_runtime(request: base.Request) -> str | None:
    return None if request.username == RUNTIME else f"{request.operation} by {request.username}"


GUARD = base.ValidatingPolicy(
    name="guard.test",
    match=match(base.Operation.CREATE, base.Operation.DELETE),
    validations=(),
    twin=only_the_runtime,
)


def stamped(request: base.Request) -> Manifest:
    body, param = request.object or {}, request.param or {}
    words = (param["data"]["word"], request.namespace_labels["kubernetes.io/metadata.name"])
    return {**body, "data": {**body.get("data", {}), "stamp": " ".join(words)}}


STAMP = base.MutatingPolicy(
    name="stamp.test",
    match=match(base.Operation.CREATE),
    patches=(),
    param=base.Param(api_version="v1", kind="Secret", name="stamp", namespace="default"),
    twin=stamped,
)


def opened(*policies: Any) -> SimulatedCluster:
    return SimulatedCluster(virtual_time.clock(), admission_policies=policies)


def install(cluster: SimulatedCluster, policy: base.ValidatingPolicy | base.MutatingPolicy) -> None:
    by_kind = {kind.resource.kind: kind.resource for kind in served.BUILT_IN}
    for manifest in policy.manifests():
        cluster.create(by_kind[manifest["kind"]], manifest)


async def test_a_policy_sees_who_writes() -> None:
    cluster = opened(GUARD)
    install(cluster, GUARD)
    body = {"metadata": {"name": "a"}}
    path = kinds.CONFIG_MAPS.collection("default")
    user = World(api=cluster.client("user"), namespace="default")
    answer = await user.send("POST", path, body)
    assert answer.status == 422
    assert answer.message.endswith("denied request: CREATE by user")
    runtime = World(api=cluster.client(RUNTIME), namespace="default")
    await runtime.create(kinds.CONFIG_MAPS, body)
    assert (await user.send("PATCH", f"{path}/a", {"data": {"k": "v"}})).status == 200
    assert (await user.send("DELETE", f"{path}/a")).message.endswith("denied request: DELETE by user")
    await runtime.delete(kinds.CONFIG_MAPS, "a")


async def test_a_policy_that_is_not_installed_says_nothing() -> None:
    cluster = opened(GUARD)
    world = World(api=cluster.client("user"), namespace="default")
    await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "a"}})
    install(cluster, GUARD)
    assert (await world.send("DELETE", world.path(kinds.CONFIG_MAPS, "a"))).status == 422
    await world.delete(served.VALIDATING_BINDINGS, GUARD.name)
    await world.delete(kinds.CONFIG_MAPS, "a")


async def test_a_mutation_needs_its_param() -> None:
    cluster = opened(STAMP)
    install(cluster, STAMP)
    world = World(api=cluster.client(), namespace="default")
    assert "data" not in await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "before"}})
    await world.create(kinds.SECRETS, {"metadata": {"name": "stamp"}, "data": {"word": "seen"}})
    made = await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "after"}})
    assert made["data"] == {"stamp": "seen default"}
    assert "data" not in await world.merge(kinds.CONFIG_MAPS, "before", {"metadata": {"labels": {"l": "1"}}})


async def test_a_policy_that_warns_refuses_nothing() -> None:
    warning = dataclasses.replace(GUARD, warns=True)
    cluster = opened(warning)
    install(cluster, warning)
    world = World(api=cluster.client("user"), namespace="default")
    await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "a"}})


@pytest.mark.accept("M2", part="in the simulation")
async def test_our_policies_about_machines_hold_in_the_simulation() -> None:
    chosen = policies.for_runtime(policies.Runtime(namespace=machine_requests.NAMESPACE, service_account="sluice"))
    cluster = opened(*chosen)
    cluster.install_definitions()
    for policy in chosen:
        install(cluster, policy)
    cluster.create(kinds.NAMESPACES, {"metadata": {"name": "work", "labels": machine_requests.ENABLED}})
    cluster.create(served.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "work"}})
    world = World(api=cluster.client("somebody"), namespace="work")
    guest = machine_requests.pod(containers=[{"name": "main", "image": "i"}])
    too_early = await world.send("POST", kinds.PODS.collection("work"), guest)
    assert (too_early.status, "no ConfigMap sluice-machines" in too_early.message) == (422, True)
    cluster.create(kinds.NAMESPACES, {"metadata": {"name": machine_requests.NAMESPACE}})
    runtime = World(api=cluster.client(RUNTIME_USER), namespace=machine_requests.NAMESPACE)
    await runtime.create(kinds.CONFIG_MAPS, machine_requests.catalogue())
    made = await world.create(kinds.PODS, guest)
    assert made["metadata"]["labels"][keys.POD_ROLE] == keys.ROLE_GUEST
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "6", "memory": "48Gi"}
    assert made["spec"]["schedulingGates"] == [{"name": keys.MACHINE_GATE}]
    unknown = {**guest, "metadata": {"name": "u", "labels": {**machine_requests.GUEST, keys.MACHINE_TYPE: "x"}}}
    assert "its types are: medium" in (await world.send("POST", kinds.PODS.collection("work"), unknown)).message


async def test_our_policies_about_pools_hold_in_the_simulation() -> None:
    chosen = policies.for_runtime(policies.Runtime(namespace="sluice", service_account="runtime"))
    cluster = opened(*chosen)
    cluster.install_definitions()
    for policy in chosen:
        install(cluster, policy)
    namespace = {"metadata": {"name": "work", "labels": {keys.SCOPE: "research"}}}
    cluster.create(kinds.NAMESPACES, namespace)
    cluster.create(served.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "work"}})
    exclusive = builders.resource("InstancePool", name="gpu", instanceWide=False)
    world = World(api=cluster.client("somebody"), namespace="work")
    pools = kinds.custom(resources.InstancePool)
    assert (await world.send("POST", pools.collection(), exclusive)).status == 422
    labelled = {**exclusive, "metadata": {"name": "gpu", "labels": {keys.SCOPE: "research"}}}
    cluster.create(pools, labelled)
    cluster.create(kinds.custom(resources.Scope), builders.resource("Scope"))
    second = await world.send("POST", kinds.custom(resources.Scope).collection(), builders.resource("Scope", name="b"))
    assert (second.status, "scope research alone" in second.message) == (422, True)
    made = await world.create(
        kinds.PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    )
    terms = made["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["weight"] for term in terms] == [100, 12]
    tolerated = {"key": keys.INSTANCE_POOL, "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    assert tolerated in made["spec"]["tolerations"]
    workload = {**builders.resource("Workload"), "metadata": {"name": "w"}}
    path = kinds.custom(resources.Workload).collection("work")
    assert (await world.send("POST", path, workload)).status == 422
    assert (await World(api=cluster.client(RUNTIME), namespace="work").send("POST", path, workload)).status == 201


async def test_params_may_be_those_with_a_label_only() -> None:
    labelled = base.Param(api_version="v1", kind="Secret", namespace="default", label="chosen")
    policy = dataclasses.replace(STAMP, param=labelled)
    cluster = opened(policy)
    install(cluster, policy)
    world = World(api=cluster.client(), namespace="default")
    for name, labels in (("a", {"chosen": ""}), ("b", {"other": ""}), ("c", {})):
        await world.create(kinds.SECRETS, {"metadata": {"name": name, "labels": labels}, "data": {"word": name}})
    made = await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "stamped"}})
    assert made["data"] == {"stamp": "a default"}
