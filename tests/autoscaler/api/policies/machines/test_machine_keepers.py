"""Sleepers are made by the StatefulSet controller in the runtime's namespace, and the catalogue by the runtime."""

import pytest

from autoscaler.api import keys, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities
from autoscaler.api.policies.machines import machine_keepers
from tests.autoscaler.api.policies.machine_requests import GUEST, NAMESPACE, pod, request

RUNTIME = identities.account_user(NAMESPACE, "sluice")
CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
SLEEPERS = machine_keepers.sleepers(NAMESPACE)
CATALOGUE = machine_keepers.catalogue(RUNTIME, NAMESPACE)


def sleeper(namespace: str = NAMESPACE, role: str = "reservation") -> Manifest:
    body = pod({**GUEST, keys.POD_ROLE: role})
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


@pytest.mark.accept("M5", part="nobody else says it is a sleeper, in Python")
@pytest.mark.parametrize(
    ("user", "namespace", "is_refused"),
    [
        (CONTROLLER, NAMESPACE, False),
        ("system:kube-controller-manager", NAMESPACE, False),
        (CONTROLLER, "work", True),
        ("admin", NAMESPACE, True),
        (RUNTIME, NAMESPACE, True),
    ],
)
def test_the_stateful_set_controller_alone_makes_sleepers(user: str, namespace: str, *, is_refused: bool) -> None:
    said = SLEEPERS.twin(request(sleeper(namespace), username=user))
    assert (said is not None) == is_refused
    assert SLEEPERS.twin(request(sleeper(namespace, role="guest"), username=user)) is None


def catalogue(name: str = names.MACHINE_CATALOGUE, namespace: str = NAMESPACE) -> Manifest:
    return {"metadata": {"name": name, "namespace": namespace}, "data": {}}


@pytest.mark.accept("M2", part="the catalogue is the runtime's, in Python")
@pytest.mark.parametrize(
    ("user", "is_refused"), [(RUNTIME, False), (identities.CONTROLLERS[0], False), ("admin", True)]
)
def test_nobody_but_the_runtime_writes_the_catalogue(user: str, *, is_refused: bool) -> None:
    for new, old in ((catalogue(), None), (catalogue(), catalogue()), (None, catalogue())):
        said = CATALOGUE.twin(request(new, old, username=user))
        assert (said is not None) == is_refused
        assert said is None or RUNTIME in said
    assert set(CATALOGUE.match.operations) == set(base.Operation)


@pytest.mark.parametrize("other", [catalogue(name="mine"), catalogue(namespace="work")])
def test_other_config_maps_are_free(other: Manifest) -> None:
    assert CATALOGUE.twin(request(other, username="admin")) is None
