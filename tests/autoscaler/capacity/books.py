"""A small world whose books are kept: instances and pods with known times, and objects that writes go to."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autoscaler.api import keys
from autoscaler.api.resources.instances import Instance, InstanceStatus
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from autoscaler.simulation.cluster import merging
from tests.autoscaler.capacity import builders

POOL = "gpu"
START = datetime(2026, 11, 16, 6, tzinfo=UTC).timestamp()
"""When worlds begin; a fortnight before a month is over."""
ALLOCATABLE = {"cpu": 4000, "memory": 16 * builders.GIB, "pods": 110}


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def date(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def meta(name: str, *, namespace: str = "", version: int = 1, created_at: float = START, **more: Any) -> objects.Meta:
    known: dict[str, Any] = {"labels": {}, "annotations": {}, "finalizers": (), "owners": (), "deleted_at": None}
    return objects.Meta(
        key=objects.Key(namespace, name),
        uid=f"uid-{name}",
        resource_version=version,
        generation=1,
        created_at=created_at,
        **{**known, **more},
    )


def pod(name: str, node: str = "", *, cpu_millis: int = 1000, namespace: str = "team", **more: Any) -> objects.Pod:
    known: dict[str, Any] = {
        "nominated_node": "",
        "scheduler": "default-scheduler",
        "priority": 0,
        "gates": (),
        "phase": "Running",
        "unschedulable_since": None,
        "ready": True,
        "started_at": None,
        "finished_at": None,
        "waiting_reasons": (),
    }
    owners, labels = more.pop("owners", ()), more.pop("labels", {})
    return objects.Pod(
        meta=meta(name, namespace=namespace, owners=owners, labels=labels),
        node_name=node,
        shape=builders.shape(cpu_millis, 1),
        **{**known, **more},
    )


def node(name: str, provider_id: str, *, ready_at: float | None = None, **more: Any) -> objects.Node:
    known: dict[str, Any] = {"taints": (), "unschedulable": False, "allocatable": ALLOCATABLE}
    return objects.Node(
        meta=meta(name), provider_id=provider_id, ready=ready_at is not None, ready_changed_at=ready_at, **known | more
    )


def instance(number: int = 1, *, pool: str = POOL, version: int = 1, **status: Any) -> objects.Custom[Instance]:
    name = f"{pool}-{number:03d}"
    resource = Instance.model_validate(
        {"metadata": {"name": name}, "spec": {"pool": pool, "number": number}, "status": status}
    )
    return objects.Custom(meta=meta(name, version=version), resource=resource)


def owner(kind: str, uid: str = "owner") -> tuple[objects.Owner, ...]:
    return (objects.Owner(kind, "owner", uid, True),)


@dataclass(kw_only=True)
class LaunchedInstance:
    """An instance, as the cloud knows it."""

    id: str
    launched_at: float
    ended_at: float | None = None
    ready_after: float = 60.0
    listed_after_end: float = 0.0
    """For how long it is listed although it is over."""

    @property
    def provider_id(self) -> str:
        return f"aws:///a/{self.id}"

    def life(self, now: float) -> cloud.InstanceTimes:
        over = self.ended_at is not None and self.ended_at <= now
        return cloud.InstanceTimes(launched_at=self.launched_at, is_over=over, ended_at=self.ended_at if over else None)


@dataclass(kw_only=True)
class Job:
    """A pod, as it really is."""

    name: str
    instance: str
    started_at: float
    finished_at: float
    cpu_millis: int = 1000
    namespace: str = "team"


@dataclass(kw_only=True)
class World:
    """What really happens, and the objects that tell of it."""

    instances: list[LaunchedInstance] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    stored: dict[str, objects.Custom[Instance]] = field(default_factory=dict)
    samples: list[tuple[str, int]] = field(default_factory=list)

    def sight(self, now: float, **more: Any) -> instance_records.Sight:
        """Show what is to be seen now; everything that could be asked was."""
        there = [each for each in self.instances if self._is_listed(each, now)]
        nodes = {
            each.provider_id: node(each.id, each.provider_id, ready_at=each.launched_at + each.ready_after)
            for each in there
            if now >= each.launched_at + each.ready_after
        }
        pods = [self._pod(each, now) for each in self.jobs if each.started_at <= now]
        known: dict[str, Any] = {
            "lives": {cloud.InstanceId(each.id): each.life(now) for each in self.instances if each.launched_at <= now},
            "asked": frozenset(cloud.InstanceId(each.id) for each in self.instances),
        }
        return sight(
            now,
            groups=(group(*(self._member(each, now) for each in there)),),
            nodes=nodes.values(),
            pods=pods,
            instances=self.stored.values(),
            **known | more,
        )

    def carry_out(self, plan: instance_records.Plan, rng: random.Random, *, crash_after: int | None = None) -> bool:
        """Write what a plan says, in any order, and tell whether all of it was written."""
        commands: list[instance_records.Create | instance_records.Change] = [*plan.creates, *plan.changes]
        rng.shuffle(commands)
        for command in commands[:crash_after]:
            self.write(command)
        return crash_after is None or crash_after >= len(commands)

    def write(self, command: instance_records.Create | instance_records.Change) -> None:
        """Do as the API server does: nothing for an old version, and a merge for the others."""
        if isinstance(command, instance_records.Create):
            self.stored.setdefault(command.name, instance(command.number, pool=command.pool))
            return
        known = self.stored[command.name]
        if known.meta.resource_version != command.resource_version:
            return
        body = known.resource.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["status"] = merging.merge(body["status"], command.patch())
        self.stored[command.name] = objects.Custom(
            meta=meta(command.name, version=known.meta.resource_version + 1),
            resource=Instance.model_validate(body),
        )
        self.samples += [(sample.scope, sample.seconds) for sample in command.samples]

    def settle(self, now: float, rng: random.Random, **more: Any) -> None:
        """Go on until there is nothing to write."""
        for _ in range(5):
            plan = instance_records.decide(self.sight(now, **more))
            if not plan.creates and not plan.changes:
                return
            self.carry_out(plan, rng)
        raise AssertionError(f"no end of it: {plan}")

    def status(self, number: int = 1) -> InstanceStatus:
        return self.stored[f"{POOL}-{number:03d}"].resource.status

    def seconds(self) -> dict[str, int]:
        """Sum up the months of all objects."""
        found: dict[str, int] = {}
        for one in self.stored.values():
            for month, usage in one.resource.status.months.items():
                found[month] = found.get(month, 0) + usage.seconds
        return found

    def scope_seconds(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in self.stored.values():
            for usage in one.resource.status.months.values():
                for scope, seconds in usage.scopes.items():
                    found[scope] = found.get(scope, 0) + seconds
        return found

    def _is_listed(self, instance: LaunchedInstance, now: float) -> bool:
        return instance.launched_at <= now and (
            instance.ended_at is None or now < instance.ended_at + instance.listed_after_end
        )

    def _member(self, instance: LaunchedInstance, now: float) -> cloud.Instance:
        over = instance.ended_at is not None and instance.ended_at <= now
        return member(instance.id, cloud.Lifecycle.LEAVING if over else cloud.Lifecycle.IN_SERVICE)

    def _pod(self, job: Job, now: float) -> objects.Pod:
        over = job.finished_at <= now
        return pod(
            job.name,
            job.instance,
            cpu_millis=job.cpu_millis,
            namespace=job.namespace,
            started_at=job.started_at,
            finished_at=job.finished_at if over else None,
            phase="Succeeded" if over else "Running",
        )


def member(name: str, lifecycle: cloud.Lifecycle = cloud.Lifecycle.IN_SERVICE) -> cloud.Instance:
    return cloud.Instance(id=cloud.InstanceId(name), zone="a", lifecycle=lifecycle)


def group(*members: cloud.Instance, pool: str = POOL) -> cloud.NodeGroup:
    key = NodeGroupKey(pool=pool, zone="a", instance_type="m5.xlarge")
    return cloud.NodeGroup(
        name=cloud.GroupName(f"{pool}-a"), key=key, minimum=0, maximum=10, desired=len(members), instances=members
    )


def sight(
    now: float,
    *,
    groups: tuple[cloud.NodeGroup, ...] = (),
    nodes: Iterable[objects.Node] = (),
    pods: Iterable[objects.Pod] = (),
    instances: Iterable[objects.Custom[Instance]] = (),
    **more: Any,
) -> instance_records.Sight:
    """Show a world in which namespaces `team` and `lab` are the scopes of the same name."""
    listed, there = list(nodes), {each.meta.key: each for each in pods}
    snapshot = Snapshot(
        now=now,
        pods=there,
        indexed=pod_index.indexed(there.values()),
        nodes={each.meta.key: each for each in listed},
        by_provider={each.provider_id: each for each in listed},
        namespaces={name: {keys.SCOPE: name} for name in ("team", "lab")},
        scopes={"team": ScopeSpec(), "lab": ScopeSpec()},
        pools={POOL: InstancePoolSpec(provider_account="aws")},
        groups=groups,
    )
    return instance_records.Sight(snapshot=snapshot, instances=tuple(instances), **more)
