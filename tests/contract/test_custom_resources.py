"""Our own kinds: there with their definitions, completed and checked by them, status and scale kept apart."""

import pytest

from autoscaler.kube import kinds, port
from tests import builders
from tests.contract.customs import LOCAL_QUEUES, MACHINES, WIDGETS, WORKER_POOLS, WORKLOADS, worker_pool
from tests.contract.worlds import Body, World


async def test_defaults_are_filled_in(world: World) -> None:
    spec = (await world.create(WORKER_POOLS, worker_pool()))["spec"]
    assert spec["status"] == "Active"
    assert spec["queue"]["source"]["type"] == "http"
    assert spec["workerSpec"]["podTemplate"]["source"]["kind"] == "Deployment"
    assert spec["workerSpec"]["retainFailedWorkers"] is False


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"poolCapacity": -1}, "spec.poolCapacity", "should be greater than or equal to 0"),
        ({"poolCapacity": "many"}, "spec.poolCapacity", "must be of type integer"),
        ({"poolCapacity": ...}, "spec.poolCapacity", "Required value"),
        ({"status": "Asleep"}, "spec.status", "Unsupported value"),
        ({"queue__source__secretName": "A_B"}, "spec.queue.source.secretName", "should match"),
        ({"queue__interval": "soon"}, "spec.queue.interval", "must be HH:MM:SS"),
        ({"queue__source__query": "up"}, "spec.queue.source.query", "query must be given where type is prometheus"),
        (
            {"workerSpec__podTemplate__containerName": ""},
            "spec.workerSpec.podTemplate.containerName",
            "at least 1 chars",
        ),
    ],
    ids=str,
)
async def test_a_bad_field_is_named(world: World, changes: Body, field: str, says: str) -> None:
    answer = await world.send("POST", world.collection(WORKER_POOLS), worker_pool(**changes))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message.startswith('WorkerPool.sluice.dev "pool" is invalid: ')
    causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
    assert says in causes[field]


async def test_a_duplicate_in_a_list_with_keys_is_refused(world: World) -> None:
    body = {**builders.resource("Workload"), "metadata": {"name": "twice"}}
    body["spec"]["podSets"] = [{"name": "main", "count": 1}, {"name": "main", "count": 2}]
    answer = await world.send("POST", world.collection(WORKLOADS), body)
    assert answer.status == 422
    assert "spec.podSets[1]: Duplicate value" in answer.message


async def test_unknown_fields_are_dropped(world: World) -> None:
    made = await world.create(WORKER_POOLS, worker_pool(nonsense=1))
    assert "nonsense" not in made["spec"]
    assert await world.merge(WORKER_POOLS, "pool", {"spec": {"nonsense": 2}}) == made


async def test_unknown_fields_are_errors_to_those_who_ask(world: World) -> None:
    query = {"fieldValidation": "Strict"}
    answer = await world.send("POST", world.collection(WORKER_POOLS), worker_pool(nonsense=1), query=query)
    assert answer.status == 400
    assert 'unknown field "spec.nonsense"' in answer.message


async def test_a_required_field_cannot_be_taken_away(world: World) -> None:
    await world.create(WORKER_POOLS, worker_pool())
    answer = await world.send("PATCH", world.path(WORKER_POOLS, "pool"), {"spec": {"poolCapacity": None}})
    assert answer.status == 422
    assert "spec.poolCapacity: Required value" in answer.message


async def test_what_must_not_change_cannot_be_changed(world: World) -> None:
    await world.create(LOCAL_QUEUES, {**builders.resource("LocalQueue"), "metadata": {"name": "door"}})
    answer = await world.send("PATCH", world.path(LOCAL_QUEUES, "door"), {"spec": {"clusterQueue": "other"}})
    assert answer.status == 422
    assert "spec.clusterQueue" in answer.message
    assert "cannot be changed after creation" in answer.message


async def test_status_is_ignored_beside_its_subresource(world: World) -> None:
    made = await world.create(WORKER_POOLS, {**worker_pool(), "status": {"workers": 3}})
    assert "status" not in made
    assert await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 3}}) == made


async def test_status_alone_is_written_through_its_subresource(world: World) -> None:
    made = await world.create(WORKER_POOLS, worker_pool())
    patch = {"status": {"workers": 3}, "spec": {"poolCapacity": 1}, "metadata": {"labels": {"l": "1"}}}
    changed = await world.merge(WORKER_POOLS, "pool", patch, "status")
    assert changed["status"] == {"workers": 3}
    assert changed["spec"] == made["spec"]
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_status_is_checked_too(world: World) -> None:
    await world.create(WORKER_POOLS, worker_pool())
    answer = await world.send("PATCH", world.path(WORKER_POOLS, "pool", "status"), {"status": {"workers": -1}})
    assert answer.status == 422
    assert "status.workers" in answer.message


