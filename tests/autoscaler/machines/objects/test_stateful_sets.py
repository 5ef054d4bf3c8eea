"""The StatefulSet of a type: the seed's, born gated, undone where people change it, and left alone otherwise."""

import copy
from typing import Any

import msgspec
import pytest
import yaml

from autoscaler.api import keys, machine_catalogue
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects
from autoscaler.machines.objects import owned, stateful_sets
from autoscaler.machines.objects.owned import Create, Delete, Patch, Taken
from autoscaler.simulation.cluster import merging
from tests.autoscaler.machines.node_builders import child, entry, machine, machine_type

pytestmark = pytest.mark.accept("M4", part="the StatefulSet")
IMAGE = "example.com/pause:1"
GPU = {"type": "nvidia.com/gpu", "num": 2, "family": "ampere"}
SEED = yaml.safe_load(
    """
    metadata:
      name: compute-xlarge-general-machine
      labels: &labels
        sluice.dev/machine-group: general-machine
        sluice.dev/machine-type: compute-xlarge
        sluice.dev/pod-role: reservation
    spec:
      selector:
        matchLabels: *labels
      serviceName: compute-xlarge-general-machine
      replicas: 1
      template:
        metadata:
          labels: *labels
        spec:
          tolerations:
            - key: machine.sluice.dev/compute-xlarge
              effect: NoSchedule
              operator: Equal
              value: general-machine
            - key: sluice.dev/node-pool
              effect: NoSchedule
              operator: Equal
              value: ready
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                  - matchExpressions:
                      - key: machine.sluice.dev/compute-xlarge
                        operator: In
                        values: [general-machine]
                      - key: sluice.dev/node-pool
                        operator: In
                        values: [ready]
                      - key: nvidia.com/gpu.family
                        operator: In
                        values: [ampere]
          containers:
            - name: sleeper
              resources:
                requests: &resources
                  cpu: "40"
                  memory: "128Gi"
                  nvidia.com/gpu: "2"
                limits: *resources
    """
)


def wanted(*, group: str = "general-machine", available: int = 1, image: str = IMAGE, **spec: Any) -> Manifest:
    given = {"cpu": "40000m", "memory": "128Gi", "gpu": GPU, **spec}
    made = machine_type("compute-xlarge", available=available, **given)
    return of(machine(group, entry(type_="compute-xlarge"), types=[made]), "compute-xlarge", image)


def of(made: Any, name: str, image: str = IMAGE) -> Manifest:
    resolved = machine_catalogue.resolve(made.resource.spec)[name]
    (offer,) = (each for each in made.resource.spec.machine_types if each.name == name)
    return stateful_sets.wanted(made, offer, resolved, namespace="sluice-system", image=image)


def stored(manifest: Manifest | None = None, **changes: Any) -> owned.Owned:
    """A StatefulSet as the API server has it: with defaults, and amounts in its own spelling."""
    made = stateful_sets.difference(manifest or wanted(), None)
    assert isinstance(made, Create)
    there = copy.deepcopy(made.manifest)
    there["metadata"] |= {"uid": "u-set", "resourceVersion": "7", "generation": 1, "managedFields": [{"manager": "x"}]}
    there["spec"] |= {"revisionHistoryLimit": 10, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}
    pod = there["spec"]["template"]["spec"]
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "hostNetwork": False}
    pod["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"}
    for kind in ("requests", "limits"):
        pod["containers"][0]["resources"][kind] |= {"cpu": "40", "memory": str(128 << 30)}
    there["status"] = {"replicas": 1}
    return owned.decode(msgspec.json.encode(merging.merge(there, changes)))


def holds(part: Any, whole: Any) -> None:
    """See that everything of a part is in the whole, with lists equal."""
    if isinstance(part, dict):
        for key, value in part.items():
            holds(value, whole[key])
    elif isinstance(part, list):
        assert len(part) == len(whole)
        for pair in zip(part, whole, strict=True):
            holds(*pair)
    else:
        assert part == whole


def test_it_is_the_seeds() -> None:
    made = stateful_sets.difference(wanted(), None)
    assert isinstance(made, Create)
    holds(SEED, made.manifest)
    assert len(made.manifest["metadata"]["name"]) <= 52


def test_sleepers_are_born_gated_all_at_once_and_need_no_time_to_end() -> None:
    made = stateful_sets.difference(wanted(available=7), None)
    assert isinstance(made, Create)
    spec, pod = made.manifest["spec"], made.manifest["spec"]["template"]["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"], spec["updateStrategy"]) == (
        7,
        "Parallel",
        {"type": "OnDelete"},
    )
    assert (pod["schedulingGates"], pod["terminationGracePeriodSeconds"]) == ([{"name": keys.MACHINE_GATE}], 0)


def test_sleepers_obey_the_restricted_standard_and_have_no_token() -> None:
    pod = wanted()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == IMAGE


