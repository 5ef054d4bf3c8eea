"""What volumes ask of nodes, and the pods that no node helps with them."""

import pytest

from autoscaler.capacity.model import Reason
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage import volume_objects
from autoscaler.kube import shapes
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.stored import claim, storage_class, stored, volume

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LATER = {"volumeBindingMode": "WaitForFirstConsumer"}


def shape(*claims: str) -> shapes.Shape:
    return seen.pod(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]).shape


def test_a_pod_goes_where_all_of_its_volumes_are() -> None:
    there = stored(
        volume({ZONE: ["a", "b"]}),
        volume({ZONE: ["b", "c"]}, name="other"),
        volume({HOST: ["x"]}, name="local"),
        claim("one", "pv"),
        claim("two", "other"),
        claim("here", "local"),
        claim("free", storage_class="later"),
        storage_class("later", **LATER),
    )
    assert storage.needs(there, shape("one", "two", "free"), "default").zones == frozenset({"b"})
    assert storage.needs(there, shape("here"), "default") == storage.Needs(hosts=frozenset({"x"}))
    assert storage.needs(there, shape("free"), "default").zones is None
    assert storage.needs(there, shape(), "default") == storage.NOTHING


def test_a_claim_that_waits_for_its_pod_is_bound_where_its_class_allows() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    there = stored(claim("c", storage_class="later"), storage_class("later", allowedTopologies=allowed, **LATER))
    assert storage.needs(there, shape("c"), "default").zones == frozenset({"a"})


@pytest.mark.parametrize(
    ("things", "want"),
    [
        ((), Reason.NO_CLAIM),
        ((claim("c", metadata={"deletionTimestamp": seen.STAMP}),), Reason.CLAIM_LEAVING),
        ((claim("c", "pv", phase="Lost"), volume()), Reason.CLAIM_LOST),
        ((claim("c", "pv"),), Reason.CLAIM_LOST),
        ((claim("c"),), Reason.CLAIM_WITHOUT_CLASS),
        ((claim("c", storage_class="gp3"),), Reason.NO_STORAGE_CLASS),
        ((claim("c", storage_class="gp3"), storage_class("gp3")), Reason.CLAIM_UNBOUND),
        ((claim("c", storage_class="gp3"), storage_class("gp3", **LATER)), None),
        ((claim("c", "pv"), volume()), None),
    ],
)
def test_a_claim_that_no_node_helps_says_why(
    things: tuple[volume_objects.Claim | volume_objects.Volume | volume_objects.StorageClass, ...], want: Reason | None
) -> None:
    refused = storage.needs(stored(*things), shape("c"), "default").refused
    assert (refused.reason if refused else None) is want
    assert refused is None or refused.what == "c"


def test_another_state_of_the_claims_is_another_state() -> None:
    states = [
        stored(),
        stored(claim("c", storage_class="gp3")),
        stored(claim("c", storage_class="gp3", metadata={"uid": "again"})),
        stored(claim("c", "pv", storage_class="gp3"), volume()),
        stored(claim("c", "pv", storage_class="gp3"), volume({ZONE: ["a"]})),
    ]
    assert len({storage.state(each, shape("c"), "default") for each in states}) == len(states)
    assert storage.state(states[0], shape(), "default") == ()
