"""Pools and workers that go: nothing may hang on a finalizer."""

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.workers import ground, queue_servers


@pytest.mark.accept("W20", part="deletion")
@pytest.mark.usefixtures("node")
def test_a_deleted_pool_takes_its_workers_along(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("runs", ground.running_pods("runs"))
    site.make_pool("goes", queues.fill("goes", 3), poolCapacity=3, workerSpec__podTemplate__source__name="runs")
    site.make_pool("stays", queues.fill("stays", 1))
    site.wait_for_status("goes", runningWorkers=3)
    stays = {ground.name_of(pod) for pod in site.wait_for_workers("stays", 1)}
    site.plane.kubectl("-n", site.namespace, "delete", "--timeout=30s", "wp", "goes")  # waits until it is gone
    assert not site.workers("goes")
    assert site.names("stays") == stays


@pytest.mark.accept("W20", part="deletion, and a pool of the same name after it")
def test_a_pool_deleted_and_made_anew_has_new_workers(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("anew", queues.fill("anew", 2))
    old = {pod["metadata"]["uid"] for pod in site.wait_for_workers("anew", 2)}
    site.plane.kubectl("-n", site.namespace, "delete", "--timeout=30s", "wp", "anew")
    site.make_pool("anew", queues.fill("anew", 3))
    new = {pod["metadata"]["uid"] for pod in site.wait_for_workers("anew", 3)}
    assert not old & new


@pytest.mark.accept("W20", part="a pool whose finalizer was taken off by hand")
def test_workers_of_a_pool_whose_finalizer_was_taken_off_by_hand_do_not_hang(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    """The pool is paused by its class first, so that nobody puts the finalizer back before the pool is gone."""
    site.make_pool("torn", queues.fill("torn", 2))
    site.wait_for_workers("torn", 2)
    site.change("torn", workerPoolClassName="nobody")
    before = len(queues.asked("torn"))
    site.make_pool("beat", queues.fill("beat", 0))
    waiting.eventually(lambda: len(queues.asked("beat")) >= 2)
    assert len(queues.asked("torn")) <= before + 1
    site.plane.api.merge(site.pool_path("torn"), {"metadata": {"finalizers": None}})
    site.plane.api.delete(site.pool_path("torn"))
    waiting.eventually(lambda: site.is_gone("torn"))
    # The garbage collector does this too, but it may take half a minute to learn of a new kind.
    site.plane.kubectl("-n", site.namespace, "delete", "--wait=false", "pods", "-l", f"{keys.WORKER_POOL}=torn")
    site.wait_for_workers("torn", 0)


@pytest.mark.accept("W20", part="a worker that somebody deletes")
@pytest.mark.usefixtures("node")
def test_a_worker_that_somebody_deletes_does_not_hang(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("runs", ground.running_pods("runs"))
    site.make_pool("loses", queues.fill("loses", 2), poolCapacity=2, workerSpec__podTemplate__source__name="runs")
    site.wait_for_status("loses", runningWorkers=2)
    queues.fill("loses", 0)
    site.wait_for_status("loses", queueSize=0)
    victim, other = sorted(site.names("loses"))
    site.plane.kubectl("-n", site.namespace, "delete", "--timeout=30s", "pod", victim)
    site.wait_for_status("loses", workers=1, currentCapacity=1)
    assert site.names("loses") == {other}
