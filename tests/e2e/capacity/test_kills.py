"""From nothing to a hundred instances and back, with the leader killed in the middle of launches and of removals."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site

PODS = 100
BATCHES = 2
LEASE_SECONDS = "2"
SET, TERMINATE = "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"


class Pair:
    """Two replicas; whoever leads is killed as soon as AWS hears a certain call, and started again as a follower."""

    def __init__(self, site: Site, directory: Path) -> None:
        self._site = site
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._running: dict[str, replicas.Replica] = {}
        self.kills = 0

    def revive(self) -> None:
        """Start whoever does not run."""
        for pod in ("one", "two"):
            old = self._running.get(pod)
            if old is None or old.process.poll() is not None:
                flags = ("--lease-seconds", LEASE_SECONDS)
                made = conftest.replica(self._site, self._directory, *flags, pod=pod)
                self._running[pod] = self._stack.enter_context(made)

    def leader(self) -> replicas.Replica | None:
        leases = self._site.plane.api.get("/apis/coordination.k8s.io/v1/leases")["items"]
        holders = [lease["spec"].get("holderIdentity", "") for lease in leases]
        mine = (pod for pod in self._running if any(f"{self._site.id}_{pod}_" in holder for holder in holders))
        return next((self._running[pod] for pod in mine), None)

    @contextlib.contextmanager
    def killing(self, action: str, *, after: int = 1) -> Iterator[None]:
        """Kill the leader at the next calls of an action."""
        leader = waiting.eventually(self.leader)
        assert leader is not None
        seen, given_up = self._site.asg_rules.calls[action] + after, threading.Event()

        def watch() -> None:
            while not given_up.wait(0.001):
                if self._site.asg_rules.calls[action] >= seen:
                    leader.send(signal.SIGKILL)
                    return

        thread = threading.Thread(target=watch, name="killer")
        thread.start()
        try:
            yield
            waiting.eventually(lambda: leader.process.poll() is not None, within_seconds=60)
        finally:
            given_up.set()
            thread.join()
        self.kills += 1
        self.revive()

    def __enter__(self) -> Self:
        self.revive()
        for replica in self._running.values():
            replicas.ready(replica)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@pytest.mark.accept("G11")
def test_a_hundred_instances_come_and_go_exactly_once_though_the_leader_is_killed_on_the_way(
    site: Site, tmp_path: Path
) -> None:
    pool = site.add_pool("hundred", limits__maxActiveInstances=PODS + 20)
    made = [site.add_group(pool, zone=zone, sizes=(0, 0, 60)) for zone in "abc"]
    with Pair(site, tmp_path) as pair:
        site.wait_known(*made)
        for batch in range(BATCHES):
            with pair.killing(SET):
                for number in range(PODS // BATCHES):
                    site.add_pod(f"pod-{batch}-{number}")
        site.wait_bound()
        assert len(set(site.bound().values())) == PODS
        assert sum(site.desired().values()) == PODS
        assert site.instances() == {"running": PODS}, "never more instances than needed"
        site.change_pool(pool, limits={"maxIdleSeconds": 0})
        with pair.killing(TERMINATE, after=3):
            site.delete_pods()
        site.wait_nodes(0)
        assert pair.kills == 3
    assert site.desired() == {}
    assert site.instances() == {"ended": PODS}