async def test_a_status_with_an_old_version_conflicts(world: World) -> None:
    old = await world.create(WORKER_POOLS, worker_pool())
    await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 1}}, "status")
    patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "status": {"workers": 2}}
    answer = await world.send("PATCH", world.path(WORKER_POOLS, "pool", "status"), patch)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message.startswith('Operation cannot be fulfilled on workerpools.sluice.dev "pool": ')


async def test_generations_count_the_spec_and_not_labels_or_status(world: World) -> None:
    generations = [(await world.create(WORKER_POOLS, worker_pool()))["metadata"]["generation"]]
    for patch, subresource in (
        ({"metadata": {"labels": {"l": "1"}}}, None),
        ({"status": {"workers": 1}}, "status"),
        ({"spec": {"poolCapacity": 31}}, None),
    ):
        changed = await world.merge(WORKER_POOLS, "pool", patch, subresource)
        generations.append(changed["metadata"]["generation"])
    assert generations == [1, 1, 1, 2]


async def test_a_custom_object_is_not_replaced_blindly(world: World) -> None:
    await world.create(WORKER_POOLS, worker_pool())
    answer = await world.send("PUT", world.path(WORKER_POOLS, "pool"), worker_pool())
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


async def test_a_custom_object_must_say_its_kind(world: World) -> None:
    body = {"metadata": {"name": "pool"}, "spec": worker_pool()["spec"]}
    answer = await world.send("POST", world.collection(WORKER_POOLS), body)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_worker_pool_is_scaled(world: World) -> None:
    await world.create(WORKER_POOLS, worker_pool())
    await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 3, "selector": "app=w"}}, "status")
    scaled = await world.merge(WORKER_POOLS, "pool", {"spec": {"replicas": 7}}, "scale")
    assert (scaled["kind"], scaled["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scaled["spec"] == {"replicas": 7}
    assert scaled["status"] == {"replicas": 3, "selector": "app=w"}
    pool = await world.get(WORKER_POOLS, "pool")
    assert (pool["spec"]["poolCapacity"], pool["metadata"]["generation"]) == (7, 2)


async def test_a_scale_with_an_old_version_conflicts(world: World) -> None:
    await world.create(WORKER_POOLS, worker_pool())
    path = world.path(WORKER_POOLS, "pool", "scale")
    old = (await world.send("GET", path)).required()
    (await world.send("PUT", path, {**old, "spec": {"replicas": 4}})).required()
    answer = await world.send("PUT", path, {**old, "spec": {"replicas": 5}})
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_a_policy_refuses_what_it_is_about(world: World) -> None:
    name = world.unique("machine")
    body = {**builders.resource("Machine"), "metadata": {"name": name}}
    answer = await world.send("POST", world.collection(MACHINES), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message.startswith(f'machines.sluice.dev "{name}" is forbidden: ValidatingAdmissionPolicy ')
    assert "must be set to metadata.name" in answer.message


async def test_a_policy_lets_the_rest_pass(world: World) -> None:
    name = world.unique("machine")
    await world.create(MACHINES, builders.resource("Machine", name=name))
    patch = {"metadata": {"labels": {"sluice.dev/machine-group": "other"}}}
    assert (await world.send("PATCH", world.path(MACHINES, name), patch)).status == 422
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T06:00:00Z"}]
    await world.merge(MACHINES, name, {"status": {"conditions": conditions}}, "status")


async def test_a_kind_comes_and_goes_with_its_definition(world: World) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    definition = {
        "metadata": {"name": "widgets.contract.dev"},
        "spec": {
            "group": "contract.dev",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    path = world.collection(WIDGETS)
    assert (await world.api.send(_get(path))).status == 404
    await world.create(kinds.DEFINITIONS, definition)

    async def is_served() -> bool:
        return (await world.api.send(_get(path))).status == 200

    await world.eventually(is_served)
    await world.create(WIDGETS, {"apiVersion": "contract.dev/v1", "kind": "Widget", "metadata": {"name": "w"}})
    await world.delete(kinds.DEFINITIONS, "widgets.contract.dev")

    async def is_not_served() -> bool:
        return (await world.api.send(_get(path))).status == 404

    await world.eventually(is_not_served)
    await world.gone(kinds.DEFINITIONS, "widgets.contract.dev")


def _get(path: str) -> port.Request:
    return port.Request(method="GET", path=path)
