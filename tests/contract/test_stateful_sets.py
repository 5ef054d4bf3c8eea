"""StatefulSets: how their controller makes, replaces and deletes pods, adopts them, and lets them go.

Pods have a scheduler that does not exist and no kubelet, so the test says what becomes of each.
"""

from typing import Any

import pytest

from autoscaler.kube import kinds
from tests.contract.loose_pods import NOBODY, bare_node, bind
from tests.contract.worlds import ALONE, Body, World

NAME = "room"
LABELS = {"app": "sleeper"}
GATE = "sluice.dev/contract"
REVISION = "controller-revision-hash"
ON_DELETE = {"type": "OnDelete"}


def template(*, image: str = "none:1", **spec: Any) -> Body:
    whole = {
        "schedulerName": NOBODY,
        "terminationGracePeriodSeconds": 600,
        "containers": [{"name": "main", "image": image}],
        **spec,
    }
    return {"metadata": {"labels": LABELS, "annotations": {ALONE: "yes"}}, "spec": whole}


def stateful_set(*, pods: Body | None = None, **spec: Any) -> Body:
    whole = {
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": template(**(pods or {})),
        **spec,
    }
    return {"metadata": {"name": NAME}, "spec": whole}


async def pods(world: World) -> dict[str, Body]:
    found = (await world.listed(kinds.PODS))["items"]
    return {pod["metadata"]["name"]: pod for pod in found}


async def settled(world: World, *want: str, **counts: object) -> dict[str, Body]:
    """Wait until a set's pods are these, and its status has seen them and says what is wanted; None: it does not."""

    async def agrees() -> bool:
        body = await world.get(kinds.STATEFUL_SETS, NAME)
        found = await pods(world)
        seen = {name: body["status"].get(name) for name in counts}
        assert (sorted(found), seen) == (sorted(want), counts), body["status"]
        assert body["status"].get("observedGeneration") == body["metadata"]["generation"], body["status"]
        return True

    await world.eventually(agrees)
    return await pods(world)


async def replaced(world: World, name: str, before: Body) -> Body:
    """Wait until a pod has a successor of its name."""

    async def is_another() -> Body | None:
        pod = await world.find(kinds.PODS, name)
        return pod if pod is not None and pod["metadata"]["uid"] != before["metadata"]["uid"] else None

    found: Body = await world.eventually(is_another)
    return found


async def start(world: World, node: str, *chosen: str) -> None:
    """Let pods run and be ready on a node, as a kubelet would say it."""
    for name in chosen:
        assert await bind(world, name, node) == 201
        await is_ready(world, name)


async def is_ready(world: World, name: str, said: str = "True") -> None:
    ready = {"type": "Ready", "status": said, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await world.merge(kinds.PODS, name, {"status": {"phase": "Running", "conditions": [ready]}}, "status")


async def images(world: World) -> dict[str, str]:
    return {name: pod["spec"]["containers"][0]["image"] for name, pod in (await pods(world)).items()}


async def change_image(world: World, image: str = "none:2") -> None:
    containers = [{"name": "main", "image": image}]
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"template": {"spec": {"containers": containers}}}})


def uids(found: dict[str, Body]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in found.items()}


async def test_what_a_stateful_set_leaves_out_is_filled_in(world: World) -> None:
    spec = {"selector": {"matchLabels": LABELS}, "replicas": 0}
    given = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    made = await world.create(kinds.STATEFUL_SETS, {"metadata": {"name": NAME}, "spec": {**spec, "template": given}})
    assert made["status"] == {"replicas": 0, "availableReplicas": 0}
    whole = made["spec"]["template"]
    assert whole["metadata"]["labels"] == LABELS
    assert whole["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "none",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert {name: value for name, value in made["spec"].items() if name != "template"} == {
        **spec,
        "serviceName": "",
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param(ON_DELETE, ON_DELETE, id="on delete"),
        pytest.param({"type": "RollingUpdate"}, {"type": "RollingUpdate"}, id="rolling, without a partition"),
        pytest.param(
            {"rollingUpdate": {"partition": 1}},
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            id="a partition alone",
        ),
    ],
)
async def test_how_pods_are_updated_is_filled_in(world: World, strategy: Body, want: Body) -> None:
    made = await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=0, updateStrategy=strategy))
    assert made["spec"]["updateStrategy"] == want


