"""From names to controllers: rooms are found by name, and what is not there is named."""

import dataclasses

import pytest

from autoscaler.api import controllers
from autoscaler.api.permissions import WorkerScope
from autoscaler.runtime import registry
from tests.scenarios import running


def test_every_registered_controller_has_its_room() -> None:
    made = registry.registrations(controllers.CONTROLLERS, running.NOTHING_OUTSIDE)
    want = {"workers": "sluice-workers", "admission": "sluice", "machines": "sluice", "capacity": "sluice"}
    assert {name: each.lease for name, each in made.items()} == want


def test_each_class_of_worker_pools_has_a_run_of_its_own() -> None:
    everywhere = dataclasses.replace(running.NOTHING_OUTSIDE, scope=WorkerScope.CLUSTER)
    made = registry.registrations(["workers"], everywhere, classes=[None, "heavy"])
    assert registry.lease_namespaces(made) == {
        "sluice-workers": "kube-system",
        "sluice-workers.heavy": "kube-system",
    }
    assert registry.lease_namespaces(registry.registrations(["workers"], running.NOTHING_OUTSIDE)) == {}


def test_a_room_without_a_line_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match="simulation are no controllers: there are workers, admission, machines, capacity"
    ):
        registry.registrations(["simulation"], running.NOTHING_OUTSIDE)


def test_a_line_without_a_room_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = controllers.Controller(name="toy", kube=())
    monkeypatch.setattr(controllers, "CONTROLLERS", {**controllers.CONTROLLERS, "toy": toy})
    with pytest.raises(ModuleNotFoundError, match=r"autoscaler\.toy"):
        registry.registrations(["toy"], running.NOTHING_OUTSIDE)
