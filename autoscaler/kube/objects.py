"""Pods, nodes and other built-in objects, cut down to what decisions read; each is decoded once, when it arrives.

What is not read is not kept: 100,000 pods must fit into a few hundred megabytes. Of annotations only ours and those
that say something about eviction and disruption remain.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from autoscaler.api import keys, resources
from autoscaler.kube import shapes, wire

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
MIRROR: Final = "kubernetes.io/config.mirror"
R = TypeVar("R", bound=resources.Resource)
DO_NOT_DISRUPT: Final = (keys.DO_NOT_DISRUPT, keys.KARPENTER_DO_NOT_DISRUPT, keys.SCALE_DOWN_DISABLED)
_ANNOTATIONS: Final = frozenset({SAFE_TO_EVICT, MIRROR, *DO_NOT_DISRUPT})
_NO_LABELS: Final[Mapping[str, str]] = {}


class Key(NamedTuple):
    """An object's place within its kind; the namespace is empty for objects of the whole cluster."""

    namespace: str
    name: str


class Owner(NamedTuple):
    """Who an object belongs to."""

    kind: str
    name: str
    uid: str
    controller: bool
    api_version: str = ""


class Meta(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What all objects have."""

    key: Key
    uid: str
    resource_version: int
    generation: int
    created_at: float
    deleted_at: float | None
    """When deletion was asked for; the object may still have finalizers or containers to end."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    owners: tuple[Owner, ...]

    @property
    def controller(self) -> Owner | None:
        return next((owner for owner in self.owners if owner.controller), None)


class Stored(Protocol):
    """Anything that a table can hold."""

    @property
    def meta(self) -> Meta: ...


class Pod(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod."""

    meta: Meta
    node_name: str
    """Empty until it is bound."""
    nominated_node: str
    scheduler: str
    priority: int
    gates: tuple[str, ...]
    phase: str
    unschedulable_since: float | None
    """When the scheduler last found that no node has room; None if it did not, or the pod is bound."""
    bound_at: float | None = None
    """When the scheduler found a node for it; None if it did not, or did not say when."""
    ready: bool
    started_at: float | None
    finished_at: float | None
    waiting_reasons: tuple[str, ...]
    """Why containers wait, such as ErrImagePull; init containers too."""
    restart_policy: str = "Always"
    shape: shapes.Shape

    @property
    def is_terminal(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


class NodeTaint(NamedTuple):
    key: str
    value: str
    effect: str


TaintTimes = Mapping[tuple[str, str], float]
"""When taints were put on a node, by key and effect; those of whom nobody said when are absent."""
_NO_TIMES: Final[TaintTimes] = {}


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node."""

    meta: Meta
    provider_id: str
    unschedulable: bool
    taints: tuple[NodeTaint, ...]
    allocatable: Mapping[str, int]
    """cpu in millis, all else in units."""
    ready: bool
    ready_changed_at: float | None
    tainted_at: TaintTimes = _NO_TIMES
    lost: frozenset[str] = frozenset()
    """Devices of which some are broken: the kubelet counts them as capacity and does not offer them."""


class Simple(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An object of which only the metadata is read: a namespace, a definition."""

    meta: Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Generic[R]):
    """An object of one of our own kinds."""

    meta: Meta
    resource: R


def pod(raw: bytes | msgspec.Raw) -> Pod:
    """Decode a pod."""
    read = wire.POD.decode(raw)
    spec, status = read.spec, read.status
    conditions = {condition.type: condition for condition in status.conditions}
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    unschedulable = scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"
    return Pod(
        meta=meta(read.metadata),
        node_name=sys.intern(spec.node_name),
        nominated_node=status.nominated_node_name,
        scheduler=sys.intern(spec.scheduler_name),
        priority=spec.priority,
        gates=tuple(sys.intern(gate.name) for gate in spec.scheduling_gates),
        phase=sys.intern(status.phase),
        unschedulable_since=_seconds(scheduled.last_transition_time) if scheduled and unschedulable else None,
        bound_at=_seconds(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else None,
        ready=ready is not None and ready.status == "True",
        started_at=_seconds(status.start_time),
        finished_at=_finished_at(status.container_statuses),
        waiting_reasons=tuple(
            sys.intern(container.state.waiting.reason)
            for container in (*status.init_container_statuses, *status.container_statuses)
            if container.state.waiting
        ),
        restart_policy=sys.intern(spec.restart_policy),
        shape=shapes.of(read),
    )


def node(raw: bytes | msgspec.Raw) -> Node:
    """Decode a node."""
    read = wire.NODE.decode(raw)
    ready = next((condition for condition in read.status.conditions if condition.type == "Ready"), None)
    return Node(
        meta=meta(read.metadata),
        provider_id=read.spec.provider_id,
        unschedulable=read.spec.unschedulable,
        taints=tuple(
            NodeTaint(sys.intern(taint.key), sys.intern(taint.value), sys.intern(taint.effect))
            for taint in read.spec.taints
        ),
        allocatable={sys.intern(name): shapes.amount(name, text) for name, text in read.status.allocatable.items()},
        ready=ready is not None and ready.status == "True",
        ready_changed_at=_seconds(ready.last_transition_time) if ready else None,
        tainted_at=_taint_times(read.spec.taints),
        lost=_lost(read.status),
    )


def _lost(status: wire.NodeStatus) -> frozenset[str]:
    devices = [name for name in status.allocatable if "/" in name]
    return frozenset(
        sys.intern(name)
        for name in devices
        if shapes.amount(name, status.allocatable[name]) < shapes.amount(name, status.capacity.get(name, "0"))
    )


def simple(raw: bytes | msgspec.Raw) -> Simple:
    """Decode an object's metadata."""
    return Simple(meta=meta(wire.SIMPLE.decode(raw).metadata))


def custom(model: type[R]) -> Callable[[bytes | msgspec.Raw], Custom[R]]:
    """Return the decoder of a kind of ours."""

    def decode(raw: bytes | msgspec.Raw) -> Custom[R]:
        return Custom(meta=meta(wire.SIMPLE.decode(raw).metadata), resource=model.model_validate_json(bytes(raw)))

    return decode


def meta(read: wire.ObjectMeta) -> Meta:
    """Keep of an object's metadata what decisions read."""
    return Meta(
        key=Key(sys.intern(read.namespace), read.name),
        uid=read.uid,
        resource_version=int(read.resource_version or 0),
        generation=read.generation,
        created_at=_seconds(read.creation_timestamp) or 0.0,
        deleted_at=_seconds(read.deletion_timestamp),
        labels=_interned(read.labels),
        annotations=_kept(read.annotations),
        finalizers=tuple(sys.intern(finalizer) for finalizer in read.finalizers),
        owners=tuple(
            Owner(
                sys.intern(owner.kind),
                sys.intern(owner.name),
                sys.intern(owner.uid),
                owner.controller,
                sys.intern(owner.api_version),
            )
            for owner in read.owner_references
        ),
    )


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time else None


def other_gates(pod: Pod, gate: str) -> list[dict[str, str]] | None:
    """Write a pod's gates without one of them; None takes the empty list away."""
    return [{"name": name} for name in pod.gates if name != gate] or None


def _taint_times(taints: Iterable[wire.Taint]) -> TaintTimes:
    """Keep the times apart from the taints: nodes that are alike but for these times are planned for together."""
    times = {(taint.key, taint.effect): taint.time_added.timestamp() for taint in taints if taint.time_added}
    return times or _NO_TIMES


def _interned(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Share the strings: the pods of one Deployment have equal labels."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()} if labels else _NO_LABELS


def _kept(annotations: Mapping[str, str]) -> Mapping[str, str]:
    kept = {
        sys.intern(key): value
        for key, value in annotations.items()
        if key in _ANNOTATIONS or key.startswith(keys.PREFIX)
    }
    return kept or _NO_LABELS


def _finished_at(containers: Iterable[wire.ContainerStatus]) -> float | None:
    ends = [container.state.terminated for container in containers if container.state.terminated]
    times = [_seconds(end.finished_at) for end in ends if end.finished_at]
    return max((time for time in times if time is not None), default=None)
