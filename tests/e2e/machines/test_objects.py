"""What is made for a Machine, on the real API server: taken, defaulted, left alone, and put right when changed."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from autoscaler.api import crds, keys, machine_catalogue, manifests, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine, MachineNodePool
from autoscaler.api.resources.machines import NodeCondition
from autoscaler.kube import kinds, objects, owned_marks
from autoscaler.machines.model import Usage
from autoscaler.machines.nodes import node_marks
from autoscaler.machines.nodes.claims import Claim, Claims, GroupType
from autoscaler.machines.nodes.node_labels import SETTLE_SECONDS, Situation
from autoscaler.machines.nodes.node_reports import NodeReport, Problem
from autoscaler.machines.objects import node_pools, owned, services, stateful_sets
from autoscaler.machines.objects.owned import Create, Delete, Difference, Patch, Taken
from autoscaler.machines.reporting import status
from autoscaler.machines.wanted_condition import Said
from tests.e2e import waiting
from tools.local.plane import Plane

MACHINES, NODE_POOLS = kinds.custom(Machine), kinds.custom(MachineNodePool)
IMAGE = "example.com/pause:1"
STRICT = {"fieldValidation": "Strict"}
GPU = {"type": "nvidia.com/gpu", "num": 2, "family": "ampere"}
NOW = 1_767_225_600.0
DONE = NOW + SETTLE_SECONDS + 1


@pytest.fixture(scope="module")
def here(plane: Plane) -> Plane:
    """The plane, serving Machines."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests.dump(crds.all_crds()))
    waiting.eventually(lambda: all(plane.api.request("GET", each.collection()).ok for each in (MACHINES, NODE_POOLS)))
    return plane


@pytest.fixture
def rooms(here: Plane) -> Iterator[str]:
    """A namespace that takes restricted pods alone."""
    name = f"rooms-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    here.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    waiting.eventually(lambda: here.api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    here.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def machine(here: Plane) -> Iterator[objects.Custom[Machine]]:
    """A Machine with a type of each sort."""
    name = f"general-{secrets.token_hex(3)}"
    types = [
        {"name": "compute-xlarge", "spec": {"cpu": "40000m", "memory": "128Gi", "gpu": GPU}, "available": 2},
        {"name": "half", "spec": {"dependence": {"parent": "compute-xlarge", "availableRatio": 50}}, "available": 1},
        {"name": "odd", "spec": {"cpu": "1500m", "memory": "1500M", "hostLimit": 50}, "available": 0},
    ]
    nodes = [
        {"name": f"michiru-{name}", "mode": "ready", "taint": True, "machineType": [{"name": "compute-xlarge"}]},
        {"nodeSelector": {"pool": name}, "mode": "maintenance", "machineType": [{"name": "odd"}]},
    ]
    manifest = {
        "apiVersion": MACHINES.api_version,
        "kind": MACHINES.kind,
        "metadata": {"name": name, "labels": {keys.MACHINE_GROUP: name}},
        "spec": {"machineTypes": types, "nodePool": nodes},
    }
    made = here.api.request("POST", MACHINES.collection(), manifest, query=STRICT).required()
    yield objects.custom(Machine)(msgspec.json.encode(made))
    here.api.delete(MACHINES.path(name))