async def test_writing_again_what_was_written_first_changes_nothing(world: World) -> None:
    body = stateful_set(replicas=0, updateStrategy=ON_DELETE)
    made = await world.create(kinds.STATEFUL_SETS, body)
    await settled(world, replicas=0)
    again = await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": body["spec"]})
    assert again["metadata"]["generation"] == made["metadata"]["generation"]
    assert again["spec"] == made["spec"]


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        pytest.param({"selector": None}, "spec.selector", "Required value", id="no selector"),
        pytest.param(
            {"selector": {"matchLabels": {"app": "other"}}},
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
            id="a selector of other pods",
        ),
    ],
)
async def test_a_stateful_set_selects_its_own_pods(world: World, spec: Body, field: str, why: str) -> None:
    answer = await world.send("POST", world.collection(kinds.STATEFUL_SETS), stateful_set(**spec))
    assert answer.status == 422, answer.body
    first = answer.body["details"]["causes"][0]
    assert (first["field"], first["message"].endswith(why)) == (field, True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"serviceName": "other"}, id="the Service"),
        pytest.param({"podManagementPolicy": "OrderedReady"}, id="how pods are made"),
    ],
)
async def test_what_a_stateful_set_may_not_change(world: World, change: Body) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=0))
    answer = await world.send("PATCH", world.path(kinds.STATEFUL_SETS, NAME), {"spec": change})
    assert answer.status == 422, answer.body
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == "spec"
    assert cause["message"].startswith("Forbidden: updates to statefulset spec for fields other than 'replicas'")


async def test_there_is_a_pod_for_each_ordinal(world: World) -> None:
    gates = {"schedulingGates": [{"name": GATE}]}
    made = await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, serviceName="rooms", pods=gates))
    found = await settled(
        world, "room-0", "room-1", replicas=2, currentReplicas=2, updatedReplicas=2, readyReplicas=None
    )
    status = (await world.get(kinds.STATEFUL_SETS, NAME))["status"]
    assert status["updateRevision"].startswith(f"{NAME}-")
    assert (status["currentRevision"], status["collisionCount"]) == (status["updateRevision"], 0)
    metadata, spec = found["room-1"]["metadata"], found["room-1"]["spec"]
    assert metadata["generateName"] == f"{NAME}-"
    assert metadata["annotations"] == {ALONE: "yes"}
    assert metadata["labels"] == LABELS | {
        "apps.kubernetes.io/pod-index": "1",
        "statefulset.kubernetes.io/pod-name": "room-1",
        REVISION: status["updateRevision"],
    }
    identity = {"name": NAME, "uid": made["metadata"]["uid"]}
    flags = {"controller": True, "blockOwnerDeletion": True}
    assert metadata["ownerReferences"] == [{"apiVersion": "apps/v1", "kind": "StatefulSet", **identity, **flags}]
    assert (spec["hostname"], spec["subdomain"]) == ("room-1", "rooms")
    assert spec["schedulingGates"] == [{"name": GATE}]


async def test_ordinals_may_start_later(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, ordinals={"start": 3}))
    await settled(world, "room-3", "room-4", replicas=2)
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"ordinals": {"start": 4}}})
    await settled(world, "room-4", "room-5", replicas=2)


async def test_ready_pods_are_counted(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    await settled(world, "room-0", "room-1", replicas=2)
    await start(world, await bare_node(world), "room-1")
    await settled(world, "room-0", "room-1", replicas=2, readyReplicas=1, availableReplicas=1)


async def test_without_an_order_the_highest_ordinals_go_all_at_once(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=4))
    await settled(world, "room-0", "room-1", "room-2", "room-3", replicas=4)
    await start(world, await bare_node(world), "room-2", "room-3")
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"replicas": 1}})
    found = await settled(world, "room-0", "room-2", "room-3", replicas=3, currentReplicas=1)
    assert ["deletionTimestamp" in found[name]["metadata"] for name in sorted(found)] == [False, True, True]
    await world.delete(kinds.PODS, "room-2", {"gracePeriodSeconds": 0})
    await settled(world, "room-0", "room-3", replicas=2)
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"replicas": 4}})
    await settled(world, "room-0", "room-1", "room-2", "room-3", replicas=4, currentReplicas=3)


async def test_a_deleted_pod_comes_back_once_it_is_gone(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    before = await settled(world, "room-0", "room-1", replicas=2)
    await world.delete(kinds.PODS, "room-0")
    unbound = await replaced(world, "room-0", before["room-0"])
    await start(world, await bare_node(world), "room-0")
    await settled(world, "room-0", "room-1", replicas=2, readyReplicas=1)
    await world.delete(kinds.PODS, "room-0")
    found = await settled(world, "room-0", "room-1", replicas=2, currentReplicas=1)
    assert found["room-0"]["metadata"]["uid"] == unbound["metadata"]["uid"]  # it stops first
    await world.delete(kinds.PODS, "room-0", {"gracePeriodSeconds": 0})
    await replaced(world, "room-0", unbound)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_ended_is_replaced(world: World, phase: str) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=1))
    before = await settled(world, "room-0", replicas=1)
    await world.merge(kinds.PODS, "room-0", {"status": {"phase": phase}}, "status")
    after = await replaced(world, "room-0", before["room-0"])
    assert after["status"]["phase"] == "Pending"


