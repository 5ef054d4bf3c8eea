"""Guests get their machine's resources, tolerations, node selection, role and gate; nobody else is touched."""

import copy
from typing import Any

import pytest

from autoscaler.api import keys, machine_pods
from autoscaler.api.machine_catalogue import NodeLabel
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.machines import machine_injection
from tests.autoscaler.api.policies import machine_requests
from tests.autoscaler.api.policies.machine_requests import GUEST, pod, request

pytestmark = pytest.mark.accept("M2", part="injection, in Python")
POLICY = machine_injection.policy(machine_requests.NAMESPACE)
MEDIUM = {"cpu": "6", "memory": "48Gi"}
XLARGE = {"cpu": "40500m", "memory": "128Gi", "nvidia.com/gpu": "2"}
REQUIREMENTS = machine_pods.node_requirements("general", "medium", None)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": keys.ZONE, "operator": "In", "values": ["a"]}


def injected(body: Manifest, **fields: Any) -> Manifest:
    before = copy.deepcopy(body)
    got = POLICY.twin(request(body, **fields))
    assert body == before
    assert POLICY.twin(request(got, **fields)) == got
    return got


def resources(body: Manifest) -> list[Any]:
    return [container.get("resources") for container in injected(body)["spec"]["containers"]]


def terms(body: Manifest) -> Any:
    return injected(body)["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def affinity(*given: Manifest) -> Manifest:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(given)}}}


@pytest.mark.accept("M5", part="guests, in Python")
def test_a_guest_gets_all_that_its_machine_type_says() -> None:
    got = injected(pod({**GUEST, keys.MACHINE_TYPE: "xlarge"}))
    label = NodeLabel(keys.GPU_PRODUCT, "NVIDIA-GeForce-RTX-3090")
    assert got["metadata"]["labels"][keys.POD_ROLE] == "guest"
    assert got["spec"] == {
        "containers": [{"name": "main", "resources": {"requests": XLARGE, "limits": XLARGE}}, {"name": "sidecar"}],
        "tolerations": machine_pods.tolerations("general", "xlarge"),
        "affinity": affinity({"matchExpressions": machine_pods.node_requirements("general", "xlarge", label)}),
        "schedulingGates": [{"name": keys.MACHINE_GATE}],
    }


@pytest.mark.parametrize(
    ("labels", "namespace_labels"),
    [
        (GUEST, {}),
        (GUEST, {keys.INJECT_RESOURCE: "disabled"}),
        ({keys.MACHINE_GROUP: "general"}, machine_requests.ENABLED),
        ({keys.MACHINE_TYPE: "medium"}, machine_requests.ENABLED),
        ({**GUEST, keys.POD_ROLE: "reservation"}, machine_requests.ENABLED),
        ({}, machine_requests.ENABLED),
    ],
)
def test_who_is_no_guest_is_left_alone(labels: dict[str, str], namespace_labels: dict[str, str]) -> None:
    assert injected(pod(labels), namespace_labels=namespace_labels) == pod(labels)


def test_the_container_named_by_label_gets_the_resources() -> None:
    want = {"requests": MEDIUM, "limits": MEDIUM}
    assert resources(pod()) == [want, None]
    assert resources(pod({**GUEST, keys.INJECTING_CONTAINER: "sidecar"})) == [None, want]


def test_what_a_container_asks_of_other_resources_is_kept() -> None:
    given = {
        "requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "5Gi", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
        "claims": [],
    }
    (got,) = resources(pod(containers=[{"name": "main", "resources": given}]))
    assert got == {"requests": {"ephemeral-storage": "5Gi", **MEDIUM}, "limits": MEDIUM, "claims": []}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ([{"matchExpressions": [ZONE]}], [{"matchExpressions": [ZONE, *REQUIREMENTS]}]),
        (
            [{"matchExpressions": [ZONE]}, {"matchFields": [{"key": "metadata.name"}]}],
            [
                {"matchExpressions": [ZONE, *REQUIREMENTS]},
                {"matchFields": [{"key": "metadata.name"}], "matchExpressions": REQUIREMENTS},
            ],
        ),
        ([{}, {"matchExpressions": [ZONE]}], [{}, {"matchExpressions": [ZONE, *REQUIREMENTS]}]),
        (
            [{"matchExpressions": [REQUIREMENTS[1], ZONE]}],
            [{"matchExpressions": [REQUIREMENTS[1], ZONE, REQUIREMENTS[0]]}],
        ),
        ([], [{"matchExpressions": REQUIREMENTS}]),
    ],
)
def test_what_a_guest_requires_of_nodes_holds_beside_ours(given: list[Manifest], want: list[Manifest]) -> None:
    assert terms(pod(affinity=affinity(*given))) == want