class Object:
    """An object made for a Machine, as it is and as it should be."""

    def __init__(self, plane: Plane, namespace: str, kind: kinds.ResourceType, wanted: Manifest) -> None:
        self._plane = plane
        self._namespace = namespace
        self._kind = kind
        self.wanted = wanted
        self.path = kind.path(wanted["metadata"]["name"], namespace)

    @property
    def stored(self) -> owned.Owned:
        return owned.decode(msgspec.json.encode(self._plane.api.get(self.path)))

    def difference(self) -> Difference | None:
        answer = self._plane.api.request("GET", self.path)
        found = owned.decode(msgspec.json.encode(answer.body)) if answer.ok else None
        if self._kind is kinds.STATEFUL_SETS:
            return stateful_sets.difference(self.wanted, found)
        return services.difference(self.wanted, found)

    def make(self, **changes: Any) -> None:
        """Make it, as it should be or with changes to its spec."""
        made = self.difference()
        assert isinstance(made, Create)
        body = {**made.manifest, "spec": {**made.manifest["spec"], **changes}}
        path = self._kind.collection(self._namespace)
        self._plane.api.request("POST", path, body, query=STRICT).required()

    def change(self, body: Manifest) -> None:
        """Change it as a person does."""
        self._plane.api.merge(self.path, body)

    def put_right(self) -> None:
        """Write the one patch that should do."""
        patch = self.difference()
        assert isinstance(patch, Patch), patch
        answer = self._plane.api.request(
            "PATCH", self.path, patch.changes, content_type="application/merge-patch+json", query=STRICT
        )
        answer.required()


@pytest.fixture
def make(here: Plane, rooms: str, machine: objects.Custom[Machine]) -> Callable[..., Object]:
    """Return an object of a type of the Machine, not yet made."""
    resolved = machine_catalogue.resolve(machine.resource.spec)

    def of(kind: kinds.ResourceType, name: str = "compute-xlarge", image: str = IMAGE) -> Object:
        if kind is kinds.SERVICES:
            return Object(here, rooms, kind, services.wanted(machine, name, namespace=rooms))
        (offer,) = (each for each in machine.resource.spec.machine_types if each.name == name)
        wanted = stateful_sets.wanted(machine, offer, resolved[name], namespace=rooms, image=image)
        return Object(here, rooms, kind, wanted)

    return of


@pytest.mark.accept("M4", part="made and read back")
@pytest.mark.accept("M13", part="StatefulSets and Services")
@pytest.mark.parametrize("name", ["compute-xlarge", "half", "odd"])
@pytest.mark.parametrize("kind", [kinds.STATEFUL_SETS, kinds.SERVICES], ids=lambda kind: kind.kind)
def test_what_was_made_is_left_alone(make: Callable[..., Object], kind: kinds.ResourceType, name: str) -> None:
    made = make(kind, name)
    made.make()
    assert made.difference() is None
    assert made.stored.meta.key.name == names.stateful_set(name, made.wanted["metadata"]["labels"][keys.MACHINE_GROUP])


@pytest.mark.accept("M4", part="made and read back")
@pytest.mark.accept("M5", part="sleepers")
def test_sleepers_are_restricted_gated_and_as_many_as_there_are_machines(
    here: Plane, rooms: str, make: Callable[..., Object]
) -> None:
    sleepers = make(kinds.STATEFUL_SETS)
    sleepers.make()

    def both() -> list[Manifest]:
        found: list[Manifest] = here.api.get(kinds.PODS.collection(rooms))["items"]
        assert len(found) == 2
        return found

    for pod in waiting.eventually(both):
        assert pod["metadata"]["labels"][keys.POD_ROLE] == keys.ROLE_RESERVATION
        assert pod["spec"]["schedulingGates"] == [{"name": keys.MACHINE_GATE}]
        assert pod["spec"]["terminationGracePeriodSeconds"] == 0
        assert not pod["spec"].get("volumes")
    waiting.eventually(lambda: stateful_sets.revision(sleepers.stored))
    assert sleepers.difference() is None


TEMPLATES: list[dict[str, Any]] = [
    {"schedulingGates": None},
    {"nodeSelector": {"zone": "a"}},
    {"tolerations": [{"operator": "Exists"}]},
    {"affinity": None},
    {"terminationGracePeriodSeconds": 30},
    {"automountServiceAccountToken": True},
    {"containers": [{"name": "other", "image": "x"}]},
]
SETS: list[dict[str, Any]] = [
    {"metadata": {"labels": {keys.MACHINE_TYPE: None}}},
    {"metadata": {"ownerReferences": None}},
    {"spec": {"replicas": 0}},
    {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}},
    *({"spec": {"template": {"spec": changed}}} for changed in TEMPLATES),
]
SERVICES: list[dict[str, Any]] = [
    {"spec": {"selector": {"app": "x"}}},
    {"spec": {"selector": None}},
    {"spec": {"ports": [{"port": 80}]}},
    {"metadata": {"labels": None}},
]


