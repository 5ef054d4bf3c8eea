"""Guests choose no node, name a container they have, come injected, and stay who they are."""

import copy
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.machines import guests, machine_guests, machine_injection
from tests.autoscaler.api.policies import machine_requests
from tests.autoscaler.api.policies.machine_requests import GUEST, pod, request

pytestmark = pytest.mark.accept("M2", part="what a guest may not do, in Python")
MADE = machine_guests.made_in_order(machine_requests.NAMESPACE)


def injected(body: Manifest) -> Manifest:
    return machine_injection.policy(machine_requests.NAMESPACE).twin(request(body))


def refusal(body: Manifest, **fields: Any) -> str | None:
    return MADE.twin(request(body, **fields))


def test_an_injected_guest_is_let_in() -> None:
    assert refusal(injected(pod())) is None


def test_a_container_that_the_pod_has_not_is_refused_by_name() -> None:
    said = refusal(injected(pod({**GUEST, keys.INJECTING_CONTAINER: "nobody"})))
    assert said == "label sluice.dev/injecting-container: the pod has no container 'nobody'"


def test_a_guest_that_names_its_node_is_refused() -> None:
    assert refusal(injected(pod(nodeName="node"))) == machine_guests.HAS_NODE


@pytest.mark.parametrize("gates", [[], [{"name": keys.ADMISSION_GATE}]])
def test_a_guest_without_the_gate_is_refused_with_the_missing_catalogue_named(gates: list[Manifest]) -> None:
    said = refusal(pod({**GUEST, keys.POD_ROLE: "guest"}, schedulingGates=gates)) or ""
    assert "ConfigMap sluice-machines in namespace sluice-system" in said


def test_a_gate_by_ones_own_hand_does_not_make_a_guest() -> None:
    assert refusal(pod(schedulingGates=[{"name": keys.MACHINE_GATE}]))


def test_pods_elsewhere_and_other_pods_are_let_in() -> None:
    assert refusal(pod(nodeName="node"), namespace_labels={}) is None
    assert refusal(pod({keys.MACHINE_TYPE: "medium"}, nodeName="node")) is None


FULL = {**GUEST, keys.POD_ROLE: "guest", keys.INJECTING_CONTAINER: "main", "app": "a"}


def relabelled(old: dict[str, str], new: dict[str, str]) -> str | None:
    return machine_guests.LABELS.twin(request(pod(new), pod(old), namespace_labels={}))


@pytest.mark.parametrize("key", guests.KEPT)
def test_the_labels_of_guests_and_sleepers_stay_as_they_were_made(key: str) -> None:
    without = {name: value for name, value in FULL.items() if name != key}
    for old, new in ((FULL, {**FULL, key: "other"}), (FULL, without), (without, FULL)):
        assert relabelled(old, new) == machine_guests.LABELS_KEPT
    assert relabelled(FULL, {**FULL, "app": "b"}) is None


def test_pods_that_ask_for_no_machine_may_be_relabelled() -> None:
    assert relabelled({keys.MACHINE_GROUP: "a"}, {keys.MACHINE_GROUP: "b", keys.POD_ROLE: "x"}) is None


def test_a_binding_gives_a_pod_none_of_these_labels() -> None:
    def said(labels: dict[str, str]) -> str | None:
        return machine_guests.BINDINGS.twin(request({"metadata": {"name": "p", "labels": labels}, "target": {}}))

    assert [said({key: "a"}) for key in guests.KEPT] == [machine_guests.LABELS_KEPT] * 4
    assert said({"app": "a"}) is None


def test_every_way_to_write_a_pods_labels_is_covered() -> None:
    covered = (*machine_guests.LABELS.match.resources, *machine_guests.BINDINGS.match.resources)
    assert set(covered) == {"pods", "pods/status", "pods/binding", "bindings"}
    assert machine_guests.LABELS.match.object_selector == guests.SELECTOR_OF_ASKING


def resized(body: Manifest, **fields: Any) -> str | None:
    old, new = injected(body), copy.deepcopy(injected(body))
    new["spec"]["containers"][1]["resources"] = {"requests": {"cpu": "1"}}
    assert machine_guests.SIZE.twin(request(old, old, **fields)) is None
    return machine_guests.SIZE.twin(request(new, old, **fields))


def test_a_guest_is_not_resized() -> None:
    assert resized(pod()) == machine_guests.SIZE_KEPT
    assert resized(pod(), namespace_labels={}) is None
    assert resized(pod({keys.MACHINE_TYPE: "medium"})) is None
    old = injected(pod())
    new = {**old, "spec": {**old["spec"], "resources": {"requests": {"cpu": "90"}}}}
    assert machine_guests.SIZE.twin(request(new, old)) == machine_guests.SIZE_KEPT


@pytest.mark.parametrize(
    ("labels", "is_half"),
    [
        ({keys.MACHINE_GROUP: "general"}, True),
        ({keys.MACHINE_TYPE: "medium"}, True),
        (GUEST, False),
        ({"app": "a"}, False),
    ],
)
def test_one_label_alone_earns_a_warning(labels: dict[str, str], *, is_half: bool) -> None:
    assert machine_guests.HALF.twin(request(pod(labels))) == (machine_guests.HALF_LABELLED if is_half else None)
    assert machine_guests.HALF.twin(request(pod(labels), namespace_labels={})) is None


def test_a_warning_refuses_nothing() -> None:
    _, binding = machine_guests.HALF.manifests()
    assert binding["spec"]["validationActions"] == ["Warn"]
    assert machine_guests.HALF.match.operations == (base.Operation.CREATE,)
