"""Jobs: how their controller makes, deletes and counts pods, and ends them.

Pods have a scheduler that does not exist and no kubelet, so the test says what becomes of each.
"""

from typing import Any

import pytest

from autoscaler.kube import kinds
from tests.contract.loose_pods import NOBODY, bare_node, bind
from tests.contract.worlds import ALONE, Body, World

NAME = "job"
INDEX = "batch.kubernetes.io/job-completion-index"
GATE = "sluice.dev/contract"


def job(*, pods: Body | None = None, **spec: Any) -> Body:
    containers = [{"name": "main", "image": "none"}]
    whole = {
        "schedulerName": NOBODY,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 600,
        "containers": containers,
        **(pods or {}),
    }
    template = {"metadata": {"labels": {"app": "sums"}, "annotations": {ALONE: "yes"}}, "spec": whole}
    return {"metadata": {"name": NAME}, "spec": {"template": template, **spec}}


async def pods(world: World) -> list[Body]:
    """Return the pods that are not being deleted, by index and then by name."""
    items = (await world.listed(kinds.PODS))["items"]
    kept = [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]
    return sorted(kept, key=lambda pod: (int(pod["metadata"]["labels"].get(INDEX, 0)), pod["metadata"]["name"]))


async def names(world: World) -> list[str]:
    return [pod["metadata"]["name"] for pod in await pods(world)]


async def counted(world: World, *, live: int, **want: Any) -> Body:
    """Wait until a Job has so many pods that have not ended, and says what is wanted; None: it does not say."""

    async def agrees() -> Body:
        status: Body = (await world.get(kinds.JOBS, NAME))["status"]
        seen = {name: status.get(name) for name in want}
        alive = [pod for pod in await pods(world) if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
        assert (len(alive), seen) == (live, want)
        return status

    found: Body = await world.eventually(agrees)
    return found


async def ended(world: World, *want: str) -> Body:
    """Wait until a Job's conditions that hold are these."""

    async def agrees() -> Body:
        status: Body = (await world.get(kinds.JOBS, NAME))["status"]
        holding = {each["type"] for each in status.get("conditions", []) if each["status"] == "True"}
        assert holding == set(want), status
        return status

    found: Body = await world.eventually(agrees)
    return found


async def end(world: World, name: str, phase: str) -> None:
    """Let a pod end, as a kubelet would say it."""
    state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1, "finishedAt": "2030-01-01T00:00:00Z"}}
    container = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    await world.merge(kinds.PODS, name, {"status": {"phase": phase, "containerStatuses": [container]}}, "status")


async def start(world: World, node: str, *chosen: str) -> None:
    """Let pods run and be ready on a node, as a kubelet would say it."""
    for name in chosen:
        assert await bind(world, name, node) == 201
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await world.merge(kinds.PODS, name, {"status": {"phase": "Running", "conditions": [ready]}}, "status")


async def test_what_a_job_leaves_out_is_filled_in(world: World) -> None:
    made = await world.create(kinds.JOBS, job(suspend=True))
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert made["status"] == {}
    want = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": True,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
    }
    assert {name: spec[name] for name in want} == want
    assert spec["template"]["metadata"]["labels"] == {
        "app": "sums",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": NAME,
        "controller-uid": uid,
        "job-name": NAME,
    }


async def test_a_template_does_not_ask_for_what_it_limits_and_its_pods_do(world: World) -> None:
    limited = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "100m"}}}
    made = await world.create(kinds.JOBS, job(pods={"containers": [limited]}))
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "100m"}}
    await counted(world, live=1)
    (pod,) = await pods(world)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}


async def test_a_jobs_pods_are_made_from_its_template(world: World) -> None:
    made = await world.create(kinds.JOBS, job(parallelism=2, completions=5, pods={"schedulingGates": [{"name": GATE}]}))
    status = await counted(world, live=2, active=2, ready=0, terminating=0, succeeded=None, failed=None)
    assert status["startTime"]
    (pod, _) = await pods(world)
    metadata = pod["metadata"]
    assert metadata["name"].startswith(f"{NAME}-")
    assert metadata["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert metadata["annotations"] == {ALONE: "yes"}
    assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    identity = {"name": NAME, "uid": made["metadata"]["uid"]}
    flags = {"controller": True, "blockOwnerDeletion": True}
    assert metadata["ownerReferences"] == [{"apiVersion": "batch/v1", "kind": "Job", **identity, **flags}]
    assert pod["spec"]["schedulingGates"] == [{"name": GATE}]


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=2, completions=2, suspend=True))
    status = await ended(world, "Suspended")
    assert [(each["reason"], each["message"]) for each in status["conditions"]] == [("JobSuspended", "Job suspended")]
    assert ("startTime" in status, await names(world)) == (False, [])
    await world.merge(kinds.JOBS, NAME, {"spec": {"suspend": False}})
    status = await counted(world, live=2, active=2)
    assert [(each["status"], each["reason"]) for each in status["conditions"]] == [("False", "JobResumed")]
    assert status["startTime"]


