"""Pods that ask for one zone get the placement gate when they are made, and nobody but the runtime takes a gate off."""

from typing import Any

import pytest

from autoscaler.api import keys, policies
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities
from autoscaler.api.policies.pools import placement_gate

RUNTIME = identities.account_user("sluice-system", "sluice")
GATE = {"name": keys.PLACEMENT_GATE}
OTHER = {"name": "example.com/other"}
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}


def pod(*gates: Manifest, asks: str | None = "true", metadata: Manifest | None = None, **spec: Any) -> Manifest:
    annotations = {} if asks is None else {"annotations": {keys.SAME_ZONE: asks}}
    gated = {"schedulingGates": list(gates)} if gates else {}
    return {"metadata": {"name": "p", **annotations, **(metadata or {})}, "spec": {"containers": [], **gated, **spec}}


def changed(body: Manifest) -> Manifest:
    return placement_gate.POLICY.twin(base.Request(operation=base.Operation.CREATE, object=body))


def refusal(old: Manifest, new: Manifest, username: str = "admin") -> str | None:
    request = base.Request(operation=base.Operation.UPDATE, object=new, old_object=old, username=username)
    return placement_gate.kept_by(RUNTIME).twin(request)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (pod(), [GATE]),
        (pod(OTHER), [OTHER, GATE]),
        (pod(GATE), [GATE]),
        (pod(schedulerName="default-scheduler"), [GATE]),
        (pod(metadata={"ownerReferences": [DAEMON | {"kind": "Job"}]}), [GATE]),
        (pod(metadata={"ownerReferences": [DAEMON | {"controller": False}]}), [GATE]),
        (pod(asks=None), None),
        (pod(asks="false"), None),
        (pod(asks="yes"), None),
        (pod(nodeName="n"), None),
        (pod(schedulerName="volcano"), None),
        (pod(metadata={"ownerReferences": [DAEMON]}), None),
    ],
)
def test_the_gate_is_put_on_those_that_ask_and_are_planned_for(body: Manifest, want: list[Manifest] | None) -> None:
    got = changed(body)
    assert got["spec"].get("schedulingGates") == want
    assert changed(got) == got


@pytest.mark.parametrize("gate", [keys.PLACEMENT_GATE, keys.ADMISSION_GATE, keys.MACHINE_GATE])
def test_nobody_but_the_runtime_takes_one_of_our_gates_off(gate: str) -> None:
    old = pod({"name": gate}, OTHER)
    assert RUNTIME in (refusal(old, pod(OTHER)) or "")
    assert refusal(old, pod(OTHER), RUNTIME) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [(pod(GATE, OTHER), pod(GATE)), (pod(GATE), pod(GATE, asks=None)), (pod(OTHER), pod()), (pod(), pod())],
)
def test_all_else_is_free(old: Manifest, new: Manifest) -> None:
    assert refusal(old, new) is None


def test_a_refusal_names_the_binding_that_an_administrator_would_delete() -> None:
    policy = placement_gate.kept_by(RUNTIME)
    _, binding = policy.manifests()
    assert binding["metadata"]["name"] in policy.validations[0].message


def test_both_are_in_force_in_a_stack() -> None:
    names = [
        policy.name
        for policy in policies.for_runtime(policies.Runtime(namespace="sluice-system", service_account="sluice"))
    ]
    assert {placement_gate.POLICY.name, placement_gate.kept_by(RUNTIME).name} <= set(names)
