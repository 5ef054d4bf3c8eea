"""The leader is killed again and again, right before and right after its writes, while pools grow."""

import contextlib
import random
import signal
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.e2e import replicas, waiting
from tests.e2e.workers import conftest, gateway, ground, pod_watch, queue_servers, test_partition
from tools.local.plane import Plane

KILLS = 20
SEED = 7
LEASE_SECONDS = "2"
CAPACITY = {"wide": 500, "narrow": 12, "ends": 6, "flow": 4}
"""The pools. Workers of `flow` run, end and are replaced; those of the others wait, so that each job is one worker.
`ends` is shut down halfway."""
TOLD = ("currentCapacity", "failedWorkers", "pendingWorkers", "runningWorkers", "workers")


class Killer:
    """Kills whoever writes, at a moment that chance picks; writes of the election are left alone."""

    def __init__(self, chance: random.Random) -> None:
        self.killed = threading.Event()
        self.strikes: list[str] = []
        self._chance = chance
        self._left: int | None = None
        self._moment = gateway.Moment.BEFORE

    def arm(self) -> None:
        """Kill at one of the next writes."""
        self.killed.clear()
        self._moment = self._chance.choice(list(gateway.Moment))
        self._left = self._chance.randint(0, 8)

    def strike(self, replica: replicas.Replica, method: str, path: str, moment: gateway.Moment) -> bool:
        if self._left is None or moment is not self._moment or "/leases" in path:
            return False
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = None
        replica.send(signal.SIGKILL)
        self.strikes.append(f"{moment} {method} {path}")
        self.killed.set()
        return True


class Pair:
    """Two replicas of one runtime, each behind a gateway of its own."""

    def __init__(self, plane: Plane, namespace: str, directory: Path, killer: Killer) -> None:
        self._namespace = namespace
        self._running: dict[int, replicas.Replica] = {}
        self._configs: dict[int, Path] = {}
        self._stack = contextlib.ExitStack()
        for number in range(2):
            between = gateway.Gateway(plane, partial(self._strike, killer, number))
            self._stack.enter_context(between)
            self._configs[number] = between.kubeconfig(directory)

    def revive(self) -> None:
        """Start whoever does not run."""
        for number, config in self._configs.items():
            old = self._running.get(number)
            if old is None or old.process.poll() is not None:
                flags = (*conftest.FLAGS, "--lease-seconds", LEASE_SECONDS)
                self._running[number] = self._stack.enter_context(
                    replicas.Replica(config, self._namespace, "pair", *flags, program=replicas.RUNTIME)
                )

    def logs(self) -> str:
        return "\n".join(replica.log.read_text()[-3000:] for replica in self._running.values())

    def _strike(self, killer: Killer, number: int, method: str, path: str, moment: gateway.Moment) -> bool:
        return killer.strike(self._running[number], method, path, moment)

    def __enter__(self) -> Self:
        self.revive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def make_pools(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_source("flow", ground.running_pods("flow", run_for="1s"))
    for pool, capacity in CAPACITY.items():
        source = "flow" if pool == "flow" else ground.SOURCE
        endpoint = queues.url(f"{site.namespace}-{pool}")
        site.make_pool(pool, endpoint, poolCapacity=capacity, workerSpec__podTemplate__source__name=source)


def fill(queues: queue_servers.Queues, site: ground.Ground, jobs: Mapping[str, int]) -> None:
    for pool, length in jobs.items():
        queues.fill(f"{site.namespace}-{pool}", length)


def told(site: ground.Ground) -> dict[str, Any]:
    """Return what the status of each pool says, without who says it and since when."""
    return {
        pool: {
            "fields": {field: site.status(pool).get(field) for field in TOLD},
            # A pool that is shut down tells what it read last, and that is history.
            "queue": None if pool == "ends" else site.status(pool).get("queueSize"),
            "conditions": {
                one["type"]: (one["status"], one["reason"]) for one in site.status(pool).get("conditions", ())
            },
        }
        for pool in CAPACITY
    }


@pytest.mark.accept("R1", part="worker pools, 20 random kills at writes; no moto")
@pytest.mark.usefixtures("node")
def test_whenever_the_leader_is_killed_no_worker_is_made_twice_and_none_beyond_capacity(
    served: Plane,
    alone: ground.Ground,
    operator: replicas.Replica,
    queues: queue_servers.Queues,
    tmp_path: Path,
) -> None:
    del operator  # it handles the pools that are compared with
    reference = test_partition.other_namespace(alone, conftest.SHARED_CLASS)
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    killer = Killer(chance)
    jobs = dict.fromkeys(CAPACITY, 2)
    fill(queues, alone, jobs)
    make_pools(alone, queues)
    with (
        pod_watch.PodWatch(served, alone.namespace) as seen,
        Pair(served, alone.namespace, tmp_path, killer) as pair,
    ):
        for round_ in range(KILLS):
            killer.arm()
            if round_ == KILLS // 2:
                alone.change("ends", status="Shutdown")
            for pool in ("wide", "narrow", "ends"):
                jobs[pool] += chance.randint(1, 4)
            fill(queues, alone, jobs)
            assert killer.killed.wait(60), f"nobody wrote after kill {round_}: {killer.strikes}\n{pair.logs()}"
            pair.revive()
        jobs["flow"] = 0
        fill(queues, alone, jobs)
        fill(queues, reference, jobs)
        make_pools(reference, queues)
        reference.change("ends", status="Shutdown")

        want_created = {"wide": jobs["wide"], "narrow": CAPACITY["narrow"]}
        reference.wait_for_status("wide", workers=want_created["wide"])
        alone.wait_for_status("wide", workers=want_created["wide"])

        def same() -> bool:
            mine, calm = told(alone), told(reference)
            assert mine == calm, f"{mine}\nwithout kills:\n{calm}"
            return True

        waiting.eventually(same, within_seconds=60)
        assert seen.is_alive
        assert len(killer.strikes) == KILLS
        assert {pool: len(seen.created[pool]) for pool in want_created} == want_created, killer.strikes
        assert len(seen.created["ends"]) <= CAPACITY["ends"]
        assert len(seen.created["flow"]) > CAPACITY["flow"], "it never came round"
        beyond = {pool: most for pool, most in seen.most.items() if most > CAPACITY[pool]}
        assert not beyond, killer.strikes
        assert not alone.workers("flow")
        assert not alone.workers("ends")
    test_partition.remove_namespace(reference)
