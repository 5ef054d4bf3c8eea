"""Pods at the API server: how they begin, what of them may change, binding, deletion with grace."""

import pytest

from autoscaler.kube import kinds
from tests.contract.loose_pods import bare_node, bind, pod
from tests.contract.watching import watching
from tests.contract.worlds import Body, World


async def test_a_new_pod_is_pending_and_complete(world: World) -> None:
    made = await world.create(kinds.PODS, {**pod(), "status": {"phase": "Running"}})
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "Burstable")
    assert made["metadata"]["generation"] == 1
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"], spec["priority"]) == ("Always", 30, 0)
    keys = [(toleration["key"], toleration["tolerationSeconds"]) for toleration in spec["tolerations"]]
    assert keys == [("node.kubernetes.io/not-ready", 300), ("node.kubernetes.io/unreachable", 300)]


async def test_what_is_limited_is_requested(world: World) -> None:
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    made = await world.create(kinds.PODS, pod(containers=[container]))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"


async def test_a_pod_needs_a_container(world: World) -> None:
    answer = await world.send("POST", world.collection(kinds.PODS), pod(containers=[]))
    assert answer.status == 422
    assert "spec.containers: Required value" in answer.message


async def test_priority_comes_from_the_class(world: World) -> None:
    name = world.unique("class")
    classes = kinds.ResourceType(
        group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", namespaced=False
    )
    await world.create(classes, {"metadata": {"name": name}, "value": 70})

    async def resolved() -> bool:
        answer = await world.send("POST", world.collection(kinds.PODS), pod(priorityClassName=name))
        assert answer.status == 201, answer.body
        return bool(answer.body["spec"]["priority"] == 70)

    await world.eventually(resolved)
    answer = await world.send("POST", world.collection(kinds.PODS), pod("q", priorityClassName="absent"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert "no PriorityClass with name absent was found" in answer.message


async def test_a_gated_pod_says_so_from_the_first(world: World) -> None:
    made = await world.create(kinds.PODS, pod(schedulingGates=[{"name": "sluice.dev/a"}]))
    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"


async def test_gates_can_be_removed_and_not_added(world: World) -> None:
    gates = [{"name": "sluice.dev/a"}, {"name": "sluice.dev/b"}]
    await world.create(kinds.PODS, pod(schedulingGates=gates))
    path = world.path(kinds.PODS, "p")
    answer = await world.send("PATCH", path, {"spec": {"schedulingGates": [*gates, {"name": "sluice.dev/c"}]}})
    assert answer.status == 422
    assert "only deletion is allowed, but found new scheduling gate 'sluice.dev/c'" in answer.message
    opened = await world.merge(kinds.PODS, "p", {"spec": {"schedulingGates": gates[1:]}})
    assert opened["metadata"]["generation"] == 2
    opened = await world.merge(kinds.PODS, "p", {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in opened["spec"]
    answer = await world.send("PATCH", path, {"spec": {"schedulingGates": gates}})
    assert answer.status == 422


async def test_a_gate_is_opened_with_labels_and_tolerations_in_one_patch(world: World) -> None:
    made = await world.create(kinds.PODS, pod(schedulingGates=[{"name": "sluice.dev/a"}]))
    added = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    patch = {
        "metadata": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]},
        "spec": {
            "schedulingGates": None,
            "nodeSelector": {"node.type": "worker"},
            "tolerations": [*made["spec"]["tolerations"], added],
        },
    }
    opened = await world.merge(kinds.PODS, "p", patch)
    assert opened["spec"]["nodeSelector"] == {"node.type": "worker"}
    assert added in opened["spec"]["tolerations"]
    assert "schedulingGates" not in opened["spec"]


def required(*expressions: Body) -> Body:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"nodeSelector": {"a": "1", "b": "2"}}, 200),
        ({"nodeSelector": {"a": "2"}}, 422),
        ({"nodeSelector": None}, 422),
        ({"affinity": required(ZONE, DISK)}, 200),
        ({"affinity": required(DISK)}, 422),
        ({"affinity": None}, 422),
        ({"affinity": {**required(ZONE), "podAntiAffinity": {}}}, 422),
        ({"terminationGracePeriodSeconds": 5}, 422),
    ],
    ids=str,
)
async def test_where_a_gated_pod_runs_can_be_narrowed_only(world: World, spec: Body, want: int) -> None:
    body = pod(schedulingGates=[{"name": "sluice.dev/a"}], nodeSelector={"a": "1"}, affinity=required(ZONE))
    await world.create(kinds.PODS, body)
    answer = await world.send("PATCH", world.path(kinds.PODS, "p"), {"spec": spec})
    assert answer.status == want, answer.body


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"nodeSelector": {"a": "1"}}, 422),
        ({"affinity": required(ZONE)}, 422),
        ({"nodeName": "somewhere"}, 422),
        ({"priority": 7}, 422),
        ({"activeDeadlineSeconds": 60}, 200),
        ({"tolerations": [{"key": "spot", "operator": "Exists"}]}, 200),
    ],
    ids=str,
)
async def test_an_ungated_pod_stays_what_it_is(world: World, spec: Body, want: int) -> None:
    await world.create(kinds.PODS, pod())
    answer = await world.send("PATCH", world.path(kinds.PODS, "p"), {"spec": spec})
    assert answer.status == want, answer.body


