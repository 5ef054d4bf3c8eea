"""Deletion: preconditions, finalizers, propagation to dependents, whole collections, namespaces."""

from typing import Any

import pytest

from autoscaler.kube import kinds, port
from tests.contract.customs import WORKER_POOLS, worker_pool
from tests.contract.worlds import Body, World

FINALIZER = "sluice.dev/contract"


async def config_map(world: World, name: str, owner: Body | None = None, **metadata: Any) -> Body:
    if owner:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        metadata["ownerReferences"] = [reference]
    return await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": name, **metadata}})


async def test_an_object_goes_at_once(world: World) -> None:
    made = await config_map(world, "a")
    said = await world.delete(kinds.CONFIG_MAPS, "a")
    assert (said["kind"], said["status"]) == ("Status", "Success")
    assert said["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert await world.find(kinds.CONFIG_MAPS, "a") is None


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_a_precondition_that_fails_is_a_conflict(world: World, field: str) -> None:
    await config_map(world, "a")
    options = {"preconditions": {field: "1"}}
    answer = await world.send("DELETE", world.path(kinds.CONFIG_MAPS, "a"), options)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "in the precondition (1) does not match" in answer.message
    with pytest.raises(port.ConflictError):
        answer.required()
    assert await world.find(kinds.CONFIG_MAPS, "a")


async def test_preconditions_that_hold_let_it_go(world: World) -> None:
    made = (await config_map(world, "a"))["metadata"]
    options = {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}
    await world.delete(kinds.CONFIG_MAPS, "a", options)
    assert await world.find(kinds.CONFIG_MAPS, "a") is None


async def test_a_finalizer_holds_an_object_until_it_is_removed(world: World) -> None:
    await config_map(world, "a", finalizers=[FINALIZER])
    marked = await world.delete(kinds.CONFIG_MAPS, "a")
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await world.delete(kinds.CONFIG_MAPS, "a") == marked
    late = await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "v"}})
    assert late["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    last = await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert await world.find(kinds.CONFIG_MAPS, "a") is None


async def test_a_deleted_object_gets_no_new_finalizer(world: World) -> None:
    await config_map(world, "a", finalizers=[FINALIZER])
    await world.delete(kinds.CONFIG_MAPS, "a")
    patch = {"metadata": {"finalizers": [FINALIZER, "sluice.dev/late"]}}
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), patch)
    assert answer.status == 422
    assert "no new finalizers can be added if the object is being deleted" in answer.message
    await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"finalizers": None}})


async def test_the_mark_of_deletion_counts_as_a_generation(world: World) -> None:
    await world.create(WORKER_POOLS, {**worker_pool(), "metadata": {"name": "pool", "finalizers": [FINALIZER]}})
    marked = await world.delete(WORKER_POOLS, "pool")
    assert marked["metadata"]["generation"] == 2
    changed = await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 1}}, "status")
    assert changed["status"] == {"workers": 1}
    await world.merge(WORKER_POOLS, "pool", {"metadata": {"finalizers": None}})
    assert await world.find(WORKER_POOLS, "pool") is None


async def test_a_collection_is_deleted_as_far_as_selected(world: World) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        await config_map(world, name, labels={"l": label})
    await world.send("DELETE", world.collection(kinds.CONFIG_MAPS), query={"labelSelector": "l=x"})
    assert await world.names(kinds.CONFIG_MAPS, labelSelector="l") == ["c"]


async def test_dependents_go_after_their_owner(world: World) -> None:
    owner = await config_map(world, "owner")
    await config_map(world, "dependent", owner)
    await world.delete(kinds.CONFIG_MAPS, "owner", {"propagationPolicy": "Background"})
    assert await world.find(kinds.CONFIG_MAPS, "owner") is None
    await world.gone(kinds.CONFIG_MAPS, "dependent")


async def test_dependents_of_dependents_go_too(world: World) -> None:
    owner = await world.create(WORKER_POOLS, worker_pool())
    child = await config_map(world, "child", owner)
    await config_map(world, "grandchild", child)
    await world.delete(WORKER_POOLS, "pool")
    await world.gone(kinds.CONFIG_MAPS, "child")
    await world.gone(kinds.CONFIG_MAPS, "grandchild")


async def test_in_the_foreground_dependents_go_first(world: World) -> None:
    owner = await config_map(world, "owner")
    await config_map(world, "dependent", owner, finalizers=[FINALIZER])
    marked = await world.delete(kinds.CONFIG_MAPS, "owner", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def dependent_is_deleted() -> bool:
        return "deletionTimestamp" in (await world.get(kinds.CONFIG_MAPS, "dependent"))["metadata"]

    await world.eventually(dependent_is_deleted)
    assert await world.find(kinds.CONFIG_MAPS, "owner")
    await world.merge(kinds.CONFIG_MAPS, "dependent", {"metadata": {"finalizers": None}})
    await world.gone(kinds.CONFIG_MAPS, "owner")


async def test_orphans_are_let_go(world: World) -> None:
    owner = await config_map(world, "owner")
    await config_map(world, "dependent", owner)
    await world.delete(kinds.CONFIG_MAPS, "owner", {"propagationPolicy": "Orphan"})
    await world.gone(kinds.CONFIG_MAPS, "owner")
    assert "ownerReferences" not in (await world.get(kinds.CONFIG_MAPS, "dependent"))["metadata"]


async def test_an_object_whose_owner_never_was_goes(world: World) -> None:
    owner = await config_map(world, "owner")
    absent = {**owner, "metadata": {"name": "absent", "uid": "11111111-1111-4111-8111-111111111111"}}
    await config_map(world, "dependent", absent)
    await world.gone(kinds.CONFIG_MAPS, "dependent")


async def test_an_object_lives_while_one_owner_does(world: World) -> None:
    first, second = await config_map(world, "first"), await config_map(world, "second")
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in (first, second)
    ]
    await config_map(world, "dependent", ownerReferences=references)
    await world.delete(kinds.CONFIG_MAPS, "first")

    async def has_one_owner_left() -> bool:
        metadata = (await world.get(kinds.CONFIG_MAPS, "dependent"))["metadata"]
        return [owner["name"] for owner in metadata["ownerReferences"]] == ["second"]

    await world.eventually(has_one_owner_left)
    await world.delete(kinds.CONFIG_MAPS, "second")
    await world.gone(kinds.CONFIG_MAPS, "dependent")


async def test_a_namespace_takes_its_content_along(world: World) -> None:
    held, plain = world.unique("held"), world.unique("plain")
    for name, finalizers in ((held, [FINALIZER]), (plain, [])):
        await world.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        body = {"metadata": {"name": "content", "finalizers": finalizers}}
        (await world.send("POST", kinds.CONFIG_MAPS.collection(name), body)).required()
        marked = await world.delete(kinds.NAMESPACES, name)
        assert marked["status"]["phase"] == "Terminating"

    path = kinds.CONFIG_MAPS.collection(held)
    answer = await world.send("POST", path, {"metadata": {"name": "late"}})
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert f"unable to create new content in namespace {held} because it is being terminated" in answer.message

    async def content_is_deleted() -> bool:
        content = (await world.send("GET", f"{path}/content")).required()
        return "deletionTimestamp" in content["metadata"]

    await world.eventually(content_is_deleted)
    await world.gone(kinds.NAMESPACES, plain)
    assert await world.find(kinds.NAMESPACES, held)
    (await world.send("PATCH", f"{path}/content", {"metadata": {"finalizers": None}})).required()