async def test_a_new_template_replaces_the_highest_ordinal_and_waits_until_it_is_ready(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=3))
    before = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    await change_image(world)
    await replaced(world, "room-2", before["room-2"])
    await settled(world, "room-0", "room-1", "room-2", replicas=3, currentReplicas=2, updatedReplicas=1)
    assert await images(world) == {"room-0": "none:1", "room-1": "none:1", "room-2": "none:2"}
    await start(world, await bare_node(world), "room-2")
    await replaced(world, "room-1", before["room-1"])
    await settled(world, "room-0", "room-1", "room-2", replicas=3, currentReplicas=1, updatedReplicas=2)
    assert await images(world) == {"room-0": "none:1", "room-1": "none:2", "room-2": "none:2"}


async def test_gated_pods_never_get_a_new_template_by_themselves(world: World) -> None:
    gates = {"schedulingGates": [{"name": GATE}]}
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=3, pods=gates))
    before = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    await change_image(world)
    await replaced(world, "room-2", before["room-2"])
    await world.delete(kinds.PODS, "room-0")  # who is deleted by others comes back with the new template
    await replaced(world, "room-0", before["room-0"])
    found = await settled(world, "room-0", "room-1", "room-2", replicas=3, currentReplicas=1, updatedReplicas=2)
    assert uids(found)["room-1"] == uids(before)["room-1"]
    assert await images(world) == {"room-0": "none:2", "room-1": "none:1", "room-2": "none:2"}


async def test_a_template_that_failed_is_not_stuck_once_it_is_changed_back(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    before = await settled(world, "room-0", "room-1", replicas=2)
    first = (await world.get(kinds.STATEFUL_SETS, NAME))["status"]["updateRevision"]
    await change_image(world)
    stuck = await replaced(world, "room-1", before["room-1"])
    assert stuck["metadata"]["labels"][REVISION] != first
    await change_image(world, "none:1")
    await replaced(world, "room-1", stuck)
    found = await settled(world, "room-0", "room-1", replicas=2, currentReplicas=2, updatedReplicas=2)
    assert {pod["metadata"]["labels"][REVISION] for pod in found.values()} == {first}
    assert uids(found)["room-0"] == uids(before)["room-0"]


async def test_a_rolled_out_template_is_the_current_one(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=1))
    before = await settled(world, "room-0", replicas=1)
    await change_image(world)
    await replaced(world, "room-0", before["room-0"])
    await settled(world, "room-0", currentReplicas=None, updatedReplicas=1)
    await start(world, await bare_node(world), "room-0")
    await settled(world, "room-0", currentReplicas=1, updatedReplicas=1)
    status = (await world.get(kinds.STATEFUL_SETS, NAME))["status"]
    assert status["currentRevision"] == status["updateRevision"]


async def test_on_delete_nobody_is_replaced_until_deleted(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, updateStrategy=ON_DELETE))
    before = await settled(world, "room-0", "room-1", replicas=2)
    first = (await world.get(kinds.STATEFUL_SETS, NAME))["status"]["updateRevision"]
    await change_image(world)
    found = await settled(world, "room-0", "room-1", currentReplicas=2, updatedReplicas=None)
    assert uids(found) == uids(before)
    await world.delete(kinds.PODS, "room-0")
    after = await replaced(world, "room-0", before["room-0"])
    await settled(world, "room-0", "room-1", currentReplicas=1, updatedReplicas=1)
    assert await images(world) == {"room-0": "none:2", "room-1": "none:1"}
    await world.delete(kinds.PODS, "room-1")
    await replaced(world, "room-1", before["room-1"])
    await start(world, await bare_node(world), "room-0", "room-1")
    await settled(world, "room-0", "room-1", currentReplicas=None, updatedReplicas=2, readyReplicas=2)
    status = (await world.get(kinds.STATEFUL_SETS, NAME))["status"]
    assert (status["currentRevision"], status["updateRevision"]) == (first, after["metadata"]["labels"][REVISION])


