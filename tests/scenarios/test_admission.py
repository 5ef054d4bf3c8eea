"""Elastic Jobs under quota, played in virtual time: what they are given as they come, grow, shrink, fail and end.

That quota is kept is seen at every change (`admission_audit`), whatever else a test looks at.
"""

import asyncio

import pytest

from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import World, cycles, runtime

pytestmark = pytest.mark.simulated


@simulated
async def test_a_job_runs_within_quota_and_the_next_waits_for_it() -> None:
    world = World(job_seconds=60)
    world.add_queue(cpu=2)
    world.add_job("first", pods=2)
    await asyncio.sleep(2)
    world.add_job("second", pods=1)
    async with runtime(world):
        await asyncio.sleep(10)
        assert world.running("first") == 2
        assert world.job("second")["spec"]["suspend"]
        assert world.running("second") == 0
        await asyncio.sleep(80)
        assert world.running("second") == 1
        assert world.holds("Finished", "first")
    assert world.most_running["default"] == 2


# Growing


@pytest.mark.accept("E1", part="Jobs")
@pytest.mark.accept("E4", part="Jobs")
@simulated
async def test_a_resized_job_runs_on_and_its_usage_follows_its_size() -> None:
    world = World()
    world.add_queue(cpu=10)
    world.add_job(pods=2, completions=None)
    async with runtime(world):
        for size in (2, 6, 3, 10, 1, 4):
            world.resize("job", size)
            await asyncio.sleep(10)
            assert (world.running(), world.used(), world.granted(), world.wanted()) == (size, size, size, size)
            assert not world.holds("ResizeRequested")
            assert world.slices() == []
        assert world.suspended["job"] == 0
        assert not world.holds("Evicted")
        told = world.events("job")
        assert "Evicted" not in told
        assert [each.get("count", 1) for each in told["Admitted"]] == [1]


