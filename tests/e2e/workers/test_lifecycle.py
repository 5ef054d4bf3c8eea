"""What a pool does through its life: it follows its queue, keeps its bounds, cleans up, pauses and shuts down."""

import pytest
from prometheus_client import parser

from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, ground, queue_servers

POLLS = 2
"""So many more readings of a queue are waited for before "nothing happened" is believed."""


def wait_for_polls(queues: queue_servers.Queues, name: str, more: int = POLLS) -> None:
    """Wait until a queue was asked so many times more."""
    before = len(queues.asked(name))
    waiting.eventually(lambda: len(queues.asked(name)) >= before + more)


@pytest.mark.accept("W8", "W10", "W11")
def test_an_active_pool_follows_its_queue_and_its_status_says_all_seven_things(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    endpoint = queues.fill("follows", 2)
    site.make_pool("follows", endpoint, poolCapacity=5)
    site.wait_for_workers("follows", 2)
    queues.fill("follows", 4)
    site.wait_for_workers("follows", 4)
    want = {
        "currentCapacity": 1,
        "failedWorkers": 0,
        "managedBy": conftest.SHARED_IDENTITY,
        "pendingWorkers": 4,
        "queueEndpoint": endpoint,
        "queueSize": 4,
        "runningWorkers": 0,
    }
    site.wait_for_status("follows", **want)
    moved = queues.fill("moved", 4)
    site.change("follows", queue={"source": {"endpoint": moved}})
    site.wait_for_status("follows", **{**want, "queueEndpoint": moved})
    wait_for_polls(queues, "moved")
    assert len(site.workers("follows")) == 4, "as many wait as there are jobs"


@pytest.mark.accept("W11")
def test_a_changed_pool_is_polled_at_once_however_long_its_interval(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_pool("rare", queues.fill("rare", 3), poolCapacity=2, queue__interval="23:00:00")
    site.wait_for_workers("rare", 2)
    assert len(queues.asked("rare")) == 1
    site.change("rare", poolCapacity=3)
    site.wait_for_workers("rare", 3)
    assert len(queues.asked("rare")) == 2


@pytest.mark.accept("W5")
def test_capacity_lowered_below_the_workers_kills_nobody(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("lowered", queues.fill("lowered", 4), poolCapacity=4)
    before = {ground.name_of(pod) for pod in site.wait_for_workers("lowered", 4)}
    for capacity in (2, 0):
        site.change("lowered", poolCapacity=capacity)
        queues.fill("lowered", 9 - capacity)
        site.wait_for_status("lowered", currentCapacity=0, queueSize=9 - capacity, workers=4)
        wait_for_polls(queues, "lowered")
        assert site.names("lowered") == before
        assert site.condition("lowered", "AtCapacity")["status"] == "True"


@pytest.mark.accept("W8")
def test_a_paused_pool_reads_on_and_creates_nothing(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("paused", queues.fill("paused", 2))
    before = {ground.name_of(pod) for pod in site.wait_for_workers("paused", 2)}
    site.change("paused", status="Paused")
    queues.fill("paused", 7)
    site.wait_for_status("paused", queueSize=7)
    wait_for_polls(queues, "paused")
    assert site.names("paused") == before
    site.change("paused", status="Active")
    assert before < {ground.name_of(pod) for pod in site.wait_for_workers("paused", 7)}


@pytest.mark.accept("W8")
@pytest.mark.usefixtures("node")
def test_a_pool_that_is_shut_down_asks_nothing_and_has_no_workers(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_source("runs", ground.running_pods("runs"))
    site.make_pool("shut", queues.fill("shut", 3), poolCapacity=3, workerSpec__podTemplate__source__name="runs")
    site.wait_for_status("shut", runningWorkers=3)
    site.change("shut", status="Shutdown")
    site.wait_for_workers("shut", 0)
    site.wait_for_status("shut", workers=0, currentCapacity=3, runningWorkers=0)
    asked = len(queues.asked("shut"))
    site.make_pool("beat", queues.fill("beat", 0))
    wait_for_polls(queues, "beat")
    assert len(queues.asked("shut")) == asked
    site.change("shut", status="Active")
    site.wait_for_workers("shut", 3)


@pytest.mark.accept("W14")
def test_workers_that_ended_are_removed_at_the_next_poll(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("ends", queues.fill("ends", 3), poolCapacity=3)
    done, broken, waits = site.wait_for_workers("ends", 3)
    queues.fill("ends", 1)
    site.wait_for_status("ends", queueSize=1)
    site.end(done, "Succeeded")
    site.end(broken, "Failed")
    site.wait_for_workers("ends", 1)
    assert site.names("ends") == {ground.name_of(waits)}
    site.wait_for_status("ends", failedWorkers=0, workers=1, currentCapacity=2)


@pytest.mark.accept("W14")
def test_failed_workers_may_be_retained_and_take_their_place(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("keeps", queues.fill("keeps", 3), poolCapacity=3, workerSpec__retainFailedWorkers=True)
    done, broken, waits = site.wait_for_workers("keeps", 3)
    queues.fill("keeps", 1)
    site.wait_for_status("keeps", queueSize=1)
    site.end(done, "Succeeded")
    site.end(broken, "Failed")
    site.wait_for_workers("keeps", 2)
    site.wait_for_status("keeps", failedWorkers=1, pendingWorkers=1, workers=2, currentCapacity=1)
    queues.fill("keeps", 9)
    site.wait_for_workers("keeps", 3)
    wait_for_polls(queues, "keeps")
    assert {ground.name_of(broken), ground.name_of(waits)} < site.names("keeps")
    assert len(site.names("keeps")) == 3, "the failed one still takes a place"
    site.change("keeps", workerSpec={"retainFailedWorkers": False})
    waiting.eventually(lambda: ground.name_of(broken) not in site.names("keeps"))


@pytest.mark.accept("W14")
@pytest.mark.usefixtures("node")
def test_workers_come_work_leave_and_come_again(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("brief", ground.running_pods("brief", run_for="1s"))
    site.make_pool("brief", queues.fill("brief", 5), poolCapacity=2, workerSpec__podTemplate__source__name="brief")
    seen: set[str] = set()

    def enough() -> bool:
        there = site.names("brief")
        assert len(there) <= 2, f"more than the pool may have: {there}"
        seen.update(there)
        return len(seen) >= 6

    waiting.eventually(enough, within_seconds=60)
    queues.fill("brief", 0)
    site.wait_for_workers("brief", 0)
    site.wait_for_status("brief", queueSize=0, runningWorkers=0, workers=0, currentCapacity=2)


def test_metrics_of_a_pool_come_and_go_with_it(
    site: ground.Ground, queues: queue_servers.Queues, operator: replicas.Replica
) -> None:
    site.make_pool("counted", queues.fill("counted", 3), poolCapacity=4)
    site.wait_for_workers("counted", 3)

    def samples() -> list[tuple[str, str, float]]:
        families = parser.text_string_to_metric_families(operator.get("/metrics")[1])
        found = [sample for family in families for sample in family.samples if site.namespace in sample.labels.values()]
        return [(sample.name, sample.labels.get("phase", ""), sample.value) for sample in found]

    def told() -> bool:
        want = {
            ("sluice_worker_pool_capacity", "", 1.0),
            ("sluice_worker_pool_queue_size", "", 3.0),
            ("sluice_worker_pool_workers", "Running", 0.0),
            ("sluice_worker_pool_workers", "Pending", 3.0),
            ("sluice_worker_pool_workers", "Failed", 0.0),
        }
        assert want <= set(samples()), samples()
        return True

    waiting.eventually(told)
    site.plane.api.delete(site.pool_path("counted"))
    waiting.eventually(lambda: site.is_gone("counted"))
    waiting.eventually(lambda: not samples())
