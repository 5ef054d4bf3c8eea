"""Queued Jobs of a trace come as it says, are resized while they run, and do not wait for a node before their quota."""

from typing import Any

from autoscaler.api import keys
from autoscaler.api.node_groups import NodeGroups
from autoscaler.kube import kinds
from autoscaler.rehearsal import manifests, observing, trace
from autoscaler.rehearsal.stack import Stack
from autoscaler.rehearsal.world import World
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.cluster.writes import STATUS, Manner

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
        manner=Manner(user="admin"),
    )
    assert observer.waiting == 1