async def test_below_a_partition_pods_keep_the_old_template(world: World) -> None:
    await world.create(
        kinds.STATEFUL_SETS, stateful_set(replicas=3, updateStrategy={"rollingUpdate": {"partition": 2}})
    )
    before = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    await change_image(world)
    await replaced(world, "room-2", before["room-2"])
    await world.delete(kinds.PODS, "room-0")
    await replaced(world, "room-0", before["room-0"])
    await start(world, await bare_node(world), "room-2")
    found = await settled(world, "room-0", "room-1", "room-2", currentReplicas=2, updatedReplicas=1, readyReplicas=1)
    assert await images(world) == {"room-0": "none:1", "room-1": "none:1", "room-2": "none:2"}
    assert uids(found)["room-1"] == uids(before)["room-1"]


async def test_without_a_partition_those_not_yet_rolled_come_back_old(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=3, updateStrategy={"type": "RollingUpdate"}))
    before = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    await change_image(world)
    await replaced(world, "room-2", before["room-2"])
    await settled(world, "room-0", "room-1", "room-2", currentReplicas=2, updatedReplicas=1)
    await world.delete(kinds.PODS, "room-0")
    await replaced(world, "room-0", before["room-0"])
    assert await images(world) == {"room-0": "none:1", "room-1": "none:1", "room-2": "none:2"}


async def test_in_order_each_pod_waits_for_those_before_it(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, podManagementPolicy="OrderedReady"))
    await settled(world, "room-0", replicas=1, readyReplicas=None)
    node = await bare_node(world)
    await start(world, node, "room-0")
    await settled(world, "room-0", "room-1", replicas=2, readyReplicas=1)
    await start(world, node, "room-1")
    await settled(world, "room-0", "room-1", replicas=2, readyReplicas=2)
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"replicas": 0}})
    found = await settled(world, "room-0", "room-1", replicas=2, currentReplicas=1)
    assert ["deletionTimestamp" in pod["metadata"] for _, pod in sorted(found.items())] == [False, True]
    await world.delete(kinds.PODS, "room-1", {"gracePeriodSeconds": 0})
    await settled(world, "room-0", replicas=1, currentReplicas=None)


async def test_in_order_a_pod_that_is_not_ready_holds_the_next_back(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, podManagementPolicy="OrderedReady"))
    await settled(world, "room-0", replicas=1)
    before = await pods(world)
    await world.merge(kinds.PODS, "room-0", {"status": {"phase": "Failed"}}, "status")
    await replaced(world, "room-0", before["room-0"])
    await settled(world, "room-0", replicas=1)


async def test_in_order_the_highest_goes_first(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2, podManagementPolicy="OrderedReady"))
    await settled(world, "room-0", replicas=1)
    node = await bare_node(world)
    await start(world, node, "room-0")
    await settled(world, "room-0", "room-1", replicas=2)
    before = await pods(world)
    await start(world, node, "room-1")
    await settled(world, "room-0", "room-1", readyReplicas=2)
    await change_image(world)
    await world.eventually(lambda: _is_leaving(world, "room-1"))
    await world.delete(kinds.PODS, "room-1", {"gracePeriodSeconds": 0})
    await replaced(world, "room-1", before["room-1"])
    assert await images(world) == {"room-0": "none:1", "room-1": "none:2"}


async def test_in_order_pods_too_many_that_do_not_run_stay_where_one_below_does_not_run_either(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=1, podManagementPolicy="OrderedReady"))
    await settled(world, "room-0", replicas=1)
    await world.create(kinds.PODS, loose("room-7"))
    await world.create(kinds.PODS, loose("room-8"))
    node = await bare_node(world)
    await start(world, node, "room-0")
    await settled(world, "room-0", "room-7", "room-8", replicas=3, readyReplicas=1)
    await start(world, node, "room-7")
    await settled(world, "room-0", "room-7", replicas=2, readyReplicas=2)


def loose(name: str) -> Body:
    """A pod that nobody owns, which the set would select."""
    given = template()
    return {"metadata": {**given["metadata"], "name": name}, "spec": given["spec"]}


async def _is_leaving(world: World, name: str) -> bool:
    return "deletionTimestamp" in (await world.get(kinds.PODS, name))["metadata"]


async def test_a_pod_whose_own_label_was_changed_gets_it_back(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=1))
    before = await settled(world, "room-0", replicas=1)
    label = "statefulset.kubernetes.io/pod-name"
    await world.merge(kinds.PODS, "room-0", {"metadata": {"labels": {label: "other"}}})

    async def is_mended() -> bool:
        pod = await world.get(kinds.PODS, "room-0")
        return bool(pod["metadata"]["labels"] == before["room-0"]["metadata"]["labels"])

    await world.eventually(is_mended)
    assert uids(await pods(world)) == uids(before)