@pytest.mark.accept("M13", part="StatefulSets and Services")
def test_what_people_change_is_put_right_by_one_patch_each(make: Callable[..., Object]) -> None:
    for kind, changes in ((kinds.STATEFUL_SETS, SETS), (kinds.SERVICES, SERVICES)):
        made = make(kind)
        made.make()
        for changed in changes:
            made.change(changed)
            made.put_right()
            assert made.difference() is None, changed


@pytest.mark.accept("M13", part="StatefulSets and Services")
@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (kinds.STATEFUL_SETS, {"serviceName": "other"}),
        (kinds.STATEFUL_SETS, {"podManagementPolicy": "OrderedReady"}),
        (kinds.SERVICES, {"clusterIP": "", "ports": [{"port": 80}]}),
    ],
    ids=str,
)
def test_what_cannot_be_changed_is_made_again(
    here: Plane, make: Callable[..., Object], kind: kinds.ResourceType, changed: Manifest
) -> None:
    made = make(kind)
    made.make(**changed)
    assert isinstance(made.difference(), Delete)
    here.api.delete(made.path)
    waiting.eventually(lambda: isinstance(made.difference(), Create))
    made.make()
    assert made.difference() is None


def test_an_object_of_that_name_that_is_not_ours_is_left_alone(make: Callable[..., Object]) -> None:
    made = make(kinds.SERVICES)
    made.make()
    made.change({"metadata": {"labels": None, "ownerReferences": None}})
    assert isinstance(made.difference(), Taken)


def pool_of(here: Plane, machine: objects.Custom[Machine]) -> objects.Custom[MachineNodePool]:
    path = NODE_POOLS.path(names.machine_node_pool(machine.meta.key.name))
    return objects.custom(MachineNodePool)(msgspec.json.encode(here.api.get(path)))


@pytest.mark.accept("M11", part="made and read back")
@pytest.mark.accept("M7", part="made and read back")
def test_a_machine_node_pool_and_its_status_are_read_back_as_written(
    here: Plane, machine: objects.Custom[Machine]
) -> None:
    made = node_pools.difference(machine, None)
    assert isinstance(made, Create)
    here.api.request("POST", NODE_POOLS.collection(), made.manifest, query=STRICT).required()
    found = pool_of(here, machine)
    assert node_pools.difference(machine, found) is None
    reports = [
        NodeReport(name="b", condition=NodeCondition.NOT_READY, problem=Problem.MISSING, message="it is missing"),
        NodeReport(name="a", condition=NodeCondition.READY),
    ]
    path = NODE_POOLS.path(found.meta.key.name)
    here.api.merge(f"{path}/status", {"status": status.node_pool(found, reports, NOW)})
    assert status.node_pool(pool_of(here, machine), reports, NOW + 60) == {}
    shown = here.kubectl("get", "mnp", found.meta.key.name, "--no-headers").split()
    assert shown[:5] == [found.meta.key.name, machine.meta.key.name, "False", "2", "1"]


