"""Disruption budgets: kept current, and obeyed by evictions."""

from typing import Any

from autoscaler.kube import kinds
from tests.contract.customs import WORKER_POOLS, worker_pool
from tests.contract.loose_pods import bare_node, bind, pod
from tests.contract.worlds import Answer, Body, World

LABELS = {"app": "guarded"}


async def ready_pods(world: World, *names: str, owner: Body | None = None) -> None:
    """Pods that say they are ready, on a node whose kubelet nobody plays."""
    place = await bare_node(world)
    for name in names:
        body = pod(name, labels=LABELS)
        if owner:
            reference = {key: owner[key] for key in ("apiVersion", "kind")}
            identity = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
            body["metadata"]["ownerReferences"] = [reference | identity]
        await world.create(kinds.PODS, body)
        await bind(world, name, place)
        await set_ready(world, name, "True")


async def set_ready(world: World, name: str, ready: str, *, phase: str = "Running") -> None:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await world.merge(kinds.PODS, name, {"status": status}, "status")


async def budget(world: World, **spec: Any) -> None:
    body = {"metadata": {"name": "budget"}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    await world.create(kinds.DISRUPTION_BUDGETS, body)


async def budget_says(world: World, **want: int) -> None:
    async def agrees() -> bool:
        status = (await world.get(kinds.DISRUPTION_BUDGETS, "budget"))["status"]
        seen = {name: status.get(name) for name in want}
        assert seen == want
        return True

    await world.eventually(agrees)


async def evict(world: World, name: str, **options: Any) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": world.namespace}}
    if options:
        body["deleteOptions"] = options
    return await world.send("POST", world.path(kinds.PODS, name, "eviction"), body)


async def test_an_eviction_without_a_budget_deletes(world: World) -> None:
    await ready_pods(world, "a")
    answer = await evict(world, "a")
    assert (answer.status, answer.body["status"]) == (201, "Success")
    evicted = await world.get(kinds.PODS, "a")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    [target] = [one for one in evicted["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_what_is_not_there_cannot_be_evicted(world: World) -> None:
    assert (await evict(world, "absent")).status == 404


async def test_a_budget_counts_ready_pods(world: World) -> None:
    await ready_pods(world, "a", "b", "c")
    await budget(world, minAvailable=2)
    await budget_says(world, expectedPods=3, currentHealthy=3, desiredHealthy=2, disruptionsAllowed=1)
    await set_ready(world, "a", "False")
    await budget_says(world, expectedPods=3, currentHealthy=2, desiredHealthy=2, disruptionsAllowed=0)


async def test_a_budget_allows_so_many_and_no_more(world: World) -> None:
    await ready_pods(world, "a", "b")
    await budget(world, minAvailable=1)
    await budget_says(world, disruptionsAllowed=1)
    assert (await evict(world, "a")).status == 201
    answer = await evict(world, "b")
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    [cause] = answer.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert "budget needs 1 healthy pods and has" in cause["message"]
    assert "deletionTimestamp" not in (await world.get(kinds.PODS, "b"))["metadata"]


async def test_a_deletion_does_not_ask_the_budget(world: World) -> None:
    await ready_pods(world, "a")
    await budget(world, minAvailable=1)
    await budget_says(world, disruptionsAllowed=0)
    await world.delete(kinds.PODS, "a", {"gracePeriodSeconds": 0})
    assert await world.find(kinds.PODS, "a") is None


async def test_a_pending_or_finished_pod_is_evicted_whatever_the_budget(world: World) -> None:
    await ready_pods(world, "a", "over")
    await world.create(kinds.PODS, pod("pending", labels=LABELS))
    await set_ready(world, "over", "False", phase="Succeeded")
    await budget(world, minAvailable=5)
    await budget_says(world, disruptionsAllowed=0, currentHealthy=1, expectedPods=3)
    for name in ("over", "pending"):
        assert (await evict(world, name)).status == 201
        assert await world.find(kinds.PODS, name) is None
    assert (await evict(world, "a")).status == 429


async def test_an_unready_pod_is_evicted_only_while_the_others_are_enough(world: World) -> None:
    await ready_pods(world, "a", "b")
    await set_ready(world, "b", "False")
    await budget(world, minAvailable=1)
    await budget_says(world, currentHealthy=1, disruptionsAllowed=0)
    assert (await evict(world, "b", gracePeriodSeconds=0)).status == 201
    await set_ready(world, "a", "False")
    await budget_says(world, currentHealthy=0)
    assert (await evict(world, "a")).status == 429


async def test_two_budgets_are_one_too_many(world: World) -> None:
    await ready_pods(world, "a")
    for name in ("one", "two"):
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, "minAvailable": 0}}
        await world.create(kinds.DISRUPTION_BUDGETS, body)

    async def is_refused() -> bool:
        answer = await evict(world, "a")
        assert answer.status == 500, answer.body
        return "more than one PodDisruptionBudget" in answer.message

    await world.eventually(is_refused)


async def test_an_eviction_has_preconditions(world: World) -> None:
    await ready_pods(world, "a")
    answer = await evict(world, "a", preconditions={"uid": "11111111-1111-4111-8111-111111111111"})
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_the_pods_of_a_worker_pool_are_counted_by_its_scale(world: World) -> None:
    owner = await world.create(WORKER_POOLS, worker_pool(poolCapacity=4))
    await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 2, "selector": "app=guarded"}}, "status")
    await ready_pods(world, "a", "b", owner=owner)
    await budget(world, maxUnavailable=3)
    await budget_says(world, expectedPods=4, currentHealthy=2, desiredHealthy=1, disruptionsAllowed=1)