async def test_a_pod_that_is_no_longer_selected_is_let_go_and_keeps_its_name_from_the_set(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=3))
    before = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    await world.merge(kinds.PODS, "room-0", {"metadata": {"labels": {"app": "other"}}})

    async def is_let_go() -> bool:
        return "ownerReferences" not in (await world.get(kinds.PODS, "room-0"))["metadata"]

    await world.eventually(is_let_go)
    await settled(world, "room-0", "room-1", "room-2", replicas=2)
    await world.delete(kinds.PODS, "room-2")  # nothing after an ordinal that cannot be made is looked at
    await settled(world, "room-0", "room-1", replicas=1)
    await world.merge(kinds.PODS, "room-0", {"metadata": {"labels": LABELS}})
    found = await settled(world, "room-0", "room-1", "room-2", replicas=3)
    assert found["room-0"]["metadata"]["uid"] == before["room-0"]["metadata"]["uid"]


async def test_a_deleted_set_may_leave_its_pods_and_the_next_one_adopts_them(world: World) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    before = await settled(world, "room-0", "room-1", replicas=2)
    await world.delete(kinds.STATEFUL_SETS, NAME, {"propagationPolicy": "Orphan"})
    await world.gone(kinds.STATEFUL_SETS, NAME)

    async def are_let_go() -> bool:
        return all("ownerReferences" not in pod["metadata"] for pod in (await pods(world)).values())

    await world.eventually(are_let_go)
    next_one = await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    found = await settled(world, "room-0", "room-1", replicas=2)
    owners = {owner["uid"] for pod in found.values() for owner in pod["metadata"]["ownerReferences"]}
    assert (uids(found), owners) == (uids(before), {next_one["metadata"]["uid"]})


async def test_a_pod_of_its_name_and_labels_that_nobody_owns_is_adopted(world: World) -> None:
    made = await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=0))
    await settled(world, replicas=0)
    await world.create(kinds.PODS, {**loose("room-0"), "metadata": {"name": "room-0"}})
    await world.create(kinds.PODS, loose("other-0"))
    await world.create(kinds.PODS, loose("room-1"))
    await world.gone(kinds.PODS, "room-1")  # it is the set's, and too much
    assert sorted(await pods(world)) == ["other-0", "room-0"]
    await world.merge(kinds.STATEFUL_SETS, NAME, {"spec": {"replicas": 1}})
    await world.merge(kinds.PODS, "room-0", {"metadata": {"labels": LABELS}})
    found = await settled(world, "other-0", "room-0", replicas=1)
    assert [owner["uid"] for owner in found["room-0"]["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]


async def test_a_pod_that_stops_is_not_adopted(world: World) -> None:
    unselected = {**loose("room-1"), "metadata": {"name": "room-1", "annotations": {ALONE: "yes"}}}
    before = await world.create(kinds.PODS, unselected)
    await start(world, await bare_node(world), "room-1")
    await world.delete(kinds.PODS, "room-1")
    await world.merge(kinds.PODS, "room-1", {"metadata": {"labels": LABELS}})  # selected only since it stops
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    found = await settled(world, "room-0", "room-1", replicas=1)
    assert "ownerReferences" not in found["room-1"]["metadata"]
    await world.delete(kinds.PODS, "room-1", {"gracePeriodSeconds": 0})
    await replaced(world, "room-1", before)


async def test_a_set_that_is_being_deleted_only_counts(world: World) -> None:
    body = stateful_set(replicas=2)
    body["metadata"]["finalizers"] = [GATE]
    await world.create(kinds.STATEFUL_SETS, body)
    await settled(world, "room-0", "room-1", replicas=2)
    await world.delete(kinds.STATEFUL_SETS, NAME, {"propagationPolicy": "Background"})
    await world.create(kinds.PODS, loose("room-2"))
    await world.delete(kinds.PODS, "room-0")
    await start(world, await bare_node(world), "room-1")
    await settled(world, "room-1", "room-2", replicas=1, readyReplicas=1)
    await world.merge(kinds.STATEFUL_SETS, NAME, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("options", [None, {"propagationPolicy": "Foreground"}], ids=["unasked", "foreground"])
async def test_the_pods_of_a_deleted_set_go_with_it(world: World, options: Body | None) -> None:
    await world.create(kinds.STATEFUL_SETS, stateful_set(replicas=2))
    await settled(world, "room-0", "room-1", replicas=2)
    await world.delete(kinds.STATEFUL_SETS, NAME, options)
    await world.gone(kinds.STATEFUL_SETS, NAME)

    async def are_gone() -> bool:
        return not await pods(world)

    await world.eventually(are_gone)
