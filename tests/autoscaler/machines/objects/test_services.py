"""The Service of a type: the seed's, headless."""

from typing import Any

import msgspec
import pytest

from autoscaler.api.manifests import Manifest
from autoscaler.machines.objects import owned, services
from autoscaler.machines.objects.owned import Create, Delete, Patch
from autoscaler.simulation.cluster import merging
from tests.autoscaler.machines.node_builders import machine

pytestmark = pytest.mark.accept("M4", part="the Service")
LABELS = {
    "sluice.dev/machine-group": "general",
    "sluice.dev/machine-type": "medium",
    "sluice.dev/pod-role": "reservation",
}
WANTED = services.wanted(machine(), "medium", namespace="sluice-system")


def stored(**changes: Any) -> owned.Owned:
    """A Service as the API server has it."""
    made = services.difference(WANTED, None)
    assert isinstance(made, Create)
    defaults: Manifest = {
        "metadata": {"uid": "u", "resourceVersion": "3"},
        "spec": {"clusterIPs": ["None"], "sessionAffinity": "None", "ipFamilies": ["IPv4"]},
        "status": {"loadBalancer": {}},
    }
    return owned.decode(msgspec.json.encode(merging.merge(merging.merge(made.manifest, defaults), changes)))


def test_it_is_the_seeds_and_headless() -> None:
    made = services.difference(WANTED, None)
    assert isinstance(made, Create)
    assert (made.manifest["metadata"]["name"], made.manifest["metadata"]["labels"]) == ("medium-general", LABELS)
    assert made.manifest["spec"] == {"type": "ClusterIP", "clusterIP": "None", "selector": LABELS}


@pytest.mark.accept("M13", part="StatefulSets and Services")
def test_what_the_api_server_made_of_it_is_left_alone() -> None:
    assert services.difference(WANTED, stored()) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"selector": {"app": "x"}}},
        {"spec": {"selector": {"sluice.dev/pod-role": "guest"}}},
        {"spec": {"ports": [{"port": 80}]}},
        {"spec": {"externalIPs": ["192.0.2.1"]}},
        {"spec": {"type": "ExternalName"}},
    ],
    ids=str,
)
def test_what_people_changed_is_undone_by_one_patch(changed: dict[str, Any]) -> None:
    found = stored(**changed)
    patch = services.difference(WANTED, found)
    assert isinstance(patch, Patch)
    again = owned.decode(msgspec.json.encode(merging.merge(found.manifest, patch.changes)))
    assert services.difference(WANTED, again) is None


def test_a_service_with_an_address_is_made_again() -> None:
    assert isinstance(services.difference(WANTED, stored(spec={"clusterIP": "10.0.0.1"})), Delete)
