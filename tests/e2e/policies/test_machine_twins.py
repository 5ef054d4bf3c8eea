"""The Python twins about machines say what the API server says, for pods of many kinds."""

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys, machine_pods, policies, quantities
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.machines import guests, machine_guests
from tests.e2e.policies import ground, machines
from tests.e2e.policies.ground import RUNTIME_NAMESPACE
from tests.e2e.policies.machines import ELSEWHERE, GUESTS, NAMESPACES, MachineGround

pytestmark = pytest.mark.accept("M2", part="the policies and their twins agree")
REAL = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DEFAULTED = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
POLICIES = policies.for_runtime(ground.RUNTIME_IDENTITY)


VALUES = {
    keys.MACHINE_GROUP: ["general", "spare", "unknown", "general.medium", ""],
    keys.MACHINE_TYPE: [*(str(each["name"]) for each in machines.TYPES), "unknown", "medium.cpu", ""],
    keys.POD_ROLE: ["guest", "reservation", "other"],
    keys.INJECTING_CONTAINER: ["main", "second", "unknown", ""],
}
LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})
GUEST_LABELS = st.fixed_dictionaries(
    {
        keys.MACHINE_GROUP: st.just("general"),
        keys.MACHINE_TYPE: st.sampled_from([each["name"] for each in machines.TYPES]),
    },
    optional={
        keys.INJECTING_CONTAINER: st.sampled_from(["main", "second"]),
        keys.POD_ROLE: st.sampled_from(["guest", "other"]),
    },
)
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["100m", "6"]),
        "memory": st.just("48Gi"),
        "ephemeral-storage": st.just("1Gi"),
        keys.GPU_RESOURCE: st.just("8"),
    },
)
RESOURCES = AMOUNTS.map(lambda amounts: {"requests": amounts, "limits": amounts}) | st.sampled_from(
    [{}, {"requests": {"cpu": "1"}}, {"limits": {"memory": "1Gi"}}]
)


def container(name: str, resources: Manifest | None) -> Manifest:
    return {"name": name, "image": "i", **({} if resources is None else {"resources": resources})}


CONTAINERS = st.lists(st.none() | RESOURCES, min_size=1, max_size=2).map(
    lambda given: [container(name, each) for name, each in zip(("main", "second"), given, strict=False)]
)
EXPRESSIONS = st.sampled_from(
    [
        {"key": keys.ZONE, "operator": "In", "values": ["a", "b"]},
        {"key": keys.NODE_POOL, "operator": "Exists"},
        {"key": keys.NODE_POOL, "operator": "In", "values": ["ready", "b"]},
        {"key": keys.NODE_POOL, "operator": "NotIn", "values": ["ready"]},
        {"key": keys.ZONE, "operator": "In", "values": ["ready"]},
        *machine_pods.node_requirements("general", "medium", None),
    ]
)
FIELDS = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
TERMS = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(EXPRESSIONS, max_size=3), "matchFields": st.just(FIELDS)}
)
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                REQUIRED: st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: {"nodeSelectorTerms": terms}),
                "preferredDuringSchedulingIgnoredDuringExecution": st.just(PREFERRED),
            },
        )
    },
)
OUR_TAINTS = [keys.machine_label("medium"), keys.machine_label("child"), keys.machine_label("odd"), keys.NODE_POOL]
EFFECTS = st.sampled_from([{}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}])
TOLERATIONS = st.builds(
    lambda key, value, operator, effect: {"key": key, "value": value, **operator, **effect},
    st.sampled_from(OUR_TAINTS),
    st.sampled_from(["general", "ready", "other"]),
    st.sampled_from([{}, {"operator": "Equal"}]),
    EFFECTS,
) | st.builds(
    lambda key, effect: {"operator": "Exists", **key, **effect}, st.sampled_from([{}, {"key": keys.NODE_POOL}]), EFFECTS
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        "affinity": AFFINITIES,
        "tolerations": st.lists(TOLERATIONS, max_size=3),
        "schedulingGates": st.lists(
            st.sampled_from([keys.MACHINE_GATE, keys.PLACEMENT_GATE, "example.com/other"]), unique=True, max_size=3
        ).map(lambda names: [{"name": name} for name in names]),
        "nodeSelector": st.just({keys.ZONE: "a"}),
    },
)