def test_what_a_guest_prefers_stays() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    got = injected(pod(affinity={"podAffinity": {}, "nodeAffinity": preferred}))["spec"]["affinity"]
    assert got["podAffinity"] == {}
    assert got["nodeAffinity"] == preferred | affinity({"matchExpressions": REQUIREMENTS})["nodeAffinity"]


def test_tolerations_and_gates_that_are_there_stay_alone() -> None:
    own, ready = machine_pods.tolerations("general", "medium")
    bare = {name: own[name] for name in ("key", "value")}
    elsewhere = {**ready, "effect": "NoExecute"}
    gates = [{"name": "example.com/theirs"}, {"name": keys.MACHINE_GATE}]
    got = injected(pod(tolerations=[bare, elsewhere], schedulingGates=gates))["spec"]
    assert got["tolerations"] == [bare, elsewhere, ready]
    assert got["schedulingGates"] == gates
    assert injected(pod(schedulingGates=gates[:1]))["spec"]["schedulingGates"] == gates


@pytest.mark.accept("M9", part="guests of a type that depends on another, in Python")
def test_a_guest_of_a_dependent_type_has_its_fraction_and_tolerates_its_parents_nodes() -> None:
    got = injected(pod({**GUEST, keys.MACHINE_TYPE: "slice"}))["spec"]
    want = {"cpu": "10125m", "memory": "32Gi"}
    assert got["containers"][0]["resources"] == {"requests": want, "limits": want}
    assert got["tolerations"] == machine_pods.tolerations("general", "slice", "xlarge")


@pytest.mark.parametrize("changes", [{keys.MACHINE_TYPE: "unknown"}, {keys.INJECTING_CONTAINER: "unknown"}])
def test_who_will_be_refused_gets_no_more_than_role_and_gate(changes: dict[str, str]) -> None:
    body = pod({**GUEST, **changes})
    got = injected(body)
    assert got["metadata"]["labels"][keys.POD_ROLE] == "guest"
    assert got["spec"] == {**body["spec"], "schedulingGates": [{"name": keys.MACHINE_GATE}]}


def test_a_guest_with_a_node_gets_no_gate_for_the_api_servers_words_on_that_are_not_ours() -> None:
    assert "schedulingGates" not in injected(pod(nodeName="node"))["spec"]


def test_the_policy_reads_the_catalogue_of_its_runtime_and_looks_at_guests_alone() -> None:
    made, binding = POLICY.manifests()
    assert binding["spec"]["paramRef"] == {
        "name": "sluice-machines",
        "namespace": machine_requests.NAMESPACE,
        "parameterNotFoundAction": "Allow",
    }
    both = [{"key": key, "operator": "Exists"} for key in (keys.MACHINE_GROUP, keys.MACHINE_TYPE)]
    enabled = {"key": keys.INJECT_RESOURCE, "operator": "In", "values": ["enabled"]}
    no_sleeper = {"key": keys.POD_ROLE, "operator": "NotIn", "values": ["reservation"]}
    assert made["spec"]["matchConstraints"]["objectSelector"] == {"matchExpressions": [*both, no_sleeper]}
    assert made["spec"]["matchConstraints"]["namespaceSelector"] == {"matchExpressions": [enabled]}
    assert POLICY.match.operations == (base.Operation.CREATE,)