async def test_a_toleration_cannot_be_taken_away(world: World) -> None:
    await world.create(kinds.PODS, pod(tolerations=[{"key": "spot", "operator": "Exists"}]))
    answer = await world.send("PATCH", world.path(kinds.PODS, "p"), {"spec": {"tolerations": []}})
    assert answer.status == 422
    assert "existing toleration can not be modified" in answer.message


async def test_an_image_may_change(world: World) -> None:
    made = await world.create(kinds.PODS, pod())
    container = {**made["spec"]["containers"][0], "image": "other"}
    changed = await world.merge(kinds.PODS, "p", {"spec": {"containers": [container]}})
    assert changed["spec"]["containers"][0]["image"] == "other"


async def test_labels_and_annotations_of_a_pod_may_change(world: World) -> None:
    await world.create(kinds.PODS, pod())
    changed = await world.merge(kinds.PODS, "p", {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}})
    assert changed["metadata"]["labels"] == {"l": "1"}
    assert changed["metadata"]["generation"] == 1


async def test_a_status_says_no_spec(world: World) -> None:
    await world.create(kinds.PODS, pod())
    patch = {"status": {"phase": "Failed"}, "spec": {"nodeName": "somewhere"}, "metadata": {"labels": {"l": "1"}}}
    changed = await world.merge(kinds.PODS, "p", patch, "status")
    assert changed["status"]["phase"] == "Failed"
    assert "nodeName" not in changed["spec"]
    assert changed["metadata"]["labels"] == {"l": "1"}


async def test_a_pod_is_bound_once(world: World) -> None:
    name = await bare_node(world)
    await world.create(kinds.PODS, pod())
    assert await bind(world, "p", name) == 201
    bound = await world.get(kinds.PODS, "p")
    assert bound["spec"]["nodeName"] == name
    [condition] = [one for one in bound["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert condition["status"] == "True"
    assert bound["metadata"]["generation"] == 1
    assert await bind(world, "p", name) == 409
    assert await bind(world, "absent", name) == 404


async def test_a_gated_pod_is_not_bound(world: World) -> None:
    name = await bare_node(world)
    await world.create(kinds.PODS, pod(schedulingGates=[{"name": "sluice.dev/a"}]))
    assert await bind(world, "p", name) == 409


async def test_pods_are_selected_by_node_and_phase(world: World) -> None:
    name = await bare_node(world)
    for each in ("bound", "failed", "pending"):
        await world.create(kinds.PODS, pod(each))
    await bind(world, "bound", name)
    await world.merge(kinds.PODS, "failed", {"status": {"phase": "Failed"}}, "status")
    assert await world.names(kinds.PODS, fieldSelector=f"spec.nodeName={name}") == ["bound"]
    assert await world.names(kinds.PODS, fieldSelector="status.phase=Failed") == ["failed"]
    assert await world.names(kinds.PODS, fieldSelector="status.phase!=Failed,spec.nodeName=") == ["pending"]


async def test_a_pod_that_leaves_a_field_selection_is_deleted_from_it(world: World) -> None:
    made = await world.create(kinds.PODS, pod())
    since = made["metadata"]["resourceVersion"]
    async with watching(world, kinds.PODS, resourceVersion=since, fieldSelector="status.phase=Pending") as watch:
        await world.merge(kinds.PODS, "p", {"status": {"phase": "Failed"}}, "status")
        assert await watch.take(1) == [("DELETED", "p")]


async def test_an_unbound_pod_goes_at_once(world: World) -> None:
    made = await world.create(kinds.PODS, pod())
    async with watching(world, kinds.PODS, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        gone = await world.delete(kinds.PODS, "p")
        assert (gone["kind"], gone["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
        assert await watch.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]
    assert await world.find(kinds.PODS, "p") is None


async def test_a_bound_pod_has_its_grace(world: World) -> None:
    name = await bare_node(world)
    await world.create(kinds.PODS, pod())
    await bind(world, "p", name)
    marked = await world.delete(kinds.PODS, "p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert await world.find(kinds.PODS, "p")
    shorter = await world.delete(kinds.PODS, "p", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await world.delete(kinds.PODS, "p", {"gracePeriodSeconds": 60})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await world.delete(kinds.PODS, "p", {"gracePeriodSeconds": 0})
    assert await world.find(kinds.PODS, "p") is None


async def test_a_pod_that_is_over_goes_at_once(world: World) -> None:
    name = await bare_node(world)
    await world.create(kinds.PODS, pod())
    await bind(world, "p", name)
    await world.merge(kinds.PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
    await world.delete(kinds.PODS, "p")
    assert await world.find(kinds.PODS, "p") is None


async def test_a_finalizer_holds_a_pod_too(world: World) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["sluice.dev/contract"]
    await world.create(kinds.PODS, body)
    marked = await world.delete(kinds.PODS, "p")
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["status"]["phase"]) == (0, "Pending")
    await world.merge(kinds.PODS, "p", {"metadata": {"finalizers": None}})
    assert await world.find(kinds.PODS, "p") is None