@pytest.mark.accept("E17", part="partial scale-up")
@pytest.mark.accept("E3", part="Jobs: one slice for each new replica")
@pytest.mark.accept("E4", part="Jobs")
@simulated
async def test_a_job_grows_in_part() -> None:
    world = World()
    world.add_queue(cpu=3)
    world.add_job("job", pods=1, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        assert world.running() == 1
        world.resize("job", 5)
        await asyncio.sleep(10)
        assert world.running() == 3
        assert world.gated() == 2
        assert len(world.slices()) == 2
        assert world.granted() == 3
        resize = world.condition("ResizeRequested")
        assert resize is not None
        assert (resize["status"], resize["reason"]) == ("True", "ScalingUp")
        assert resize["message"] == "main: 3 of 5 pods are granted, 2 wait for quota"
        world.resize("job", 2)
        await asyncio.sleep(10)
        assert (world.running(), world.gated(), len(world.slices()), world.granted()) == (2, 0, 0, 2)
        assert not world.holds("ResizeRequested")
        told = [event["message"] for event in world.events("job")["Resized"]]
        assert told == ["granted: main 1 → 3", "granted: main 3 → 2"]
        world.delete(kinds.JOBS, "job")
        await asyncio.sleep(10)
        assert world.find_workload() is None


@pytest.mark.accept("E17", part="partial scale-up")
@simulated
async def test_waiting_growth_is_given_as_quota_becomes_free() -> None:
    world = World()
    world.add_queue(cpu=4)
    world.add_job("other", pods=2, completions=None)
    world.add_job("job", pods=1, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", 4)
        await asyncio.sleep(10)
        assert (world.running(), len(world.slices())) == (2, 2)
        world.resize("other", 1)
        await asyncio.sleep(2)
        assert (world.running(), len(world.slices())) == (3, 1)
        world.delete(kinds.JOBS, "other")
        await asyncio.sleep(5)
        assert (world.running(), len(world.slices())) == (4, 0)
        assert not world.holds("ResizeRequested")


@pytest.mark.accept("E9", part="Jobs")
@pytest.mark.accept("E3", part="Jobs: the same flavor, queue and template")
@simulated
async def test_a_job_grows_on_the_flavor_it_has_and_waits_where_that_is_full() -> None:
    world = World()
    world.add_flavor("spot")
    world.add_queue(cpu={"standard": 3, "spot": 10})
    world.add_job(pods=2, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", 5)
        await asyncio.sleep(10)
        assert world.running() == 3
        (assigned,) = world.workload()["status"]["admission"]["podSetAssignments"]
        assert (assigned["count"], assigned["flavors"]) == (3, {"cpu": "standard"})
        assert _flavors(world) == {"cpu=standard", None}
        for part in world.slices():
            assert part["spec"]["queueName"] == "team"
            assert part["spec"]["podSets"][0]["requests"] == world.workload()["spec"]["podSets"][0]["requests"]
        assert world.holds("ResizeRequested")
        world.set_quota(standard=4, spot=10)
        await asyncio.sleep(10)
        assert world.running() == 4
        assert world.granted() == 4


@pytest.mark.accept("E9", part="Jobs that shrank to nothing")
@simulated
async def test_a_job_that_shrank_to_nothing_grows_again_on_any_flavor() -> None:
    world = World()
    world.add_flavor("spot")
    world.add_queue(cpu={"standard": 3, "spot": 10})
    world.add_job(pods=2, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", 0)
        await asyncio.sleep(10)
        world.add_job("other", pods=3, completions=None)
        await asyncio.sleep(10)
        assert world.running("other") == 3
        world.resize("job", 4)
        await asyncio.sleep(10)
        assert (world.running(), world.running("other")) == (4, 3)
        (assigned,) = world.workload()["status"]["admission"]["podSetAssignments"]
        assert (assigned["count"], assigned["flavors"]) == (4, {"cpu": "spot"})
        assert _flavors(world) == {"cpu=spot"}


@pytest.mark.accept("E7", part="flavors reach the pods")
@simulated
async def test_opened_pods_are_bound_to_the_nodes_of_their_flavor() -> None:
    world = World()
    tolerated = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    world.add_flavor("spot", nodeLabels={"kind": "spot"}, tolerations=[tolerated])
    world.add_queue(cpu={"spot": 2})
    world.add_job(pods=1)
    async with runtime(world):
        await asyncio.sleep(10)
        (pod,) = world.pods()
        assert pod["spec"]["nodeSelector"] == {"kind": "spot"}
        assert tolerated in pod["spec"]["tolerations"]
        assert len(pod["spec"]["tolerations"]) == 3  # the two that every pod has, too


# Shrinking


@pytest.mark.accept("E5", part="Jobs")
@simulated
async def test_a_shrink_is_written_in_place_and_wakes_waiting_work_at_once() -> None:
    world = World()
    world.stop_seconds = 25.0
    world.add_queue(cpu=4)
    world.add_job(pods=4, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.add_job("next", pods=2)
        await asyncio.sleep(5)
        assert world.job("next")["spec"]["suspend"]
        before = world.workload()["metadata"]["uid"]
        world.resize("job", 2)
        await asyncio.sleep(1)
        assert not world.job("next")["spec"]["suspend"]
        assert sum("deletionTimestamp" in pod["metadata"] for pod in world.pods()) == 2  # still ending
        assert world.workload()["metadata"]["uid"] == before
        assert (world.granted(), world.wanted()) == (2, 2)
        assert world.suspended["job"] == 0
        assert not world.holds("ResizeRequested")
        await asyncio.sleep(5)
        assert world.running("next") == 2


@pytest.mark.accept("E6")
@simulated
async def test_what_a_shrink_gave_up_may_be_gone_when_the_job_grows_again() -> None:
    world = World()
    world.add_queue(cpu=5)
    world.add_job(pods=5, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.add_job("next", pods=2, completions=None)
        await asyncio.sleep(5)
        world.resize("job", 2)
        await asyncio.sleep(5)
        assert world.running("next") == 2
        made = _made_slices(world)
        world.resize("job", 5)
        await asyncio.sleep(5)
        assert len(made) == 3
        assert (world.running(), world.gated(), len(world.slices())) == (3, 2, 2)
        assert world.running("next") == 2


@pytest.mark.accept("E13", part="rapid changes converge")
@simulated
async def test_rapid_changes_of_size_converge_and_never_cost_what_the_job_keeps() -> None:
    world = World()
    world.add_queue(cpu=6)
    world.add_job(pods=3, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.add_job("next", pods=4)  # it would take what the job gives up, and does not fit
        kept = {pod["metadata"]["uid"] for pod in world.pods()}
        least = []
        for size in (6, 3, 5, 3, 6, 4, 3, 6, 3, 5):
            world.resize("job", size)
            for _ in range(3):
                await asyncio.sleep(0.03)
                least.append((world.granted(), world.used()))
        await asyncio.sleep(15)
        assert min(least) == (3, 3)
        assert (world.running(), world.granted(), world.used(), world.slices()) == (5, 5, 5, [])
        assert kept <= {pod["metadata"]["uid"] for pod in world.pods()}
        assert world.suspended["job"] == 0


@pytest.mark.accept("E13", part="slices of one second are told apart")
@simulated
async def test_slices_of_one_second_are_admitted_one_by_one_and_never_wait_for_each_other() -> None:
    world = World()
    world.add_queue(cpu=4)
    world.add_job("job", pods=1, completions=None)
    world.add_job("other", pods=1, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", 4)
        world.resize("other", 4)
        await asyncio.sleep(10)
        assert world.running("job") + world.running("other") == 4
        assert len(world.slices("job")) + len(world.slices("other")) == 4


# Pods


@pytest.mark.accept("E7", part="recreated pods pass again")
@pytest.mark.accept("E14", part="terminating pods keep their place")
@simulated
async def test_a_pod_that_is_deleted_by_hand_is_replaced_once_it_is_gone() -> None:
    world = World()
    world.stop_seconds = 20.0
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=None, backoffLimit=100)
    async with runtime(world):
        await asyncio.sleep(10)
        first = world.pods()[0]["metadata"]["name"]
        world.delete(kinds.PODS, first)
        await asyncio.sleep(15)
        assert (world.running(), world.gated()) == (1, 1)
        await asyncio.sleep(15)
        assert (world.running(), world.gated()) == (2, 0)
        assert first not in {pod["metadata"]["name"] for pod in world.pods()}
        assert (world.granted(), world.suspended["job"]) == (2, 0)


@pytest.mark.accept("E7", part="pods of lost nodes")
@simulated
async def test_pods_of_a_lost_node_stop_counting_after_their_grace() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=None, backoffLimit=100)
    async with runtime(world):
        await asyncio.sleep(10)
        world.kubelets.fail("node")
        await asyncio.sleep(60)
        world.add_node("spare")
        for pod in world.pods():
            world.delete(kinds.PODS, pod["metadata"]["name"])
        await asyncio.sleep(25)
        assert (world.running(), world.gated()) == (0, 2)  # their grace is not over
        await asyncio.sleep(60)
        assert (world.running(), world.gated()) == (2, 0)
        assert {pod["spec"]["nodeName"] for pod in world.pods() if "deletionTimestamp" not in pod["metadata"]} == {
            "spare"
        }
        assert world.granted() == 2


@pytest.mark.accept("E14", part="completions beyond parallelism")
@simulated
async def test_pods_that_succeed_make_room_for_the_next_of_their_job() -> None:
    world = World(job_seconds=20)
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=7)
    async with runtime(world):
        await asyncio.sleep(15)
        assert world.running() == 2
        await asyncio.sleep(180)
        assert world.job()["status"]["succeeded"] == 7
        assert world.holds("Finished")
        assert world.used() == 0
    assert world.most_running["default"] == 2


@pytest.mark.accept("E14", part="what a job does not need again is free for others")
@simulated
async def test_the_last_pods_of_a_job_give_up_what_is_not_needed_any_more() -> None:
    world = World()
    world.add_queue(cpu=3)
    world.add_job(pods=3, completions=3)
    async with runtime(world):
        await asyncio.sleep(10)
        world.add_job("next", pods=1)
        await asyncio.sleep(5)
        world.end(world.pods()[0])
        await asyncio.sleep(5)
        assert world.running() == 2
        assert world.granted() == 2
        assert world.running("next") == 1


@pytest.mark.accept("E14", part="failed pods")
@simulated
async def test_pods_that_fail_free_their_place_for_the_pods_that_replace_them() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=None, backoffLimit=10)
    async with runtime(world):
        await asyncio.sleep(10)
        for _ in range(3):
            running = [pod for pod in world.pods() if pod["status"]["phase"] == "Running"]
            world.end(running[0], exit_code=1)
            await asyncio.sleep(90)
            assert (world.running(), world.gated(), world.granted()) == (2, 0, 2)


@pytest.mark.accept("E14", part="a Job that fails gives everything back")
@simulated
async def test_a_job_that_fails_gives_its_quota_back() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=None, backoffLimit=0)
    async with runtime(world):
        await asyncio.sleep(10)
        world.add_job("next", pods=2)
        await asyncio.sleep(5)
        world.end(world.pods()[0], exit_code=1)
        await asyncio.sleep(10)
        finished = world.condition("Finished")
        assert finished is not None
        assert finished["reason"] == "Failed"
        assert world.running("next") == 2


@pytest.mark.accept("E14", part="evicted slices")
@simulated
async def test_slices_of_an_evicted_job_grant_nothing() -> None:
    world = World()
    world.stop_seconds = 20.0
    world.add_queue(cpu=3)
    world.add_job(pods=2, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", 6)
        await asyncio.sleep(5)
        assert (world.running(), len(world.slices())) == (3, 3)
        world.deactivate("job")
        await asyncio.sleep(5)
        assert world.slices() == []
        assert world.used() == 3  # its pods end
        assert world.job()["spec"]["suspend"]
        await asyncio.sleep(30)
        assert (world.used(), world.running(), world.gated()) == (0, 0, 0)


# The feature gate


@pytest.mark.accept("E12")
@simulated
async def test_without_the_feature_gate_growth_suspends_and_requeues() -> None:
    world = World()
    world.add_queue(cpu=4)
    world.add_job(pods=3, completions=None)
    async with runtime(world, elastic=False):
        await asyncio.sleep(10)
        world.resize("job", 2)  # a shrink is done in place
        await asyncio.sleep(10)
        assert (world.running(), world.granted(), world.suspended["job"]) == (2, 2, 0)
        world.resize("job", 4)
        await asyncio.sleep(20)
        assert world.suspended["job"] == 1
        assert (world.running(), world.granted()) == (4, 4)
        assert "Evicted" in world.events("job")
        world.resize("job", 5)
        await asyncio.sleep(20)
        assert (world.running(), world.granted()) == (0, 0)
        assert world.slices() == []
        world.resize("job", 3)
        await asyncio.sleep(10)
        assert world.running() == 3


# Pods that do not start


@pytest.mark.accept("E18", part="eviction, pause and the next flavor")
@simulated
async def test_a_job_whose_pods_do_not_start_gives_its_quota_back_and_tries_the_next_flavor() -> None:
    world = World()
    world.add_flavor("spot")
    world.add_queue(cpu={"standard": 2, "spot": 2})
    world.never_ready.add("job")
    world.add_job(pods=2)
    async with runtime(world, timeout_minutes=5):
        await asyncio.sleep(290)
        assert world.granted() == 2
        await asyncio.sleep(20)
        assert world.granted() == 0
        assert world.job()["spec"]["suspend"]
        assert world.workload()["status"]["requeue"]["flavorsTried"] == ["standard"]
        assert "did not start within 5 minutes" in world.events("job")["Evicted"][0]["message"]
        world.never_ready.clear()
        world.add_job("other", pods=2)  # nobody waits for the one that pauses
        await asyncio.sleep(20)
        assert world.running("other") == 2
        assert world.granted() == 0
        await asyncio.sleep(60)
        assert world.running() == 2
        assert _flavors(world) == {"cpu=spot"}


@pytest.mark.accept("E18", part="pauses grow")
@simulated
async def test_a_job_whose_pods_never_start_is_tried_less_and_less_often() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.never_ready.add("job")
    world.add_job(pods=1)
    async with runtime(world, timeout_minutes=1) as replica:
        await asyncio.sleep(6 * 3600)
        assert 8 <= world.workload()["status"]["requeue"]["count"] <= 12
        assert cycles(replica) < 300  # and looked at only when it is time to
        world.never_ready.clear()
        await asyncio.sleep(2 * 3600)
        assert world.running() == 1


@pytest.mark.accept("E18", part="only until its pods were Ready once")
@simulated
async def test_a_job_whose_pods_were_ready_once_may_fail_to_start_them_again() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=None, backoffLimit=100)
    async with runtime(world, timeout_minutes=5):
        await asyncio.sleep(10)
        world.never_ready.add("job")
        world.delete(kinds.PODS, world.pods()[0]["metadata"]["name"])
        await asyncio.sleep(3600)
        assert world.suspended["job"] == 0
        assert world.running() >= 1


@pytest.mark.accept("E18", part="a resize withdraws pods and never suspends")
@simulated
async def test_growth_whose_pods_do_not_start_is_withdrawn_and_tried_again_later() -> None:
    world = World()
    world.add_queue(cpu=4)
    world.add_job(pods=2, completions=None, backoffLimit=1000)
    async with runtime(world, timeout_minutes=5):
        await asyncio.sleep(10)
        old = {pod["metadata"]["uid"] for pod in world.pods()}
        world.never_ready.add("job")
        world.resize("job", 4)
        await asyncio.sleep(290)
        assert (world.granted(), world.suspended["job"]) == (4, 0)
        await asyncio.sleep(20)
        assert (world.granted(), world.used()) == (2, 2)
        world.add_job("other", pods=2, completions=None)
        await asyncio.sleep(20)
        assert world.running("other") == 2
        assert old <= {pod["metadata"]["uid"] for pod in world.pods()}
        world.never_ready.clear()
        world.delete(kinds.JOBS, "other")
        await asyncio.sleep(300)
        assert (world.running(), world.granted(), world.suspended["job"]) == (4, 4, 0)
        assert "requeue" not in world.workload()["status"]


# Indexed Jobs


@pytest.mark.accept("E21", part="places in the order of indexes")
@simulated
async def test_indexed_jobs_get_places_from_the_lowest_index() -> None:
    world = World()
    world.add_queue(cpu=2)
    world.add_job(pods=2, completions=2, completionMode="Indexed")
    async with runtime(world):
        await asyncio.sleep(10)
        world.patch(kinds.JOBS, "job", {"spec": {"parallelism": 12, "completions": 12}})
        await asyncio.sleep(5)
        world.set_quota(standard=4)
        await asyncio.sleep(5)
        assert _indexes(world, is_gated=False) == [0, 1, 2, 3]
        world.set_quota(standard=11)
        await asyncio.sleep(5)
        assert _indexes(world, is_gated=True) == [11]
        world.patch(kinds.JOBS, "job", {"spec": {"parallelism": 3, "completions": 3}})
        await asyncio.sleep(5)
        assert _indexes(world, is_gated=False) == [0, 1, 2]
        assert (world.granted(), world.suspended["job"]) == (3, 0)


@pytest.mark.accept("E21", part="size by indexes")
@simulated
async def test_a_shrunk_indexed_job_is_counted_by_the_indexes_that_it_still_wants() -> None:
    world = World()
    world.add_queue(cpu=4)
    world.add_job(pods=4, completions=4, completionMode="Indexed")
    async with runtime(world):
        await asyncio.sleep(10)
        last = next(pod for pod in world.pods() if pod["metadata"]["name"].startswith("job-3-"))
        world.end(last)
        await asyncio.sleep(5)
        assert (world.granted(), world.running()) == (3, 3)
        world.patch(kinds.JOBS, "job", {"spec": {"parallelism": 3, "completions": 3}})
        await asyncio.sleep(5)
        assert (world.running(), world.granted(), world.used()) == (3, 3, 3)  # index 3 succeeded, and is not wanted


def _made_slices(world: World) -> list[str]:
    """Return a list that gets the name of each slice that is made from now on."""
    made: list[str] = []
    world.on_workload(
        lambda body: made.append(body["metadata"]["name"]) if "-main-" in body["metadata"]["name"] else None
    )
    return made


def _flavors(world: World) -> set[str | None]:
    """Return the flavors that are stamped on pods of the Job; None: on one there is none."""
    return {(pod["metadata"].get("annotations") or {}).get("sluice.dev/flavors") for pod in world.pods()}


def _indexes(world: World, *, is_gated: bool) -> list[int]:
    pods = [each for each in world.pods() if "deletionTimestamp" not in each["metadata"]]
    chosen = [each for each in pods if bool(each["spec"].get("schedulingGates")) == is_gated]
    label = "batch.kubernetes.io/job-completion-index"
    return sorted(int(each["metadata"]["labels"][label]) for each in chosen)
