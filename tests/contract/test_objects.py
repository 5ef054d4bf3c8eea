"""Objects of any kind: created, read, replaced, patched, and refused for the same reasons everywhere."""

import pytest

from autoscaler.kube import kinds, port
from tests.contract.worlds import Body, World


def config_map(name: str = "a", **fields: object) -> Body:
    return {"metadata": {"name": name}, **fields}


async def test_a_created_object_gets_its_identity(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map(data={"k": "v"}))
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert (metadata["name"], metadata["namespace"]) == ("a", world.namespace)
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert made["data"] == {"k": "v"}
    assert await world.get(kinds.CONFIG_MAPS, "a") == made


async def test_a_name_can_be_had_once(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    answer = await world.send("POST", world.collection(kinds.CONFIG_MAPS), config_map())
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'
    with pytest.raises(port.AlreadyExistsError):
        answer.required()


async def test_a_name_is_generated(world: World) -> None:
    body = {"metadata": {"generateName": "worker-"}}
    names = [(await world.create(kinds.CONFIG_MAPS, body))["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("worker-") and len(name) == len("worker-") + 5 for name in names)


async def test_an_object_without_a_name_is_refused(world: World) -> None:
    answer = await world.send("POST", world.collection(kinds.CONFIG_MAPS), {"metadata": {}})
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "metadata.name: Required value: name or generateName is required" in answer.message


async def test_a_bad_name_is_refused(world: World) -> None:
    answer = await world.send("POST", world.collection(kinds.CONFIG_MAPS), config_map("Not_Good"))
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata.name"
    assert "a lowercase RFC 1123 subdomain" in answer.message


async def test_a_bad_label_is_refused(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), {"metadata": {"labels": {"a b": "1"}}})
    assert answer.status == 422
    assert "metadata.labels" in answer.message


async def test_nothing_is_created_in_a_namespace_that_is_not_there(world: World) -> None:
    answer = await world.send("POST", kinds.CONFIG_MAPS.collection("nowhere"), config_map())
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'namespaces "nowhere" not found'


async def test_the_namespace_of_the_body_must_be_that_of_the_path(world: World) -> None:
    body = {"metadata": {"name": "a", "namespace": "default"}}
    answer = await world.send("POST", world.collection(kinds.CONFIG_MAPS), body)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_an_object_of_another_kind_is_refused(world: World) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    assert (await world.send("POST", world.collection(kinds.CONFIG_MAPS), body)).status == 400


async def test_a_version_cannot_be_chosen_on_creation(world: World) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "7"}}
    answer = await world.send("POST", world.collection(kinds.CONFIG_MAPS), body)
    assert answer.status == 500
    assert answer.message == "resourceVersion should not be set on objects to be created"


async def test_what_is_not_there_is_not_found(world: World) -> None:
    path = world.path(kinds.CONFIG_MAPS, "absent")
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"data": {}}), ("PUT", config_map("absent"))):
        answer = await world.send(method, path, body)
        assert (answer.status, answer.reason) == (404, "NotFound"), method
        assert answer.message == 'configmaps "absent" not found'


async def test_a_dry_run_changes_nothing(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map(), dryRun="All")
    assert made["metadata"]["uid"]
    assert await world.find(kinds.CONFIG_MAPS, "a") is None


async def test_versions_only_grow(world: World) -> None:
    versions = [int((await world.create(kinds.CONFIG_MAPS, config_map()))["metadata"]["resourceVersion"])]
    for value in "123":
        changed = await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": value}})
        versions.append(int(changed["metadata"]["resourceVersion"]))
    other = await world.create(kinds.SECRETS, {"metadata": {"name": "b"}})
    versions.append(int(other["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))


async def test_a_write_that_changes_nothing_is_no_write(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map(data={"k": "v"}))
    assert await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "v"}}) == made
    assert (await world.send("PUT", world.path(kinds.CONFIG_MAPS, "a"), made)).required() == made


async def test_a_put_replaces_the_whole_object(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map(data={"old": "1"}))
    await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"labels": {"l": "1"}}})
    put = (await world.send("PUT", world.path(kinds.CONFIG_MAPS, "a"), config_map(data={"new": "1"}))).required()
    assert put["data"] == {"new": "1"}
    assert "labels" not in put["metadata"]
    assert put["metadata"]["uid"] == made["metadata"]["uid"]
    assert put["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_a_put_of_an_old_version_conflicts(world: World) -> None:
    old = await world.create(kinds.CONFIG_MAPS, config_map(data={"k": "1"}))
    await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "2"}})
    answer = await world.send("PUT", world.path(kinds.CONFIG_MAPS, "a"), {**old, "data": {"k": "3"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "the object has been modified" in answer.message
    with pytest.raises(port.ConflictError):
        answer.required()


async def test_a_put_for_another_uid_conflicts(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    body = {"metadata": {"name": "a", "uid": "11111111-1111-4111-8111-111111111111"}}
    answer = await world.send("PUT", world.path(kinds.CONFIG_MAPS, "a"), body)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "UID in precondition" in answer.message


async def test_a_merge_patch_sets_removes_and_keeps(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map(data={"keep": "1", "change": "1", "remove": "1"}))
    patched = await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"change": "2", "remove": None, "add": "3"}})
    assert patched["data"] == {"keep": "1", "change": "2", "add": "3"}


async def test_the_last_label_taken_away_leaves_no_labels(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"l": "1"}}})
    patched = await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"labels": {"l": None}}})
    assert "labels" not in patched["metadata"]


