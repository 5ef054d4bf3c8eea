"""A simulated cluster with worker pools: queues that a test fills, and replicas that come and go."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from autoscaler.api import controllers, resources
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.kube import kinds, port
from autoscaler.queues import port as queues
from autoscaler.runtime import process, registry
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.kubelet import Kubelets, Run
from autoscaler.simulation.scheduler import Scheduler
from autoscaler.workers import pods
from tests import builders
from tests.scenarios import running

Body = dict[str, Any]
NAMESPACE = "default"
POOLS = kinds.custom(resources.WorkerPool)
START_SECONDS = 3.0
ENDPOINT = "https://web-server/api/job/peek_queue"


@dataclass
class Line:
    """One queue, as many jobs long as a test says, and how it answers."""

    length: int = 0
    error: queues.QueueError | None = None
    seconds: float = 0.01
    """How long an answer takes."""
    asked_at: list[float] = field(default_factory=list)
    secrets: list[queues.SecretData | None] = field(default_factory=list)

    def take(self) -> None:
        """Take a job, if there is one."""
        self.length = max(0, self.length - 1)


class Lines:
    """All queues, by endpoint; what a Sources is in the product."""

    def __init__(self) -> None:
        self.by_endpoint: dict[str, Line] = {}

    def __getitem__(self, endpoint: str) -> Line:
        return self.by_endpoint.setdefault(endpoint, Line())

    def queue(self, source: QueueSource, *, namespace: str, secret: queues.SecretData | None) -> queues.Queue:
        del namespace
        return _Asked(self[source.endpoint], secret)

    async def aclose(self) -> None:
        """Close nothing."""


@dataclass
class _Asked:
    line: Line
    secret: queues.SecretData | None

    async def length(self) -> int:
        self.line.asked_at.append(asyncio.get_running_loop().time())
        self.line.secrets.append(self.secret)
        length = self.line.length
        await asyncio.sleep(self.line.seconds)
        if self.line.error is not None:
            raise self.line.error
        return length


class World:
    """A cluster with room for all workers, and queues."""

    def __init__(self, *, latency_seconds: float = 0.005, job_seconds: float = 60.0) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=latency_seconds)
        self.cluster.install_definitions()
        self.cluster.install_policies()
        self.lines = Lines()
        self.job_seconds = job_seconds
        self.exit_code = 0
        self.most: Counter[str] = Counter()
        """The most pods that each pool ever had at once."""
        self.made: Counter[str] = Counter()
        """How many pods were ever created for each pool."""
        self.polls = 0
        """Readings that were forgotten."""
        self._alive: Counter[str] = Counter()
        self._working: set[str] = set()
        Scheduler(self.cluster)
        Kubelets(self.cluster, script=self._work)
        self.cluster.server.store.collection(kinds.PODS).listeners.append(self._count)
        self.cluster.create(kinds.NODES, _node())
        self.cluster.create(kinds.DEPLOYMENTS, deployment("worker"))

    @property
    def line(self) -> Line:
        """The queue that pools ask unless told otherwise."""
        return self.lines[ENDPOINT]

    def add(self, name: str = "pool", **changes: Any) -> Body:
        """Create a pool."""
        return self.cluster.create(POOLS, builders.resource("WorkerPool", name=name, **changes))

    def pool(self, name: str = "pool") -> Body:
        return self._get(POOLS, name)

    def status(self, name: str = "pool") -> Body:
        status: Body = self.pool(name).get("status", {})
        return status

    def has_pool(self, name: str = "pool") -> bool:
        return self._find(POOLS, name) is not None

    def pods(self, name: str = "pool") -> list[Body]:
        """Return the pods that are labelled as workers of a pool."""
        return [pod for pod in self._all(kinds.PODS) if _pool_of(pod) == name]

    def events(self, name: str = "pool") -> dict[str, list[Body]]:
        """Return the events about a pool, by reason."""
        found: dict[str, list[Body]] = {}
        for event in self._all(kinds.EVENTS):
            if event["involvedObject"]["name"] == name:
                found.setdefault(event["reason"], []).append(event)
        return found

    def everything(self) -> list[Body]:
        """Return all objects of the kinds that the runtime writes or reads."""
        read = (POOLS, kinds.PODS, kinds.EVENTS, kinds.SECRETS)
        return [each for resource in read for each in self._all(resource)]

    def condition(self, kind: str, name: str = "pool") -> Body:
        return next(each for each in self.status(name)["conditions"] if each["type"] == kind)

    def change(self, name: str = "pool", **changes: Any) -> None:
        """Change a pool's spec."""
        self.patch(POOLS, name, {"spec": _nested(changes)})

    def patch(self, resource: kinds.ResourceType, name: str, changes: Body) -> None:
        """Merge changes into an object."""
        self._send("PATCH", resource.path(name, NAMESPACE), changes)

    def delete(self, resource: kinds.ResourceType, name: str) -> None:
        """Ask for an object's deletion."""
        self._send("DELETE", resource.path(name, NAMESPACE))

    def _send(self, method: str, path: str, body: Body | None = None) -> None:
        encoded = None if body is None else msgspec.json.encode(body)
        request = port.Request(method=method, path=path, body=encoded, content_type=port.MERGE_PATCH)
        port.required(self.cluster.server.handle(request, "admin"))

    def _work(self, pod: Body) -> Run:
        """Start, take one job, do it, find no other for as long as the pool allows, and exit; or fail at once."""
        if self.exit_code:
            return Run(start_seconds=START_SECONDS, run_seconds=1.0, exit_code=self.exit_code)
        if pod["metadata"]["uid"] not in self._working:
            self._working.add(pod["metadata"]["uid"])
            line = self.lines[self.pool(_pool_of(pod))["spec"]["queue"]["source"]["endpoint"]]
            asyncio.get_running_loop().call_later(START_SECONDS, line.take)
        idle = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}[pods.IDLE_TIMEOUT]
        return Run(start_seconds=START_SECONDS, run_seconds=self.job_seconds + 60.0 * int(idle))

    def _count(self, change: Change) -> None:
        if change.before is None and change.after is not None and (name := _pool_of(change.after.object)):
            self.made[name] += 1
            self._alive[name] += 1
            self.most[name] = max(self.most[name], self._alive[name])
        elif change.after is None and change.before is not None and (name := _pool_of(change.before.object)):
            self._alive[name] -= 1

    def _all(self, resource: kinds.ResourceType) -> list[Body]:
        return [entry.object for entry in self.cluster.server.store.collection(resource).entries.values()]

    def _get(self, resource: kinds.ResourceType, name: str) -> Body:
        found = self._find(resource, name)
        assert found is not None, f"{resource.kind} {name} is not there"
        return found

    def _find(self, resource: kinds.ResourceType, name: str) -> Body | None:
        entry = self.cluster.server.store.find(resource, Key(NAMESPACE, name))
        return entry.object if entry else None


