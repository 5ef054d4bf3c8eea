"""Guests and sleepers are read from pods."""

from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.kube import objects
from autoscaler.machines.model import OpenGuest, OpenSleeper, Phase, PromiseGuest, RecordTried
from autoscaler.machines.objects import patches, pods
from tests.autoscaler.machines import builders

SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "small-general", "uid": "u", "controller": True}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(role: str = keys.ROLE_GUEST, *, namespace: str = "team", **parts: Any) -> objects.Pod:
    labels = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "small", keys.POD_ROLE: role}
    metadata = {"name": "p-7", "namespace": namespace, "uid": "u", "resourceVersion": "5", "labels": labels}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}
    whole = {
        "metadata": {**metadata, **parts.get("metadata", {})},
        "spec": {**spec, **parts.get("spec", {})},
        "status": parts.get("status", {}),
    }
    return objects.pod(msgspec.json.encode(whole))


def gated(*gates: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": gate} for gate in gates]}


@pytest.mark.accept("M3", part="gated, open and bound")
@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (gated(keys.MACHINE_GATE), Phase.GATED),
        (gated(keys.MACHINE_GATE, keys.ADMISSION_GATE), Phase.HELD),
        ({}, Phase.OPEN),
        ({"nodeName": "a"}, Phase.BOUND),
    ],
)
def test_a_guest_stands_where_its_gates_and_its_node_say(spec: dict[str, Any], want: Phase) -> None:
    assert pods.guest(pod(spec=spec)).phase is want


@pytest.mark.accept("M3", part="waiting reason Error is not used")
def test_a_bound_guest_whose_container_waits_with_an_error_is_not_used() -> None:
    waiting = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "Error"}}}]}
    assert not pods.guest(pod(spec={"nodeName": "a"}, status=waiting)).is_used
    creating = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}
    assert pods.guest(pod(spec={"nodeName": "a"}, status=creating)).is_used
    assert pods.guest(pod(spec={"nodeName": "a"})).is_used


AMONG_PODS = {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, True),
        ({"affinity": {"nodeAffinity": {}}}, True),
        ({"affinity": {"podAffinity": AMONG_PODS}}, False),
        ({"affinity": {"podAntiAffinity": AMONG_PODS}}, False),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            False,
        ),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 1}]}]}, False),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, False),
        ({"resourceClaims": [{"name": "device"}]}, False),
    ],
    ids=str,
)
def test_a_guest_is_independent_if_nothing_binds_it_to_where_others_are(spec: dict[str, Any], *, want: bool) -> None:
    assert pods.guest(pod(spec=spec)).is_independent is want


def test_what_was_written_on_a_guest_is_read_back() -> None:
    guest = builders.guest()
    written: dict[str, str | None] = {}
    for patch in (
        patches.record_tried(RecordTried(guest=guest, nodes=frozenset({"b", "a"}), why="")),
        patches.promise(PromiseGuest(guest=guest, node="c", trying_since=12.5, why="")),
    ):
        written |= patch["metadata"]["annotations"]
    read = pods.guest(pod(metadata={"annotations": written}))
    assert (read.promised, read.tried, read.trying_since) == ("c", frozenset({"a", "b"}), 12.5)


def test_a_guest_that_was_tried_has_no_time_left() -> None:
    said = patches.record_tried(RecordTried(guest=builders.guest(), nodes=frozenset(), why=""))
    assert said["metadata"]["annotations"] == {keys.MACHINE_TRIED: "", keys.MACHINE_TRYING_SINCE: None}


def test_opening_a_guest_takes_our_gate_off_and_begins_its_time() -> None:
    command = OpenGuest(guest=builders.guest(), trying_since=3.0, why="")
    patch = patches.open_guest(command, pod(spec=gated(keys.MACHINE_GATE)))
    assert patch["spec"] == {"schedulingGates": None}
    assert patch["metadata"]["annotations"] == {keys.MACHINE_TRYING_SINCE: "3.000"}


@pytest.mark.accept("M10", part="a sleeper is pinned to its room")
def test_opening_a_sleeper_tightens_every_term_by_its_node() -> None:
    terms = [{"matchExpressions": [{"key": "x", "operator": "In", "values": ["y"]}]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    there = pod(keys.ROLE_RESERVATION, spec={**gated(keys.MACHINE_GATE), "affinity": affinity})
    patch = patches.open_sleeper(OpenSleeper(sleeper=builders.sleeper(), node="n", why=""), there)
    named = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    want = [{**terms[0], "matchFields": [named]}]
    assert patch["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == want
    assert patch["spec"]["schedulingGates"] is None
    assert patch["metadata"]["annotations"] == {keys.MACHINE_PINNED: "n"}


def test_a_sleeper_without_affinity_is_pinned_all_the_same() -> None:
    there = pod(keys.ROLE_RESERVATION, spec=gated(keys.MACHINE_GATE))
    patch = patches.open_sleeper(OpenSleeper(sleeper=builders.sleeper(), node="n", why=""), there)
    (term,) = patch["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == ["n"]


@pytest.mark.accept("M5", part="who is a sleeper")
@pytest.mark.parametrize(
    ("made", "want"),
    [
        (pod(keys.ROLE_RESERVATION, namespace="sluice", metadata={"ownerReferences": [SET]}), True),
        (pod(keys.ROLE_RESERVATION, namespace="team", metadata={"ownerReferences": [SET]}), False),
        (pod(keys.ROLE_RESERVATION, namespace="sluice"), False),
        (pod(keys.ROLE_GUEST, namespace="sluice", metadata={"ownerReferences": [SET]}), False),
    ],
    ids=["ours", "elsewhere", "without a set", "a guest"],
)
def test_a_sleeper_is_a_pod_of_our_set_in_our_namespace(made: objects.Pod, want: bool) -> None:  # noqa: FBT001
    assert pods.is_sleeper(made, "sluice") is want


def test_a_sleeper_is_where_it_is_bound_else_pinned() -> None:
    pinned = {"annotations": {keys.MACHINE_PINNED: "a"}}
    assert pods.sleeper(pod(metadata=pinned)).node == "a"
    assert pods.sleeper(pod(metadata=pinned, spec={"nodeName": "b"})).node == "b"
    assert pods.sleeper(pod()).ordinal == 7


@pytest.mark.accept("M3", part="what has ended does not count")
def test_a_pod_that_has_ended_is_of_no_group() -> None:
    assert pods.group_of(pod()) == "general"
    assert pods.group_of(pod(status={"phase": "Succeeded"})) is None


def test_pods_of_one_shape_share_what_they_request() -> None:
    assert pods.guest(pod()).requests is pods.guest(pod(namespace="other")).requests
    assert pods.guest(pod()).requests == {"cpu": 1500, "pods": 1}
