"""Everything at once: waiting pods, worker pools and queued jobs by the thousand, under all controllers in one process.

While it works it off, the runtime answers the kubelet's probes as its Deployment asks them, within the memory that the
Deployment allows.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from autoscaler.api import crds, keys, manifests, resources, version
from autoscaler.kube import kinds
from tests import builders
from tests.bench import load
from tests.e2e import replicas, waiting
from tests.e2e.capacity.site import Site
from tests.e2e.workers.queue_servers import Queues
from tools.local.asg.asg_rules import AsgRules
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

PODS, POOLS, JOBS = 10_000, 1_000, 1_000
SHAPES = 500
"""So many sizes the pods have."""
COMPONENTS = USUAL - {Component.KWOK, Component.NODE_REGISTRAR}
"""Nobody plays nodes: all that comes goes on waiting."""
MEMORY_MIB = 1024
"""What the runtime's Deployment allows."""
PROBE_SECONDS = 5.0
"""Within which the kubelet wants an answer."""
WITHIN_SECONDS = 240.0
QUEUE = "flood"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A plane of its own, with one Auto Scaling group of at most three."""
    with (
        Plane.start(tmp_path_factory.mktemp("flood"), Options(components=COMPONENTS)) as plane,
        AsgRules.start(plane.aws_endpoint) as asg_rules,
    ):
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
        served = [kinds.custom(kind).collection() for kind in resources.KINDS]
        waiting.eventually(lambda: all(plane.api.request("GET", path).ok for path in served))
        made = Site(plane=plane, asg_rules=asg_rules)
        made.open()
        made.add_group(made.add_pool("usual"), sizes=(0, 0, 3))
        yield made


class Probes:
    """Asks a replica for its health, as a kubelet does, from a thread of its own."""

    def __init__(self, replica: replicas.Replica) -> None:
        self.answers: list[tuple[int, float]] = []
        """Status, and seconds; status 0: none."""
        self._replica = replica
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            began, status = time.monotonic(), 0
            with contextlib.suppress(OSError):
                status = self._replica.get("/healthz")[0]
            self.answers.append((status, time.monotonic() - began))


@pytest.mark.alone
@pytest.mark.accept("R7")
def test_a_flood_of_everything_is_worked_off_in_bounded_memory_while_probes_are_answered(
    site: Site, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        queues = stack.enter_context(Queues())
        replica = stack.enter_context(_runtime(site, tmp_path))
        probes = stack.enter_context(Probes(replica))
        asyncio.run(_flood(site, queues.fill("empty", 0)))
        waiting.eventually(lambda: _is_worked_off(site, replica), within_seconds=WITHIN_SECONDS)
        assert not replica.entries("cycle_failed")
    assert {status for status, _ in probes.answers} == {200}
    assert max(seconds for _, seconds in probes.answers) < PROBE_SECONDS
    assert sum(site.desired().values()) == 3


@contextlib.contextmanager
def _runtime(site: Site, directory: Path) -> Iterator[replicas.Replica]:
    """Run all controllers; at the end, the most memory that it ever had must have been allowed."""
    with replicas.copy_of(site.plane, directory) as kubeconfig:
        environment = {**site.plane.environment, "AWS_ENDPOINT_URL": site.asg_rules.url}
        flags = ("--controllers", "*", "--cluster", site.cluster, "--scope", "cluster", "--allow-loopback-queues")
        with replicas.Replica(
            kubeconfig, site.namespace, site.id, *flags, program=replicas.RUNTIME, environment=environment
        ) as replica:
            yield replicas.ready(replica)
            most = _most_mib(replica.process.pid)
            assert most < MEMORY_MIB, f"it had {most} MiB"


async def _flood(site: Site, endpoint: str) -> None:
    """Make everything, interleaved."""
    async with load.connected(site.plane.kubeconfig) as api:
        await load.create(api, kinds.custom(resources.ResourceFlavor), builders.resource("ResourceFlavor", name="any"))
        quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": JOBS}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        queue = builders.resource("ClusterQueue", name=QUEUE, resourceGroups=groups)
        await load.create(api, kinds.custom(resources.ClusterQueue), queue)
        door = builders.resource("LocalQueue", name=QUEUE, clusterQueue=QUEUE)
        await load.create(api, kinds.custom(resources.LocalQueue), door)
        pods = [(kinds.PODS, _pod(number)) for number in range(PODS)]
        pools = [(kinds.custom(resources.WorkerPool), _pool(number, endpoint)) for number in range(POOLS)]
        jobs = [(kinds.JOBS, _job(number)) for number in range(JOBS)]
        mixed = sorted([*enumerate(pods), *enumerate(pools), *enumerate(jobs)], key=lambda each: each[0])
        await load.each_of([each for _, each in mixed], lambda each: load.create(api, *each))


def _pod(number: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + number % SHAPES}m", "memory": "128Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {"metadata": {"name": f"pod-{number:05d}"}, "spec": {"containers": [container]}}


def _pool(number: int, endpoint: str) -> dict[str, Any]:
    return builders.resource("WorkerPool", name=f"pool-{number:04d}", queue__source__endpoint=endpoint)


def _job(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": f"job-{number:04d}", "labels": {keys.QUEUE_NAME: QUEUE}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def _is_worked_off(site: Site, replica: replicas.Replica) -> bool:
    """Tell whether every pool was read, every job is admitted and every waiting pod is counted."""
    custom = f"/apis/{version.GROUP_VERSION}"
    pools = site.plane.api.get(f"{custom}/workerpools")["items"]
    read = sum("queueSize" in pool.get("status", {}) for pool in pools)
    jobs = site.plane.api.get("/apis/batch/v1/jobs")["items"]
    admitted = sum(not job["spec"]["suspend"] for job in jobs)
    lines = replica.get("/metrics")[1].splitlines()
    counted = sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("sluice_waiting_pods{"))
    assert (read, admitted) == (POOLS, JOBS), f"{read} pools read, {admitted} jobs admitted, {counted} pods counted"
    assert counted >= PODS, f"{counted} pods counted"
    return True


def _most_mib(pid: int) -> float:
    """Return the most resident memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
