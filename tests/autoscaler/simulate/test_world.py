"""Work of a trace comes as it says: Jobs are resized while they run and wait for quota first, guests are let in."""

import asyncio
from typing import Any

from autoscaler.api import keys, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.machines import machine_keepers
from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.kube import kinds
from autoscaler.simulate import manifests, trace
from autoscaler.simulate.observation import observing
from autoscaler.simulate.stack import Stack
from autoscaler.simulate.world import AGAIN_SECONDS, FORGOTTEN_SECONDS, NAMESPACE, RUNTIME, World
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner

JOB: dict[str, Any] = {
    "namespace": "research",
    "queue": "training",
    "requests": {"cpu": "1"},
    "takes": ["1m", "1m"],
    "parallelism": 4,
}
DAY = trace.parse(
    {
        "starts": "2026-06-30T06:00:00Z",
        "jobs": {"ranking": JOB, "other": {**JOB, "completions": 9, "priorityClass": "urgent"}},
        "priorityClasses": {"urgent": 1000},
        "guests": {"notebook": {"namespace": "labs", "group": "desks", "type": "small", "takes": ["1m", "1m"]}},
    }
)


def world() -> World:
    groups = NodeGroups(cluster="bench", region="us-east-1", groups=())
    return World(Stack(groups=groups, objects=()), DAY, virtual_time.clock())


def job(made: World, name: str) -> Any:
    found = made.cluster.server.store.find(kinds.JOBS, Key("research", name))
    assert found is not None
    return found.object


def test_a_job_has_its_queue_size_and_priority() -> None:
    plain, other = (manifests.job("j-0001", name, DAY.jobs[name], 60.0) for name in ("ranking", "other"))
    assert plain["metadata"]["labels"][keys.QUEUE_NAME] == "training"
    assert (plain["spec"]["parallelism"], plain["spec"]["completions"], other["spec"]["completions"]) == (4, 4, 9)
    assert "priorityClassName" not in plain["spec"]["template"]["spec"]
    assert other["spec"]["template"]["spec"]["priorityClassName"] == "urgent"


async def test_all_jobs_of_a_name_are_resized_that_have_not_ended() -> None:
    made = world()
    for name in ("ranking-0001", "ranking-0002", "other-0001"):
        work = name[:-5]
        made.create(manifests.job(name, work, DAY.jobs[work], 60.0), kinds.JOBS)
    done = [{"type": "Complete", "status": "True"}]
    made.cluster.server.writes.update(
        kinds.JOBS,
        Key("research", "ranking-0002"),
        lambda body: {**body, "status": {**body["status"], "conditions": done}},
        manner=Manner(user="admin"),
        subresource=STATUS,
    )
    made.resize("ranking", 7)
    sizes = [job(made, name)["spec"]["parallelism"] for name in ("ranking-0001", "ranking-0002", "other-0001")]
    assert sizes == [7, 4, 4]


async def test_priority_classes_of_the_trace_are_there() -> None:
    found = world().cluster.server.store.find(kinds.PRIORITY_CLASSES, Key("", "urgent"))
    assert found is not None
    assert found.object["value"] == 1000


async def test_a_pod_waits_for_a_node_once_its_gate_is_open() -> None:
    made = world()
    observer = observing.Observer(made.cluster, virtual_time.clock())
    pod = manifests.pod("p", "ranking", DAY.jobs["ranking"], 60.0)
    pod["spec"]["schedulingGates"] = [{"name": keys.ADMISSION_GATE}]
    made.create(pod, kinds.PODS)
    assert observer.waiting == 0
    made.cluster.server.writes.update(
        kinds.PODS,
        Key("research", "p"),
        lambda body: {**body, "spec": {**body["spec"], "schedulingGates": []}},
        manner=Manner(user=RUNTIME.user),
    )
    assert observer.waiting == 1


# Guests of machines

