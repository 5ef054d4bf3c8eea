"""Nodes and the pods on them: KWOK in place of kubelets on the real side."""

from autoscaler.kube import kinds
from autoscaler.simulation.kubelet import RUN_FOR
from tests.contract.scheduling import node, pod, scheduled
from tests.contract.worlds import Body, World


async def in_phase(world: World, name: str, phase: str) -> Body:
    async def seen() -> Body | None:
        body = await world.get(kinds.PODS, name)
        assert body["status"]["phase"] == phase
        return body

    found: Body = await world.eventually(seen)
    return found


def conditions(body: Body) -> Body:
    return {condition["type"]: condition["status"] for condition in body["status"]["conditions"]}


async def test_a_new_node_takes_nobody_until_it_is_ready(world: World) -> None:
    name = world.unique("node")
    made = await world.create(kinds.NODES, {"metadata": {"name": name}})
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_a_nodes_status_may_come_with_it(world: World) -> None:
    amounts = {"cpu": "3"}
    body = {"metadata": {"name": world.unique("node")}, "status": {"capacity": amounts, "allocatable": amounts}}
    made = await world.create(kinds.NODES, body)
    assert made["status"]["allocatable"] == amounts


async def test_a_node_becomes_ready(world: World) -> None:
    name = await node(world, "ready")
    body = await world.get(kinds.NODES, name)
    assert conditions(body)["Ready"] == "True"
    assert "taints" not in body["spec"]


async def test_a_cordon_is_a_taint_too(world: World) -> None:
    name = await node(world, "ready")
    await world.merge(kinds.NODES, name, {"spec": {"unschedulable": True}})

    async def is_tainted() -> bool:
        taints = (await world.get(kinds.NODES, name))["spec"].get("taints", [])
        return [(taint["key"], taint["effect"]) for taint in taints] == [
            ("node.kubernetes.io/unschedulable", "NoSchedule")
        ]

    await world.eventually(is_tainted)


async def test_a_bound_pod_runs_and_is_ready(world: World) -> None:
    await node(world, "ready")
    await scheduled(world, pod("p"))
    running = await in_phase(world, "p", "Running")
    said = conditions(running)
    assert {said[name] for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready")} == {"True"}
    [container] = running["status"]["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
    assert container["state"]["running"]["startedAt"]
    assert running["status"]["podIP"].startswith("10.")
    assert running["status"]["startTime"]


async def test_a_pod_runs_as_long_as_it_says(world: World) -> None:
    await node(world, "ready")
    body = pod("p", restartPolicy="Never")
    body["metadata"]["annotations"] = {RUN_FOR: "1s"}
    await scheduled(world, body)
    await in_phase(world, "p", "Running")
    over = await in_phase(world, "p", "Succeeded")
    assert conditions(over)["Ready"] == "False"
    assert over["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


async def test_a_deleted_pod_stops_and_goes(world: World) -> None:
    await node(world, "ready")
    await scheduled(world, pod("p"))
    await in_phase(world, "p", "Running")
    marked = await world.delete(kinds.PODS, "p", {"gracePeriodSeconds": 10})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 10
    await world.gone(kinds.PODS, "p")


async def test_a_finalizer_outlasts_the_kubelet(world: World) -> None:
    await node(world, "ready")
    body = pod("p")
    body["metadata"]["finalizers"] = ["sluice.dev/contract"]
    await scheduled(world, body)
    await in_phase(world, "p", "Running")
    await world.delete(kinds.PODS, "p", {"gracePeriodSeconds": 10})

    async def has_stopped() -> bool:
        return bool((await world.get(kinds.PODS, "p"))["metadata"]["deletionGracePeriodSeconds"] == 0)

    await world.eventually(has_stopped)
    await world.merge(kinds.PODS, "p", {"metadata": {"finalizers": None}})
    assert await world.find(kinds.PODS, "p") is None


async def test_pods_that_do_not_tolerate_it_leave_a_node_that_gets_a_taint(world: World) -> None:
    name = await node(world, "ready")
    taint = {"key": "drain", "effect": "NoExecute"}
    await scheduled(world, pod("leaves"))
    await scheduled(world, pod("stays", tolerations=[{"key": "drain", "operator": "Exists"}]))
    await world.merge(kinds.NODES, name, {"spec": {"taints": [taint]}})
    await world.gone(kinds.PODS, "leaves")
    assert "deletionTimestamp" not in (await world.get(kinds.PODS, "stays"))["metadata"]