async def test_suspending_deletes_pods_that_do_not_count_as_failed(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=2, completions=2))
    await counted(world, live=2, active=2)
    running, _ = await names(world)
    await start(world, await bare_node(world), running)
    await counted(world, live=2, ready=1)
    await world.merge(kinds.JOBS, NAME, {"spec": {"suspend": True}})
    status = await counted(world, live=0, active=None, ready=0, terminating=1, failed=None)
    assert "startTime" not in status
    await ended(world, "Suspended")
    await world.delete(kinds.PODS, running, {"gracePeriodSeconds": 0})
    await counted(world, live=0, terminating=0, failed=None, startTime=None)


async def test_a_job_grows_and_shrinks_with_its_parallelism(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=1, completions=9))
    await counted(world, live=1, active=1)
    await world.merge(kinds.JOBS, NAME, {"spec": {"parallelism": 4}})
    await counted(world, live=4, active=4)
    _, bound, _, running = await names(world)
    node = await bare_node(world)
    await start(world, node, running)
    assert await bind(world, bound, node) == 201
    await counted(world, live=4, ready=1)
    await world.merge(kinds.JOBS, NAME, {"spec": {"parallelism": 2}})
    await counted(world, live=2, active=2, failed=None)
    assert await names(world) == sorted([bound, running])  # what is on no node goes first
    await world.merge(kinds.JOBS, NAME, {"spec": {"parallelism": 1}})
    await counted(world, live=1, active=1, terminating=1)
    assert await names(world) == [running]  # then what does not run


async def test_a_job_is_complete_when_enough_pods_have_succeeded(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=2, completions=3))
    await counted(world, live=2, active=2)
    for name in await names(world):
        await end(world, name, "Succeeded")
    await counted(world, live=1, active=1, succeeded=2)
    (last,) = [pod["metadata"]["name"] for pod in await pods(world) if pod["status"]["phase"] == "Pending"]
    await end(world, last, "Succeeded")
    status = await ended(world, "SuccessCriteriaMet", "Complete")
    assert (status["succeeded"], status.get("active"), status["terminating"]) == (3, None, 0)
    assert status["completionTime"]
    assert [pod["metadata"].get("finalizers") for pod in await pods(world)] == [None] * 3


async def test_without_completions_no_pod_is_made_once_one_has_succeeded(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=3))
    await counted(world, live=3, active=3)
    first, *others = await names(world)
    await end(world, first, "Succeeded")
    await counted(world, live=2, active=2, succeeded=1)
    for name in others:
        await end(world, name, "Failed" if name == others[0] else "Succeeded")
    status = await ended(world, "SuccessCriteriaMet", "Complete")
    assert (status["succeeded"], status["failed"]) == (2, 1)


async def test_without_completions_a_job_that_is_suspended_after_a_success_is_complete(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=2))
    await counted(world, live=2, active=2)
    first, _ = await names(world)
    await end(world, first, "Succeeded")
    await counted(world, live=1, active=1, succeeded=1)
    await world.merge(kinds.JOBS, NAME, {"spec": {"suspend": True}})
    await ended(world, "SuccessCriteriaMet", "Complete")


async def test_an_indexed_job_has_one_pod_for_each_index(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=3, completions=5, completionMode="Indexed"))
    await counted(world, live=3, active=3)
    zero, one, two = await pods(world)
    assert [pod["metadata"]["labels"][INDEX] for pod in (zero, one, two)] == ["0", "1", "2"]
    assert one["metadata"]["annotations"][INDEX] == "1"
    assert one["metadata"]["name"].startswith(f"{NAME}-1-")
    assert one["spec"]["hostname"] == f"{NAME}-1"
    for pod in (zero, two):
        await end(world, pod["metadata"]["name"], "Succeeded")
    await counted(world, live=3, active=3, succeeded=2, completedIndexes="0,2")
    living = [pod for pod in await pods(world) if pod["status"]["phase"] == "Pending"]
    assert [pod["metadata"]["labels"][INDEX] for pod in living] == ["1", "3", "4"]
    for pod in living:
        await end(world, pod["metadata"]["name"], "Succeeded")
    status = await ended(world, "SuccessCriteriaMet", "Complete")
    assert (status["completedIndexes"], status["succeeded"]) == ("0-4", 5)