@REAL
@given(labels=GUEST_LABELS, spec=SPECS)
def test_guests_are_changed_alike(machine_ground: MachineGround, labels: dict[str, str], spec: Manifest) -> None:
    _compare(machine_ground, GUESTS, labels, spec)


@REAL
@given(namespace=st.sampled_from([GUESTS, *NAMESPACES]), labels=LABELS, spec=SPECS)
def test_pods_are_changed_refused_and_warned_alike(
    machine_ground: MachineGround, namespace: str, labels: dict[str, str], spec: Manifest
) -> None:
    _compare(machine_ground, namespace, labels, spec)


@REAL
@given(namespace=st.sampled_from([GUESTS, ELSEWHERE]), labels=LABELS | GUEST_LABELS, containers=CONTAINERS)
def test_pods_that_name_their_node_are_treated_alike(
    machine_ground: MachineGround, namespace: str, labels: dict[str, str], containers: list[Manifest]
) -> None:
    _compare(machine_ground, namespace, labels, {"containers": containers, "nodeName": "node"})


@pytest.mark.parametrize("is_asked", [True, False], ids=["group and type", "role and container"])
def test_every_combination_of_labels_is_judged_alike(machine_ground: MachineGround, *, is_asked: bool) -> None:
    varied = guests.ASKING if is_asked else (keys.POD_ROLE, keys.INJECTING_CONTAINER)
    for values in itertools.product(*([None, *VALUES[key]] for key in varied)):
        chosen = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "medium", **dict(zip(varied, values, strict=True))}
        labels = {key: value for key, value in chosen.items() if value is not None}
        _compare(machine_ground, GUESTS, labels, {"containers": [container("main", None)]})


def test_every_toleration_is_judged_alike(machine_ground: MachineGround) -> None:
    labels = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "child"}
    for key, value, operator, effect in itertools.product(
        OUR_TAINTS, ("general", "ready"), (None, "Equal", "Exists"), (None, "NoSchedule", "NoExecute")
    ):
        given_value = None if operator == "Exists" else value
        fields = {"key": key, "value": given_value, "operator": operator, "effect": effect}
        toleration = {name: each for name, each in fields.items() if each is not None}
        spec = {"containers": [container("main", None)], "tolerations": [toleration]}
        _compare(machine_ground, GUESTS, labels, spec)


def test_every_requirement_of_nodes_is_judged_alike(machine_ground: MachineGround) -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}
    for key, operator, values in itertools.product(
        (keys.NODE_POOL, keys.ZONE), ("In", "NotIn"), (["ready"], ["ready", "b"], ["b"])
    ):
        terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
        for node_affinity in ({REQUIRED: {"nodeSelectorTerms": terms}}, preferred):
            spec = {"containers": [container("main", None)], "affinity": {"nodeAffinity": node_affinity}}
            _compare(machine_ground, GUESTS, {keys.MACHINE_GROUP: "spare", keys.MACHINE_TYPE: "family"}, spec)


def _compare(machine_ground: MachineGround, namespace: str, labels: dict[str, str], spec: Manifest) -> None:
    body: Manifest = {"metadata": {"name": "subject", "namespace": namespace, "labels": labels}, "spec": spec}
    request = base.Request(
        operation=base.Operation.CREATE, object=body, namespace_labels=NAMESPACES[namespace], username="admin"
    )
    want, told, warned = _expected(request, machine_ground.catalogue)
    answer = machine_ground.ground.try_pod(namespace, body)
    if told:
        assert answer.status == 422, answer.body
        assert any(why in answer.body["message"] for why in told), (answer.body["message"], told)
        return
    assert _plain(answer.required()) == _plain(want)
    assert all(any(why in warning for warning in answer.warnings) for why in warned), answer.warnings
    assert bool(warned) == any(machine_guests.HALF_LABELLED in warning for warning in answer.warnings)