def runtime(  # noqa: PLR0913  # each test sets what matters
    world: World,
    identity: str = "sluice",
    *,
    class_name: str | None = None,
    also: Sequence[str | None] = (),
    pod: str = "a",
    observe: bool = False,
    everywhere: bool = False,
    wrap: running.Wrap | None = None,
) -> contextlib.AbstractAsyncContextManager[process.Process]:
    """Run a replica that handles one class, or others `also`, in the namespace of all tests; at the end it stops."""
    scope = WorkerScope.CLUSTER if everywhere else WorkerScope.NAMESPACE
    options = replace(running.NOTHING_OUTSIDE, open_queues=lambda _: world.lines, scope=scope)
    made = registry.registrations([controllers.WORKERS], options, classes=[class_name, *also])
    return running.replica(world.cluster, made, identity=identity, pod=pod, observe=observe, wrap=wrap)


class Mortal:
    """A connection whose process is killed at one of its writes: just before it is sent, or just after it was done.

    From then on nothing is sent and nothing arrives, as after SIGKILL.
    """

    def __init__(self, api: port.Api, *, at: int, after: bool) -> None:
        self.writes = 0
        self._api = api
        self._at = at
        self._after = after
        self._is_dead = False

    async def send(self, request: port.Request) -> port.Response:
        await self._hang_if_dead()
        is_write = self.counts(request)
        self.writes += is_write
        last = is_write and self.writes == self._at
        if last and not self._after:
            self._is_dead = True
            await self._hang_if_dead()
        answer = await self._api.send(request)
        self._is_dead = self._is_dead or last
        await self._hang_if_dead()
        return answer

    def counts(self, request: port.Request) -> bool:
        """Tell whether a call is a write at which it may be killed."""
        return request.method != "GET" and "/leases" not in request.path

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                await self._hang_if_dead()
                yield batch

    async def _hang_if_dead(self) -> None:
        if self._is_dead:
            await asyncio.Event().wait()


class Doomed(Mortal):
    """A connection whose process is killed at one of the writes that it makes once it is doomed; events aside."""

    is_doomed = False

    def counts(self, request: port.Request) -> bool:
        return self.is_doomed and super().counts(request) and "/events" not in request.path


class Forgetful(Doomed):
    """A connection that loses the answer to one of its writes, which was done."""

    async def send(self, request: port.Request) -> port.Response:
        answer = await self._api.send(request)
        self.writes += self.counts(request)
        if self.counts(request) and self.writes == self._at:
            raise port.UnreachableError("the answer was lost")
        return answer


def deployment(name: str, **template: Any) -> Body:
    """A Deployment without replicas, for workers to be modelled on."""
    spec = {"containers": [{"name": "worker", "image": "worker:1"}], **template}
    metadata = {"labels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def _node() -> Body:
    room = {"cpu": "10000", "memory": "100000Gi", "pods": "100000"}
    metadata = {"name": "node", "labels": {"kubernetes.io/hostname": "node"}}
    return {"metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def _pool_of(pod: Body) -> str:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return labels.get("sluice.dev/worker-pool", "")


def _nested(changes: dict[str, Any]) -> Body:
    made: Body = {}
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = made
        for step in parents:
            place = place.setdefault(step, {})
        place[last] = value
    return made


def smallest_gap(moments: list[float]) -> float:
    """Return the shortest time between two moments in a row."""
    return min(after - before for before, after in itertools.pairwise(moments))
