"""A watch that lags behind: what was created must not be created again."""

import signal
from pathlib import Path

import pytest

from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, gateway, ground, queue_servers
from tools.local.plane import Plane


def wait_for_polls(queues: queue_servers.Queues, name: str, more: int = 2) -> None:
    before = len(queues.asked(name))
    waiting.eventually(lambda: len(queues.asked(name)) >= before + more)


@pytest.mark.accept("W18")
def test_a_watch_of_pods_that_says_nothing_leads_to_no_second_worker(
    served: Plane, alone: ground.Ground, queues: queue_servers.Queues, start: conftest.Start, tmp_path: Path
) -> None:
    with gateway.Gateway(served) as between:
        config = between.kubeconfig(tmp_path)
        first = replicas.ready(start("first", alone.namespace, config=config))
        between.freeze_pods()
        alone.make_pool("stale", queues.fill("stale", 3))
        alone.wait_for_workers("stale", 3)
        wait_for_polls(queues, "stale")
        queues.fill("stale", 5)
        alone.wait_for_workers("stale", 5)
        wait_for_polls(queues, "stale")
        before = alone.names("stale")
        assert len(before) == 5

        # Whoever comes next is shown no pod at all.
        first.send(signal.SIGKILL)
        first.wait()
        second = start("second", alone.namespace, config=config)
        alone.wait_for_status("stale", managedBy="second", pendingWorkers=5, queueSize=5)
        wait_for_polls(queues, "stale")
        assert alone.names("stale") == before

        between.thaw_pods()
        queues.fill("stale", 6)
        alone.wait_for_workers("stale", 6)
        wait_for_polls(queues, "stale")
        assert before < alone.names("stale")
        assert len(alone.names("stale")) == 6
        assert second.process.poll() is None
