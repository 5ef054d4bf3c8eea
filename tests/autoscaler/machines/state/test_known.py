"""What is watched is found by group and node, and only what changed is noted."""

from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.kube import objects, store
from autoscaler.machines.model import Guest
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.state.known import Known, Tables


class Bench:
    """Tables that a test fills, and what is known of them."""

    def __init__(self) -> None:
        self.tables = Tables(
            machines=store.Table(),
            node_pools=store.Table(),
            nodes=store.Table(),
            pods=store.Table(),
            namespaces=store.Table(),
            stateful_sets=store.Table(),
            services=store.Table(),
        )
        self.known = Known(self.tables, "sluice")
        self.version = 0
        self.namespace("team", inject=True)
        self.settle()

    def namespace(self, name: str, *, inject: bool) -> None:
        labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED} if inject else {}
        self.tables.namespaces.seen(objects.simple(self._raw({"name": name, "uid": name, "labels": labels})))

    def pod(self, name: str = "p", *, namespace: str = "team", cpu: str = "1", **parts: Any) -> None:
        labels = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "small", keys.POD_ROLE: keys.ROLE_GUEST}
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": parts.pop("labels", labels)}
        metadata["annotations"] = parts.pop("annotations", {})
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **parts.pop("spec", {})}
        self.tables.pods.seen(objects.pod(self._raw(metadata, spec=spec, status=parts)))

    def guests(self) -> list[Guest]:
        found = (self.known.guest("general", uid) for uid in self.known.all_pods("general"))
        return [each for each in found if each is not None]

    def settle(self) -> None:
        self.known.take_groups()
        self.known.nodes.clear()

    def _raw(self, metadata: dict[str, Any], **parts: Any) -> bytes:
        self.version += 1
        return msgspec.json.encode({"metadata": {**metadata, "resourceVersion": str(self.version)}, **parts})


BOUND = {"nodeName": "a"}


def test_a_guest_notes_its_group_and_its_node() -> None:
    bench = Bench()
    bench.pod(spec=BOUND)
    assert list(bench.known.groups) == ["general"]
    assert list(bench.known.nodes) == ["a"]
    assert bench.known.used("a") == {"cpu": 1000, "pods": 1}
    assert bench.known.bound("a") == {GroupType("general", "small")}


@pytest.mark.parametrize("change", [{"phase": "Running"}, {"startTime": "2026-01-01T00:00:00Z"}])
def test_a_change_that_nothing_depends_on_notes_nobody(change: dict[str, str]) -> None:
    bench = Bench()
    bench.pod(spec=BOUND)
    bench.settle()
    bench.pod(spec=BOUND, **change)
    assert not bench.known.groups
    assert not bench.known.nodes
    (guest,) = bench.guests()
    assert guest.version == bench.version


def test_a_pod_of_nobody_notes_its_node_alone() -> None:
    bench = Bench()
    bench.pod(labels={}, spec=BOUND)
    assert not bench.known.groups
    assert list(bench.known.nodes) == ["a"]
    assert bench.known.bound("a") == frozenset()


@pytest.mark.accept("M3", part="what has ended does not count")
@pytest.mark.accept("M6", part="a guest that has ended keeps no label")
def test_a_pod_that_ended_takes_nothing() -> None:
    bench = Bench()
    bench.pod("stays", labels={}, cpu="2", spec=BOUND)
    bench.pod(spec=BOUND)
    bench.pod(spec=BOUND, phase="Failed")
    assert bench.known.used("a") == {"cpu": 2000, "pods": 1}
    assert bench.known.bound("a") == frozenset()
    assert bench.guests() == []


@pytest.mark.accept("M3", part="who is a guest")
def test_guests_are_in_namespaces_where_machines_are_given_or_carry_what_we_wrote() -> None:
    bench = Bench()
    bench.namespace("outside", inject=False)
    bench.pod("liar", namespace="outside")
    bench.pod("nobody", labels={keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "small"})
    bench.pod("kept", namespace="outside", annotations={keys.MACHINE_TRYING_SINCE: "1"})
    assert [guest.key.name for guest in bench.guests()] == ["kept"]
    bench.settle()
    bench.namespace("outside", inject=True)
    assert list(bench.known.groups) == ["general"]
    assert {guest.key.name for guest in bench.guests()} == {"liar", "kept"}


@pytest.mark.accept("M6", part="labels stay for guests that are about to be bound")
def test_an_open_guest_is_on_its_way_until_it_is_found_unschedulable() -> None:
    bench = Bench()
    bench.pod()
    assert bench.known.on_their_way("general") == {GroupType("general", "small")}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    bench.pod(conditions=[{**refused, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    assert bench.known.on_their_way("general") == frozenset()


def test_indexes_say_what_adding_all_pods_afresh_would_say() -> None:
    bench = Bench()
    for cpu, spec in (("1", {}), ("2", BOUND), ("3", BOUND), ("1", {"nodeName": "b"})):
        bench.pod("one", cpu=cpu, spec=spec)
        bench.pod("two", cpu=cpu, spec=BOUND)
    found = bench.known.by_node
    assert {name: +each.used for name, each in found.as_dict().items()} == {
        name: +each.used for name, each in found.recomputed().items()
    }
    assert bench.known.by_group.as_dict() == bench.known.by_group.recomputed()
