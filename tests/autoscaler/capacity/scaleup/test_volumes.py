"""A pod goes where its volumes are; a claim that is not bound yet says nothing."""

from typing import Any

import msgspec
import pytest

from autoscaler.capacity.scaleup import volumes
from autoscaler.kube import objects


def volume(*terms: dict[str, list[str]]) -> volumes.Volume:
    selector = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    spec: dict[str, Any] = {"nodeAffinity": {"required": {"nodeSelectorTerms": selector}}} if terms else {}
    body = {"metadata": {"name": "pv", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    return volumes.volume(msgspec.json.encode(body))


def claim(name: str, bound: str = "pv") -> volumes.Claim:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}
    return volumes.claim(msgspec.json.encode({"metadata": metadata, "spec": {"volumeName": bound}}))


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (volume(), None),
        (volume({"topology.kubernetes.io/zone": ["a", "b"]}), {"a", "b"}),
        (volume({"topology.ebs.csi.aws.com/zone": ["a"]}), {"a"}),
        (volume({"topology.kubernetes.io/zone": ["a"]}, {"topology.kubernetes.io/zone": ["b"]}), {"a", "b"}),
        (volume({"topology.kubernetes.io/zone": ["a"]}, {"kubernetes.io/hostname": ["x"]}), None),
    ],
)
def test_a_volumes_zones_are_those_that_all_its_terms_allow(made: volumes.Volume, want: set[str] | None) -> None:
    assert made.zones == want


def test_a_pod_goes_where_all_of_its_volumes_are() -> None:
    there = {
        objects.Key("", "pv"): volume({"topology.kubernetes.io/zone": ["a", "b"]}),
        objects.Key("", "other"): volume({"topology.kubernetes.io/zone": ["b", "c"]}),
    }
    zones = volumes.zones_of_claims([claim("one"), claim("two", "other"), claim("free", "")], there)
    assert volumes.zones_of_pod(("one", "two", "free"), "n", zones) == frozenset({"b"})
    assert volumes.zones_of_pod(("free",), "n", zones) is None
    assert volumes.zones_of_pod(("one",), "elsewhere", zones) is None