@pytest.mark.accept("M10", part="what is said of it")
def test_a_machines_status_is_read_back_as_written_and_shown(here: Plane, machine: objects.Custom[Machine]) -> None:
    path = MACHINES.path(machine.meta.key.name)
    counted = {"compute-xlarge": Usage(maximum=2, reserved=1, used=1, waiting=0)}
    counted |= {"half": Usage(maximum=1, reserved=0, used=0, waiting=3)}
    nodes = Said(holds=True, reason="NodesReady", message="1 node takes guests")
    said = {status.READY: status.room(counted), status.NODES_READY: nodes}
    here.api.merge(f"{path}/status", {"status": status.machine(machine, counted, said, NOW)})
    again = objects.custom(Machine)(msgspec.json.encode(here.api.get(path)))
    assert status.machine(again, counted, said, NOW + 60) == {}
    shown = here.kubectl("get", "mc", machine.meta.key.name, "--no-headers").split()
    assert shown[:7] == [machine.meta.key.name, "True", "True", "3", "1", "1", "3"]


@pytest.fixture
def node(here: Plane, machine: objects.Custom[Machine]) -> Iterator[str]:
    """A node with a label and a taint of somebody else, as the node controller writes its own: with the time."""
    name = f"michiru-{machine.meta.key.name}"
    path = kinds.NODES.path(name)
    theirs = {"key": "theirs", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    made = {"metadata": {"name": name, "labels": {"theirs": "x"}}, "spec": {"taints": [theirs]}}
    here.api.create(kinds.NODES.collection(), made)
    yield path
    here.api.delete(path)


def marked(here: Plane, path: str, claim: Claim | None, *, now: float, guests: frozenset[GroupType]) -> bool:
    """Write a node's marks as decided on the version that was read; tell whether there was something to write."""

    def is_written() -> tuple[bool]:
        seen = objects.node(msgspec.json.encode(here.api.get(path)))
        situation = Situation(node=seen, claim=claim, types=claim.types if claim else (), needed=guests)
        patch = node_marks.decide(situation, now).patch
        if patch is None:
            return (False,)
        metadata = {**patch.get("metadata", {}), "resourceVersion": str(seen.meta.resource_version)}
        here.api.merge(path, {**patch, "metadata": metadata})
        return (True,)

    (answer,) = waiting.eventually(is_written)  # node controllers write too, and we write to no other version
    return answer


def theirs(node: Manifest) -> tuple[str, list[Manifest]]:
    """Return what somebody else put on the node before all others."""
    return node["metadata"]["labels"]["theirs"], [each for each in node["spec"]["taints"] if each["key"] == "theirs"]


@pytest.mark.accept("M6", part="marks of a node")
@pytest.mark.accept("M12", part="marks of a node")
@pytest.mark.accept("M13", part="marks of a node")
def test_a_nodes_marks_come_and_go_and_those_of_others_stay(
    here: Plane, machine: objects.Custom[Machine], node: str
) -> None:
    before = here.api.get(node)
    assert "timeAdded" in before["spec"]["taints"][0]
    group, nobody = machine.meta.key.name, frozenset[GroupType]()
    claim = Claims.of([machine]).of_node(before["metadata"]["name"], {}).owner
    assert claim is not None
    assert marked(here, node, claim, now=NOW, guests=nobody)
    assert not marked(here, node, claim, now=NOW, guests=nobody)
    there = here.api.get(node)
    assert there["metadata"]["annotations"][keys.MACHINE_GROUP] == group
    assert there["metadata"]["labels"][keys.machine_label("half")] == group
    assert theirs(there) == theirs(before)
    guest = frozenset({GroupType(group, "half")})
    assert marked(here, node, None, now=NOW, guests=guest)
    assert marked(here, node, None, now=DONE, guests=guest)
    assert not marked(here, node, None, now=DONE, guests=guest)
    there = here.api.get(node)
    assert keys.machine_label("compute-xlarge") not in there["metadata"]["labels"]
    assert there["metadata"]["labels"][keys.machine_label("half")] == group
    assert keys.MACHINE_CLOSED in [each["key"] for each in there["spec"]["taints"]]
    assert marked(here, node, None, now=DONE, guests=nobody)
    assert not marked(here, node, None, now=DONE, guests=nobody)
    after = here.api.get(node)
    assert owned_marks.without(after) == {}
    assert theirs(after) == theirs(before)