LABS: Manifest = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "labs", "labels": {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}},
}
CATALOGUE = {"groups": "desks", "desks.types": "small", "desks.small.cpu": "2", "desks.small.memory": "4Gi"}


def with_labs() -> World:
    """Make a world with a namespace for guests, in which the runtime has not said yet what machines there are."""
    groups = NodeGroups(cluster="bench", region="us-east-1", groups=())
    return World(Stack(groups=groups, objects=(LABS,)), DAY, virtual_time.clock())


def tell_machines(made: World) -> None:
    """Write the catalogue of machines, as the runtime does."""
    body = {"metadata": {"name": names.MACHINE_CATALOGUE, "namespace": NAMESPACE}, "data": CATALOGUE}
    made.cluster.server.writes.create(kinds.CONFIG_MAPS, body, namespace=NAMESPACE, manner=Manner(user=RUNTIME.user))


def pods(made: World) -> list[Manifest]:
    return [entry.object for entry in made.cluster.server.store.collection(kinds.PODS).entries.values()]


async def test_a_guest_gets_what_its_machine_has_and_waits_behind_its_gate() -> None:
    made = with_labs()
    tell_machines(made)
    made.admit(manifests.guest("g-0001", "notebook", DAY.guests["notebook"], 60.0))
    (guest,) = pods(made)
    (container,) = guest["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
    assert guest["spec"]["schedulingGates"] == [{"name": keys.MACHINE_GATE}]
    assert guest["metadata"]["labels"][keys.POD_ROLE] == keys.ROLE_GUEST
    assert guest["spec"]["restartPolicy"] == "Never"


async def test_a_guest_that_is_refused_comes_again_until_it_is_let_in() -> None:
    made = with_labs()
    made.admit(manifests.guest("g-0001", "notebook", DAY.guests["notebook"], 60.0))
    await asyncio.sleep(2.5 * AGAIN_SECONDS)
    assert pods(made) == []
    tell_machines(made)
    await asyncio.sleep(AGAIN_SECONDS)
    assert [each["metadata"]["name"] for each in pods(made)] == ["g-0001"]


SLEEPER = Key(NAMESPACE, "small-desks-0")


def add_sleeper(made: World) -> None:
    """Make a pod that holds room, as the StatefulSet controller does."""
    labels = {keys.MACHINE_GROUP: "desks", keys.MACHINE_TYPE: "small", keys.POD_ROLE: keys.ROLE_RESERVATION}
    body = {
        "metadata": {"name": SLEEPER.name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "sleeper", "image": "sleeper:1"}]},
    }
    manner = Manner(user=machine_keepers.STATEFUL_SET_CONTROLLERS[0])
    made.cluster.server.writes.create(kinds.PODS, body, namespace=NAMESPACE, manner=manner)


def put_phase(made: World, phase: str) -> None:
    made.cluster.server.writes.update(
        kinds.PODS,
        SLEEPER,
        lambda body: {**body, "status": {**body["status"], "phase": phase}},
        manner=Manner(user="admin"),
        subresource=STATUS,
    )


async def test_pods_that_hold_room_are_no_work() -> None:
    made = world()
    observer = observing.Observer(made.cluster, virtual_time.clock())
    add_sleeper(made)
    assert observer.waiting == 0
    put_phase(made, "Running")
    assert (observer.running, dict(observer.pods_by_pool)) == (0, {})
    put_phase(made, "Failed")
    assert observer.running == 0


async def test_a_pod_that_took_the_name_of_one_that_ended_is_not_forgotten_with_it() -> None:
    made = world()
    add_sleeper(made)
    put_phase(made, "Running")
    put_phase(made, "Failed")
    made.delete(kinds.PODS, SLEEPER)
    add_sleeper(made)
    await asyncio.sleep(FORGOTTEN_SECONDS + 60)
    assert len(pods(made)) == 1
    put_phase(made, "Running")
    put_phase(made, "Succeeded")
    await asyncio.sleep(FORGOTTEN_SECONDS + 60)
    assert pods(made) == []
