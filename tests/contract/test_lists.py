"""Lists: selected, sorted, in pages that show one moment."""

import pytest

from autoscaler.kube import kinds
from tests.contract.customs import WORKER_POOLS, worker_pool
from tests.contract.worlds import Body, World

NAMES = ["a", "b", "c", "d", "e"]


async def five(world: World) -> None:
    for number, name in enumerate(reversed(NAMES)):
        labels = {"all": "yes", "parity": "odd" if number % 2 else "even", "number": str(number)}
        await world.create(kinds.SECRETS, {"metadata": {"name": name, "labels": labels}})


async def test_a_list_is_sorted_and_has_a_version(world: World) -> None:
    await five(world)
    listed = await world.listed(kinds.SECRETS)
    assert [item["metadata"]["name"] for item in listed["items"]] == NAMES
    assert (listed["kind"], listed["apiVersion"]) == ("SecretList", "v1")
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest


async def test_items_of_custom_kinds_alone_say_their_kind(world: World) -> None:
    await five(world)
    await world.create(WORKER_POOLS, worker_pool())
    assert all("kind" not in item for item in (await world.listed(kinds.SECRETS))["items"])
    assert [item["kind"] for item in (await world.listed(WORKER_POOLS))["items"]] == ["WorkerPool"]


async def test_pages_together_are_the_list(world: World) -> None:
    await five(world)
    pages, remaining = [], []
    query = {"limit": "2"}
    while True:
        page = await world.listed(kinds.SECRETS, **query)
        pages.append([item["metadata"]["name"] for item in page["items"]])
        remaining.append(page["metadata"].get("remainingItemCount"))
        if not page["metadata"].get("continue"):
            break
        query["continue"] = page["metadata"]["continue"]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert remaining == [3, 1, None]


async def test_all_pages_show_the_moment_of_the_first(world: World) -> None:
    await five(world)
    first = await world.listed(kinds.SECRETS, limit="2")
    await world.delete(kinds.SECRETS, "c")
    await world.create(kinds.SECRETS, {"metadata": {"name": "cc"}})
    await world.merge(kinds.SECRETS, "d", {"metadata": {"labels": {"late": "yes"}}})
    second = await world.listed(kinds.SECRETS, limit="10", **{"continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d", "e"]
    assert "late" not in second["items"][1]["metadata"]["labels"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_pages_of_a_selection_do_not_count_what_remains(world: World) -> None:
    await five(world)
    page = await world.listed(kinds.SECRETS, limit="1", labelSelector="parity=even")
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]
    rest = await world.listed(kinds.SECRETS, labelSelector="parity=even", **{"continue": page["metadata"]["continue"]})
    assert len(rest["items"]) == 2


SELECTIONS = {
    "parity=even": ["a", "c", "e"],
    "parity==odd": ["b", "d"],
    "parity!=odd": ["a", "c", "e"],
    "number in (0, 1)": ["d", "e"],
    "number notin (0,1)": ["a", "b", "c"],
    "all,number in (0,3),parity=odd": ["b"],
    "!all": [],
    "absent!=x": NAMES,
    "number>2": ["a", "b"],
}


async def test_labels_select(world: World) -> None:
    await five(world)
    seen = {selector: await world.names(kinds.SECRETS, labelSelector=selector) for selector in SELECTIONS}
    assert seen == SELECTIONS


@pytest.mark.parametrize("query", [{"labelSelector": "a in ("}, {"fieldSelector": "spec.bogus=1"}, {"continue": "??"}])
async def test_what_cannot_be_read_is_refused(world: World, query: Body) -> None:
    answer = await world.send("GET", world.collection(kinds.CONFIG_MAPS), query=query)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_fields_select(world: World) -> None:
    await five(world)
    assert await world.names(kinds.SECRETS, fieldSelector="metadata.name=c") == ["c"]
    assert await world.names(kinds.SECRETS, fieldSelector="metadata.name!=c") == ["a", "b", "d", "e"]
    everywhere = await world.send(
        "GET", kinds.SECRETS.collection(), query={"fieldSelector": f"metadata.namespace={world.namespace}"}
    )
    assert len(everywhere.required()["items"]) == 5


async def test_events_are_selected_by_what_they_are_about(world: World) -> None:
    for name in ("one", "two"):
        about = {"kind": "Pod", "name": name, "namespace": world.namespace, "uid": f"uid-{name}"}
        await world.create(kinds.EVENTS, {"metadata": {"name": name}, "involvedObject": about, "reason": "Seen"})
    assert await world.names(kinds.EVENTS, fieldSelector="involvedObject.name=one,involvedObject.kind=Pod") == ["one"]
    assert await world.names(kinds.EVENTS, fieldSelector="involvedObject.uid=uid-two") == ["two"]


async def test_a_version_of_the_future_is_a_timeout(world: World) -> None:
    query = {"resourceVersion": "999999999"}
    answer = await world.send("GET", world.collection(kinds.SECRETS), query=query)
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