async def test_a_patch_with_the_present_version_is_accepted(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map())
    identity = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    patched = await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": identity, "data": {"k": "v"}})
    assert patched["data"] == {"k": "v"}


async def test_a_patch_with_an_old_version_conflicts(world: World) -> None:
    old = await world.create(kinds.CONFIG_MAPS, config_map())
    await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "2"}})
    version = {"resourceVersion": old["metadata"]["resourceVersion"]}
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), {"metadata": version, "data": {"k": "3"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified;'
        " please apply your changes to the latest version and try again"
    )


async def test_a_patch_meant_for_an_object_that_was_replaced_conflicts(world: World) -> None:
    old = await world.create(kinds.CONFIG_MAPS, config_map())
    await world.delete(kinds.CONFIG_MAPS, "a")
    await world.create(kinds.CONFIG_MAPS, config_map())
    identity = {"uid": old["metadata"]["uid"], "resourceVersion": old["metadata"]["resourceVersion"]}
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), {"metadata": identity, "data": {"k": "3"}})
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_a_patch_with_another_uid_alone_is_invalid(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    body = {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}, "data": {"k": "v"}}
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.body["details"]["causes"][0]["field"] == "metadata.uid"
    assert "field is immutable" in answer.message


async def test_name_and_namespace_cannot_be_changed(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    for changed in ({"name": "b"}, {"namespace": "default"}):
        answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), {"metadata": changed})
        assert (answer.status, answer.reason) == (400, "BadRequest"), changed


async def test_a_birthday_and_a_generation_cannot_be_changed_and_nobody_says_so(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, config_map())
    changed = {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7}
    assert await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": changed}) == made


async def test_a_deletion_cannot_be_declared(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    patch = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
    answer = await world.send("PATCH", world.path(kinds.CONFIG_MAPS, "a"), patch)
    assert answer.status == 422
    assert "metadata.deletionTimestamp" in answer.message


async def test_a_patch_must_say_that_it_is_one(world: World) -> None:
    await world.create(kinds.CONFIG_MAPS, config_map())
    path = world.path(kinds.CONFIG_MAPS, "a")
    response = await world.api.send(port.Request(method="PATCH", path=path, body=b"{}", content_type=port.JSON))
    assert response.status == 415


async def test_a_method_that_makes_no_sense_is_not_allowed(world: World) -> None:
    answer = await world.send("POST", world.path(kinds.CONFIG_MAPS, "a"), config_map())
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")


async def test_a_subresource_that_is_not_there_is_not_found(world: World) -> None:
    assert (await world.send("GET", world.path(kinds.PODS, "a", "nonsense"))).status == 404


async def test_a_lease_is_made_by_a_put(world: World) -> None:
    path = world.path(kinds.LEASES, "l")
    answer = await world.send("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})
    assert answer.status == 201
    assert answer.body["spec"] == {"holderIdentity": "x"}


async def test_a_lease_is_not_replaced_blindly(world: World) -> None:
    await world.create(kinds.LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "y"}}
    answer = await world.send("PUT", world.path(kinds.LEASES, "l"), body)
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


async def test_of_two_that_want_a_lease_one_gets_it(world: World) -> None:
    held = await world.create(kinds.LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})
    version = {"resourceVersion": held["metadata"]["resourceVersion"]}
    path = world.path(kinds.LEASES, "l")
    bodies = [{"metadata": version, "spec": {"holderIdentity": name}} for name in ("y", "z")]
    statuses = [(await world.send("PATCH", path, body)).status for body in bodies]
    assert statuses == [200, 409]
    assert (await world.get(kinds.LEASES, "l"))["spec"]["holderIdentity"] == "y"


async def test_a_lease_of_no_duration_is_refused(world: World) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    answer = await world.send("POST", world.collection(kinds.LEASES), body)
    assert answer.status == 422
    assert "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0" in answer.message


async def test_a_generation_counts_changes_of_the_spec_alone(world: World) -> None:
    body: Body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        },
    }
    made = await world.create(kinds.DEPLOYMENTS, body)
    labelled = await world.merge(kinds.DEPLOYMENTS, "d", {"metadata": {"labels": {"l": "1"}}})
    paused = await world.merge(kinds.DEPLOYMENTS, "d", {"spec": {"paused": True}})
    seen = [body["metadata"]["generation"] for body in (made, labelled, paused)]
    assert seen == [1, 1, 2]