@pytest.mark.accept("M9", part="a child's resources")
def test_a_child_has_its_part_and_tolerates_its_parents_nodes() -> None:
    types = [machine_type(cpu="3", memory="4Gi"), child("half")]
    pod = of(machine("general", entry(), types=types), "half")["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "1500m", "memory": "2Gi"}
    tolerated = [each["key"] for each in pod["tolerations"]]
    assert tolerated == [keys.machine_label("half"), keys.machine_label("medium"), keys.NODE_POOL]


@pytest.mark.accept("M13", part="StatefulSets and Services")
def test_what_the_api_server_made_of_it_is_left_alone() -> None:
    assert stateful_sets.difference(wanted(), stored()) is None


HAND_MADE: list[dict[str, Any]] = [
    {"spec": {"replicas": 3}},
    {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}},
    {"spec": {"minReadySeconds": 5}},
    {"metadata": {"labels": {keys.MACHINE_TYPE: None}}},
    {"metadata": {"ownerReferences": None}},
    {"spec": {"template": {"spec": {"schedulingGates": None}}}},
    {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}},
    {"spec": {"template": {"spec": {"priorityClassName": "high"}}}},
    {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}},
    {"spec": {"template": {"spec": {"affinity": {"podAntiAffinity": {"x": 1}}}}}},
    {"spec": {"template": {"spec": {"affinity": None}}}},
    {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}}},
    {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}},
    {"spec": {"template": {"spec": {"initContainers": [{"name": "x"}]}}}},
]


@pytest.mark.accept("M13", part="StatefulSets and Services")
@pytest.mark.parametrize("changed", HAND_MADE, ids=str)
def test_what_people_changed_is_undone_by_one_patch(changed: dict[str, Any]) -> None:
    found = stored(**changed)
    patch = stateful_sets.difference(wanted(), found)
    assert isinstance(patch, Patch)
    again = owned.decode(msgspec.json.encode(merging.merge(found.manifest, patch.changes)))
    assert stateful_sets.difference(wanted(), again) is None


def test_settings_of_a_rolling_update_go_with_it() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    patch = stateful_sets.difference(wanted(), stored(spec={"updateStrategy": rolling}))
    assert patch == Patch(changes={"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})


def test_a_resource_that_people_added_is_taken_away() -> None:
    found = stored()
    container = found.manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["ephemeral-storage"] = "1Ti"
    patch = stateful_sets.difference(wanted(), found)
    assert isinstance(patch, Patch)
    (fixed,) = patch.changes["spec"]["template"]["spec"]["containers"]
    assert fixed["resources"]["requests"] == {"cpu": "40", "memory": "128Gi", "nvidia.com/gpu": "2"}


def test_only_what_differs_is_written() -> None:
    assert stateful_sets.difference(wanted(available=5), stored()) == Patch(changes={"spec": {"replicas": 5}})
    patch = stateful_sets.difference(wanted(image="other"), stored())
    assert isinstance(patch, Patch)
    assert list(patch.changes["spec"]["template"]["spec"]) == ["containers"]


@pytest.mark.accept("M13", part="StatefulSets and Services")
@pytest.mark.parametrize(
    "changed",
    [
        {"serviceName": "other"},
        {"podManagementPolicy": "OrderedReady"},
        {"selector": {"matchLabels": {"app": "x"}}},
        {"volumeClaimTemplates": [{"metadata": {"name": "x"}}]},
    ],
    ids=str,
)
def test_a_set_that_cannot_be_changed_into_what_is_wanted_is_made_again(changed: dict[str, Any]) -> None:
    assert isinstance(stateful_sets.difference(wanted(), stored(spec=changed)), Delete)
    going = stored(spec=changed, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert stateful_sets.difference(wanted(), going) is None


def test_a_set_of_somebody_else_is_left_alone() -> None:
    theirs = stored(metadata={"labels": {keys.POD_ROLE: None}, "ownerReferences": None}, spec={"replicas": 9})
    got = stateful_sets.difference(wanted(), theirs)
    want = "StatefulSet compute-xlarge-general-machine is not Sluice's: delete or rename it"
    assert got == Taken(message=want)


def test_two_types_whose_sets_have_one_name_do_not_fight() -> None:
    first = of(machine("c", entry(type_="a-b"), types=[machine_type("a-b")]), "a-b")
    second = of(machine("b-c", entry(type_="a"), types=[machine_type("a")]), "a")
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert isinstance(stateful_sets.difference(second, stored(first)), Taken)


@pytest.mark.accept("M12", part="what is not ours stays")
@pytest.mark.accept("M13", part="StatefulSets and Services")
def test_sets_of_types_that_are_gone_are_unwanted() -> None:
    ours, theirs = stored(), stored(metadata={"labels": {keys.POD_ROLE: None}})
    going = stored(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert owned.unwanted([ours, theirs, going], []) == [ours]
    assert owned.unwanted([ours], [ours.meta.key]) == []


def sleeper(revision: str) -> objects.Meta:
    labels = {keys.POD_REVISION: revision}
    return objects.simple(msgspec.json.encode({"metadata": {"name": "x-0", "uid": "u", "labels": labels}})).meta


@pytest.mark.accept("M13", part="a type that changes its size")
def test_sleepers_of_another_template_are_outdated_once_its_controller_has_seen_the_new_one() -> None:
    newest = stateful_sets.revision(stored(status={"observedGeneration": 1, "updateRevision": "new"}))
    assert newest == "new"
    assert stateful_sets.is_outdated(sleeper("old"), newest)
    assert not stateful_sets.is_outdated(sleeper("new"), newest)
    lagging = stateful_sets.revision(stored(status={"observedGeneration": 0, "updateRevision": "old"}))
    assert not stateful_sets.is_outdated(sleeper("new"), lagging)