def _expected(request: base.Request, catalogue: Manifest) -> tuple[Manifest, list[str], list[str]]:
    """Run the twins of all policies about pods: the pod as it is stored, refusals and warnings."""
    asked = [policy for policy in POLICIES if "pods" in policy.match.resources and _is_asked(policy, request)]
    changed = request.object or {}
    for policy in asked:
        if isinstance(policy, base.MutatingPolicy):
            param = catalogue if policy.param else None
            changed = policy.twin(dataclasses.replace(request, object=changed, param=param))
    said: dict[bool, list[str]] = {True: [], False: []}
    for policy in asked:
        if isinstance(policy, base.ValidatingPolicy):
            why = policy.twin(dataclasses.replace(request, object=changed, param=catalogue if policy.param else None))
            said[policy.warns] += [why] if why is not None else []
    return changed, said[False], said[True]


def _is_asked(policy: policies.Policy, request: base.Request) -> bool:
    is_of_others = policy.param is not None and policy.param.kind != "ConfigMap"  # there are no scopes and pools here
    return request.operation in policy.match.operations and not is_of_others


def _plain(pod: Manifest) -> Manifest:
    """Return what of a pod the policies may change, quantities as numbers and without what Kubernetes adds."""
    spec = pod["spec"]
    tolerations = [
        {name: value for name, value in {"operator": "Equal", **each}.items() if value}
        for each in spec.get("tolerations") or ()
        if each.get("key") not in DEFAULTED
    ]
    return {
        "labels": pod["metadata"].get("labels") or {},
        "resources": [_amounts(each.get("resources") or {}) for each in spec["containers"]],
        "tolerations": [each for index, each in enumerate(tolerations) if each not in tolerations[:index]],
        "affinity": _without_empty(spec.get("affinity") or {}),
        "gates": spec.get("schedulingGates") or [],
        "selector": spec.get("nodeSelector") or {},
        "node": spec.get("nodeName"),
    }


def _amounts(resources: Manifest) -> Manifest:
    """Return amounts as numbers. What is limited and not requested is requested, as Kubernetes completes it."""
    limits = resources.get("limits") or {}
    parts = {"requests": {**limits, **(resources.get("requests") or {})}, "limits": limits}
    return {part: {name: quantities.exact(text) for name, text in each.items()} for part, each in parts.items()}


def _without_empty(value: Any) -> Any:
    """Leave out what is empty: the API server stores neither empty lists nor empty maps of a pod's affinity."""
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in ({}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


KEPT = st.dictionaries(st.sampled_from([*guests.KEPT, "app"]), st.sampled_from(["a", "b"]), max_size=4)


@REAL
@given(old=KEPT, new=KEPT)
def test_labels_are_kept_alike(machine_ground: MachineGround, old: dict[str, str], new: dict[str, str]) -> None:
    api, path = machine_ground.ground.api, f"/api/v1/namespaces/{ELSEWHERE}/pods"
    stored = api.create(path, ground.pod("labelled", labels=old, schedulingGates=[{"name": "example.com/wait"}]))
    try:
        after = {**stored, "metadata": {**stored["metadata"], "labels": new}}
        answer = api.request("PUT", f"{path}/labelled", after, query={"dryRun": "All"})
    finally:
        api.request("DELETE", f"{path}/labelled", {"gracePeriodSeconds": 0})
    request = base.Request(operation=base.Operation.UPDATE, object=after, old_object=stored, username="admin")
    want = machine_guests.LABELS.twin(request)
    assert answer.ok == (want is None), (answer.body, want)
    assert answer.ok or str(want) in answer.body["message"]


def test_every_policy_about_pods_that_ask_for_machines_is_compared() -> None:
    compared = {policy.name for policy in POLICIES if "pods" in policy.match.resources}
    of_guests = {policy.name for policy in policies.about_guests(RUNTIME_NAMESPACE)}
    others = {machine_guests.LABELS.name, machine_guests.HALF.name, "machine-sleepers.sluice.dev"}
    assert of_guests | others <= compared
