"""Volumes, classes and limits as the API server sends them."""

from typing import Any

import msgspec
import pytest

from autoscaler.capacity.scaleup.storage import volume_objects
from tests.autoscaler.capacity.stored import csi_node, storage_class, volume

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (volume(), None),
        (volume({ZONE: ["a", "b"]}), {"a", "b"}),
        (volume({"topology.ebs.csi.aws.com/zone": ["a"]}), {"a"}),
        (volume({ZONE: ["a"]}, {ZONE: ["b"]}), {"a", "b"}),
        (volume({ZONE: ["a"]}, {HOST: ["x"]}), None),
    ],
)
def test_a_volumes_zones_are_those_that_all_its_terms_allow(made: volume_objects.Volume, want: set[str] | None) -> None:
    assert made.zones == want


def test_a_local_volume_names_its_nodes() -> None:
    assert volume({HOST: ["x"]}).hosts == frozenset({"x"})
    assert volume({HOST: ["x"]}, {HOST: ["y"]}).hosts == frozenset({"x", "y"})
    assert volume({ZONE: ["a"]}).hosts is None


def test_a_volume_names_the_driver_that_attaches_it() -> None:
    assert volume(csi={"driver": "efs.csi.aws.com"}).driver == "efs.csi.aws.com"
    assert volume(awsElasticBlockStore={"volumeID": "vol-1"}).driver == volume_objects.EBS
    assert volume().driver == ""


@pytest.mark.parametrize(
    ("spec", "waits", "zones"),
    [
        ({}, False, None),
        ({"volumeBindingMode": "Immediate"}, False, None),
        ({"volumeBindingMode": "WaitForFirstConsumer"}, True, None),
        ({"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]}, False, {"a"}),
    ],
)
def test_a_class_says_when_and_where_volumes_are_made(
    spec: dict[str, Any], waits: object, zones: set[str] | None
) -> None:
    made = storage_class("c", **spec)
    assert (made.waits, made.zones) == (waits, zones)


def test_an_old_provisioner_is_the_driver_that_does_its_work() -> None:
    assert storage_class("c", provisioner="kubernetes.io/aws-ebs").driver == volume_objects.EBS


def test_a_driver_without_a_limit_has_none() -> None:
    assert csi_node("n", ebs=25, efs=None).limits == {"ebs": 25}
    raw = {"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "spec": {"drivers": None}}
    assert volume_objects.attach_limits(msgspec.json.encode(raw)).limits == {}