async def test_an_indexed_job_shrinks_from_its_highest_index(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=4, completions=4, completionMode="Indexed"))
    await counted(world, live=4, active=4)
    living = await pods(world)
    await end(world, living[3]["metadata"]["name"], "Succeeded")
    await counted(world, live=3, completedIndexes="3", succeeded=1)
    await start(world, await bare_node(world), living[2]["metadata"]["name"])
    await world.merge(kinds.JOBS, NAME, {"spec": {"parallelism": 2, "completions": 2}})
    await counted(world, live=2, active=2, failed=None, succeeded=None, completedIndexes=None)
    left = [pod for pod in await pods(world) if pod["status"]["phase"] == "Pending"]
    assert [pod["metadata"]["labels"][INDEX] for pod in left] == ["0", "1"]


async def test_fewer_at_once_of_an_indexed_job_spare_what_runs_not_the_lowest_index(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=2, completions=2, completionMode="Indexed"))
    await counted(world, live=2, active=2)
    _, one = await names(world)
    await start(world, await bare_node(world), one)
    await counted(world, live=2, ready=1)
    await world.merge(kinds.JOBS, NAME, {"spec": {"parallelism": 1}})
    await counted(world, live=1, active=1)
    assert await names(world) == [one]


async def test_a_failed_pod_is_replaced_after_a_while(world: World) -> None:
    await world.create(kinds.JOBS, job(completions=1))
    await counted(world, live=1, active=1)
    (first,) = await names(world)
    await world.delete(kinds.PODS, first)
    await counted(world, live=0, active=None, failed=1)  # a pod that somebody deletes has failed
    await counted(world, live=1, active=1, failed=1)
    assert first not in await names(world)


async def test_a_job_whose_pods_fail_too_often_fails_with_those_that_run(world: World) -> None:
    await world.create(kinds.JOBS, job(parallelism=3, completions=3, backoffLimit=0))
    await counted(world, live=3, active=3)
    first, running, _ = await names(world)
    await start(world, await bare_node(world), running)
    await counted(world, live=3, ready=1)
    await end(world, first, "Failed")
    status = await counted(world, live=0, active=None, terminating=1, failed=3)
    holding = [each["type"] for each in status["conditions"] if each["status"] == "True"]
    assert holding == ["FailureTarget"]  # a pod has yet to stop
    await world.delete(kinds.PODS, running, {"gracePeriodSeconds": 0})
    status = await ended(world, "FailureTarget", "Failed")
    assert {each["reason"] for each in status["conditions"]} == {"BackoffLimitExceeded"}


async def test_a_job_that_others_manage_has_no_pods(world: World) -> None:
    await world.create(kinds.JOBS, job(managedBy="example.com/mine"))
    await world.create(kinds.JOBS, {**job(), "metadata": {"name": "other"}})

    async def has_others() -> bool:
        return bool(await names(world))

    await world.eventually(has_others)
    assert [pod["metadata"]["labels"]["job-name"] for pod in await pods(world)] == ["other"]


async def test_a_deleted_job_orphans_its_pods_unless_asked_otherwise(world: World) -> None:
    await world.create(kinds.JOBS, job(pods={"schedulingGates": [{"name": GATE}]}))
    await counted(world, live=1, active=1)
    await world.delete(kinds.JOBS, NAME)
    await world.gone(kinds.JOBS, NAME)

    async def is_let_go() -> bool:
        (pod,) = await pods(world)
        assert pod["metadata"].keys().isdisjoint({"ownerReferences", "finalizers"})
        return True

    await world.eventually(is_let_go)


async def test_the_pods_of_a_job_go_with_it_when_asked(world: World) -> None:
    await world.create(kinds.JOBS, job())
    await counted(world, live=1, active=1)
    (name,) = await names(world)
    await world.delete(kinds.JOBS, NAME, {"propagationPolicy": "Background"})
    await world.gone(kinds.PODS, name)


@pytest.mark.parametrize(
    ("spec", "change", "field", "why"),
    [
        pytest.param(
            {"completions": 3}, {"completions": 4}, "spec.completions", "field is immutable", id="completions"
        ),
        pytest.param(
            {"completions": 3, "completionMode": "Indexed"},
            {"completions": 4},
            "spec.completions",
            "can only be modified in tandem with spec.parallelism",
            id="completions of an Indexed Job alone",
        ),
        pytest.param(
            {},
            {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
            "spec.template",
            "field is immutable",
            id="the template",
        ),
    ],
)
async def test_what_a_job_may_not_change(world: World, spec: Body, change: Body, field: str, why: str) -> None:
    await world.create(kinds.JOBS, job(parallelism=0, **spec))
    answer = await world.send("PATCH", world.path(kinds.JOBS, NAME), {"spec": change})
    assert answer.status == 422, answer.body
    (cause,) = answer.body["details"]["causes"]
    assert (cause["field"], cause["message"].endswith(why)) == (field, True)
