"""Queued jobs while the runtime is down, is killed, or another replica takes over: nothing is lost or counted twice."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from autoscaler.api import keys
from tests.e2e import rays, replicas, waiting
from tests.e2e.admission import conftest, history, usage
from tests.e2e.admission.ground import Ground, gates_of, uid_of
from tests.e2e.admission.history import Event

ONCE_ADMITTED = [True, False]
"""Made suspended, admitted, and never suspended again."""
LEASES = "/apis/coordination.k8s.io/v1/leases"
IDENTITY = "pair"


class Pair:
    """Two replicas; whoever acts can be killed at a certain moment, and another is started in its place."""

    def __init__(self, site: Ground, start: conftest.Start) -> None:
        self._site = site
        self._start = start
        self._names = iter(f"pod-{number}" for number in range(100))
        self._running: dict[str, replicas.Replica] = {}
        self._revive()

    @contextlib.contextmanager
    def killing(self, moment: Callable[[Event], bool]) -> Iterator[None]:
        """Kill whoever acts as soon as something happens that is such a moment."""
        name = waiting.eventually(self._acting)
        assert name is not None
        before, given_up = max(event.version for event in self._site.seen()), threading.Event()

        def watch() -> None:
            while not given_up.wait(0.002):
                if any(event.version > before and moment(event) for event in self._site.seen()):
                    self._running[name].send(signal.SIGKILL)
                    return

        thread = threading.Thread(target=watch, name="killer")
        thread.start()
        try:
            yield
            waiting.eventually(lambda: self._running[name].process.poll() is not None)
        finally:
            given_up.set()
            thread.join()
        del self._running[name]
        self._revive()

    def _revive(self) -> None:
        while len(self._running) < 2:
            name = next(self._names)
            self._running[name] = self._start(IDENTITY, "--pod-name", name)

    def _acting(self) -> str | None:
        leases = self._site.api.get(LEASES)["items"]
        holders = [lease["spec"].get("holderIdentity") or "" for lease in leases]
        return next((name for name in self._running if any(f"{IDENTITY}_{name}_" in each for each in holders)), None)


@pytest.mark.accept("E7", part="jobs that are made while the runtime is down stay suspended, and their pods gated")
@pytest.mark.accept("E15", part="the runtime was down when real jobs were made")
def test_jobs_that_are_made_while_the_runtime_is_down_wait_for_it_gated(alone: Ground, start: conftest.Start) -> None:
    queue = alone.add_queue("3")
    ray, job = alone.make_ray("ray", queue, rays.group(cpu="1")), alone.make_job("job", queue)
    alone.change("jobs", "job", suspend=False)  # somebody is impatient
    alone.change("rayclusters", "ray", suspend=False)
    waiting.eventually(lambda: len(alone.pods(ray)) == 2 and len(alone.pods(job)) == 1)
    assert all(keys.ADMISSION_GATE in gates_of(pod) for pod in (*alone.pods(ray), *alone.pods(job)))
    assert alone.workloads() == []

    replicas.ready(start("late"))
    alone.wait_for_grant(ray, head=1, small=1)
    alone.wait_for_grant(job, main=1)
    alone.wait_for_running(ray, 2)
    alone.wait_for_running(job, 1)
    assert alone.suspensions(job)[-1] is False


def a_slice_is_made(event: Event) -> bool:
    return event.kind == "Workload" and history.parent_of(event.object) is not None


def a_slice_is_folded(event: Event) -> bool:
    return event.kind == "Workload" and bool(usage.folded_of(event.object))


def a_pod_is_recorded(event: Event) -> bool:
    return event.kind == "Workload" and bool(usage.recorded_of(event.object))


@pytest.mark.accept("E8", part="the runtime is killed in the middle of growth of a real Job")
@pytest.mark.accept("E15", part="the runtime is killed before it opens gates that it recorded")
def test_a_job_grows_to_the_same_size_though_whoever_acts_is_killed_on_the_way(
    alone: Ground, start: conftest.Start
) -> None:
    queue = alone.add_queue("13")
    pair = Pair(alone, start)
    job = alone.make_job("job", queue, pods=1, completions=50)
    alone.wait_for_grant(job, main=1)
    alone.wait_for_running(job, 1)
    for size, moment in ((5, a_slice_is_made), (9, a_slice_is_folded), (20, a_pod_is_recorded)):
        with pair.killing(moment):
            alone.change("jobs", "job", parallelism=size)
        alone.wait_for_grant(job, main=min(13, size))
        alone.wait_for_running(job, min(13, size))
    waiting.eventually(lambda: len(alone.slices(job)) == 7)
    alone.wait_for_usage(queue, usual="13")
    assert alone.suspensions(job) == ONCE_ADMITTED


def somebody_is_evicted(event: Event) -> bool:
    return event.kind == "Workload" and usage.holds(event.object, "Evicted")


@pytest.mark.accept("E10", part="a displacement that one leader began and the next one ends")
def test_a_displacement_is_ended_by_the_next_leader(alone: Ground, start: conftest.Start) -> None:
    queue = alone.add_queue("3", preemption={"withinClusterQueue": "LowerPriority"})
    pair = Pair(alone, start)
    low, spared = alone.make_job("low", queue, pods=2), alone.make_job("spared", queue, priority=alone.add_priority(10))
    alone.wait_for_grant(low, main=2)
    alone.wait_for_grant(spared, main=1)
    held = alone.wait_for_running(low, 2)[0]
    alone.wait_for_running(spared, 1)
    alone.hold(held)
    with pair.killing(somebody_is_evicted):
        high = alone.make_job("high", queue, pods=2, priority=alone.add_priority(1000))
    waiting.eventually(lambda: [uid_of(pod) for pod in alone.pods(low)] == [uid_of(held)])
    quick = alone.make_job("quick", queue)
    alone.await_handled()
    assert alone.workload(high)["status"]["claim"]["clusterQueue"] == queue
    assert alone.granted(low) == {"main": 2}
    assert alone.granted(high) == alone.granted(quick) == {}

    alone.hold(held, is_held=False)
    alone.wait_for_grant(high, main=2)
    alone.wait_for_running(high, 2)
    alone.await_handled()
    assert "claim" not in alone.workload(high)["status"]
    assert alone.granted(low) == alone.granted(quick) == {}
    assert alone.suspensions(low) == [*ONCE_ADMITTED, True]
    assert alone.suspensions(spared) == alone.suspensions(high) == ONCE_ADMITTED
    alone.api.delete(alone.path("jobs", "quick"))  # the quota of the first pod that ends would be enough for it
    alone.await_handled()
    for pod in alone.wait_for_running(high, 2):
        alone.end(pod)
    alone.wait_for_grant(low, main=2)
