"""Pools that are being removed, whole or in part: which nodes are emptied, who is asked to leave or waited for. Pure.

A pool leaves in part when the stack's file gives it fewer node groups (`group_lists`). These leave as a pool does.
Work is never killed for it. What lives for ever, such as a Deployment's pods, is asked to leave as its budgets allow;
what ends by itself is waited for. When the whole stack leaves there may be no other place: what lives for ever stays up
for the work that still needs it; after that it is asked, but not waited for without end. Nobody waits for the runtime's
own pods, nor for what Kubernetes itself runs: they are needed until the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler import clock
from autoscaler.api import conditions, keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

CONDITION: Final = "Draining"
ENDLESS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Owners who make another pod for one that was asked to leave. Of any other owner nobody knows that it would."""
KUBE_SYSTEM: Final = "kube-system"
NAMED_MAX: Final = 3
"""So many pods are told by name."""
SETTLE_SECONDS: Final = 5.0
"""How long nodes must have been empty: what was on its way there has arrived by then."""
CLOSING_SECONDS: Final = 60.0
"""How long what lives for ever may take to leave once the stack's last work has ended: budgets may hold it for ever."""
TICK_SECONDS: Final = 0.001


class Reason(StrEnum):
    """How far the removal of a pool is."""

    WAITING = "WorkRunning"
    """Something still runs on its nodes, or an instance is still starting."""
    OVERDUE = "DrainOverdue"
    """The same, for longer than the pool's drainSeconds. Nothing is killed for it."""
    DRAINED = "Drained"
    """Nothing is left to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """A node of a pool or a group that is being removed."""

    node: objects.Key
    asked: frozenset[str] = frozenset()
    """The UIDs of the pods that should leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """What a pool that is being removed, whole or in part, still waits for."""

    since: float
    overdue_at: float
    groups: tuple[NodeGroupKey, ...] = ()
    """The groups that leave; none: the whole pool does."""
    nodes: tuple[objects.Node, ...] = ()
    """All nodes of what leaves."""
    pods: tuple[objects.Key, ...] = ()
    held: int = 0
    """How many of these a disruption budget holds."""
    kept: tuple[objects.Node, ...] = ()
    """Nodes that an annotation keeps."""
    starting: int = 0
    """Instances that will be nodes soon: a pod may be on its way to them."""
    wake_at: float | None = None
    """When time alone changes this."""

    @property
    def is_empty(self) -> bool:
        return not self.pods and not self.kept and not self.starting

    def reason(self, now: float) -> Reason:
        """Say how far it is."""
        if self.is_empty:
            return Reason.DRAINED
        return Reason.OVERDUE if now >= self.overdue_at else Reason.WAITING

    def __str__(self) -> str:
        """Say what is still there, with a few names."""
        named = [f"{key.namespace}/{key.name}" for key in self.pods[:NAMED_MAX]]
        more = len(self.pods) - len(named)
        said = f"{_count(len(self.pods), 'pod')} still run: {', '.join(named)}" if named else "no pod is waited for"
        said += f" and {more} more" if more else ""
        said += f"; a PodDisruptionBudget holds {self.held} of them" if self.held else ""
        for node in self.kept[:NAMED_MAX]:
            said += f"; node {node.meta.key.name} is kept by {work.kept_by(node)}"
        said += f"; {_count(self.starting, 'instance')} still starting" if self.starting else ""
        return f"{said}; {self._who()} been leaving since {clock.to_rfc3339(self.since)}"

    def _who(self) -> str:
        if not self.groups:
            return "the pool has"
        named = [f"{key.instance_type} in {key.zone}" for key in self.groups[:NAMED_MAX]]
        more = len(self.groups) - len(named)
        who = f"{', '.join(named)} and {more} more" if more else ", ".join(named)
        return f"{_count(len(self.groups), 'node group')} ({who}) {'has' if len(self.groups) == 1 else 'have'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which pools are held and let go, and whether the whole stack can leave."""

    held: tuple[str, ...] = ()
    """Pools that stay, and get our finalizer."""
    held_lists: tuple[str, ...] = ()
    """Group lists that stay, and get it, too."""
    remainders: Mapping[str, Remainder] = field(default_factory=dict)
    """By pool that is being removed, whole or in part: what it still waits for."""
    let_go: tuple[str, ...] = ()
    """Pools that have been empty for long enough: our finalizer comes off, if the API server finds them empty, too."""
    let_go_lists: Mapping[str, str] = field(default_factory=dict)
    """Group lists of which no group is left that has to be emptied, and whose pool each is of."""
    is_over: bool = False
    """The whole stack leaves, and no work keeps it any more."""
    leaves: bool = False
    """And nothing that lives for ever is waited for any more."""
    wake_at: float | None = None


NOTHING: Final = Plan()


def decide(snapshot: Snapshot) -> Plan:
    """Plan what becomes of pools."""
    concerned = (snapshot.unheld, snapshot.leaving, snapshot.unheld_lists, snapshot.deleted_lists)
    if not any(concerned) and not snapshot.dissolving:
        return NOTHING
    left = {name: remainder(snapshot, name) for name in sorted(waiting(snapshot))}
    ends = {name: settles_at(snapshot, name, each) for name, each in left.items()}
    settled = {name for name, at in ends.items() if at is not None and snapshot.now >= at - TICK_SECONDS}
    is_over = snapshot.dissolving and settled == left.keys()
    has_closed = snapshot.closing_since is not None and snapshot.now >= closed_at(snapshot) - TICK_SECONDS
    waits = [each.wake_at if ends[name] is None else ends[name] for name, each in left.items() if name not in settled]
    lists = snapshot.deleted_lists.items()
    return Plan(
        held=tuple(sorted(snapshot.unheld - snapshot.leaving.keys())) if not snapshot.dissolving else (),
        held_lists=tuple(sorted(snapshot.unheld_lists)) if not snapshot.dissolving else (),
        remainders=left,
        let_go=tuple(sorted(settled & snapshot.deleted)),
        let_go_lists={name: pool for name, pool in lists if pool in settled or pool not in left},
        is_over=is_over,
        leaves=is_over and (has_closed or not services(snapshot)),
        wake_at=clock.earliest(waits),
    )


def waiting(snapshot: Snapshot) -> dict[str, float]:
    """Return the pools whose removal, whole or in part, waits for us, and since when."""
    parts: dict[str, float] = {}
    for key, at in snapshot.leaving_groups.items():
        if at is not None:
            parts[key.pool] = min(at, parts.get(key.pool, at))
    return {**parts, **snapshot.leaving}


def settles_at(snapshot: Snapshot, pool: str, left: Remainder) -> float | None:
    """Return when a pool will have been empty for long enough; None if it is not empty."""
    if not left.is_empty:
        return None
    return snapshot.empty_since.get(pool, snapshot.now) + SETTLE_SECONDS if left.nodes else snapshot.now


def closed_at(snapshot: Snapshot) -> float:
    """Return until when what lives for ever may take to leave."""
    return (snapshot.now if snapshot.closing_since is None else snapshot.closing_since) + CLOSING_SECONDS


def who(pools: Iterable[objects.Custom[InstancePool]], everything_since: float | None) -> dict[str, float]:
    """Return the pools that are being removed, and since when; all of them once the whole stack leaves."""
    asked = {pool.meta.key.name: pool.meta.deleted_at for pool in pools}
    times = {name: [at for at in (own, everything_since) if at is not None] for name, own in asked.items()}
    return {name: min(at) for name, at in times.items() if at}


def emptied(snapshot: Snapshot) -> tuple[Emptied, ...]:
    """Return the nodes that take nothing new, each with those of its pods that are asked to leave.

    A node that was emptied stays so when its pool is gone: its instance will be, too. Where the runtime itself runs,
    nodes go on taking pods when the whole stack leaves: it could not come back from a crash otherwise.
    """
    found = []
    for nodes in _nodes(snapshot).values():
        if snapshot.dissolving and any(_is_own(pod, snapshot) for node in nodes for pod in _on(snapshot, node)):
            continue
        for node in nodes:
            pods = _on(snapshot, node) if not _is_kept(node, snapshot) else ()
            asked = frozenset(pod.meta.uid for pod in pods if _is_asked(pod, snapshot))
            found.append(Emptied(node=node.meta.key, asked=asked))
    return (*found, *(Emptied(node=node.meta.key) for node in _abandoned(snapshot)))


def services(snapshot: Snapshot) -> frozenset[objects.Key]:
    """Return the pods that live for ever on nodes that are emptied: those that were asked to leave, or will be."""
    going = {each.node.name for each in emptied(snapshot)}
    return frozenset(
        pod.meta.key for pod in snapshot.pods.values() if pod.node_name in going and _is_movable(pod, snapshot)
    )


def remainder(snapshot: Snapshot, pool: str) -> Remainder:
    """Return what is still waited for before a pool may go."""
    nodes = _nodes(snapshot)[pool]
    spec = snapshot.pools.get(pool)
    pods = [pod for node in nodes for pod in _on(snapshot, node) if is_waited_for(pod, snapshot)]
    starting = _starting(snapshot, pool)
    since = waiting(snapshot)[pool]
    overdue_at = since + (spec.drain_seconds if spec is not None else 0)
    later = [at for at in (overdue_at, *starting) if at > snapshot.now]
    return Remainder(
        since=since,
        overdue_at=overdue_at,
        groups=() if pool in snapshot.leaving else tuple(sorted(_groups(snapshot, pool))),
        nodes=tuple(nodes),
        pods=tuple(sorted(pod.meta.key for pod in pods)),
        held=sum(pod.meta.uid in snapshot.held for pod in pods),
        kept=tuple(node for node in nodes if _is_kept(node, snapshot)),
        starting=len(starting),
        wake_at=min(later, default=None),
    )


def is_waited_for(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Tell whether a pod keeps a pool from going."""
    if not work.is_work(pod) or _is_own(pod, snapshot) or pod.meta.key.namespace == KUBE_SYSTEM:
        return False
    return not _is_endless(pod) or not (snapshot.dissolving or _tolerates_everything(pod))


def condition(pool: InstancePool, snapshot: Snapshot) -> Manifest:
    """Write what a pool that is being removed says about it."""
    left = remainder(snapshot, pool.metadata.name)
    before, now = pool.status.conditions, snapshot.now
    return conditions.written(
        CONDITION, holds=True, reason=left.reason(now), message=str(left), before=before, now=left.since
    )


def _nodes(snapshot: Snapshot) -> dict[str, list[objects.Node]]:
    """Return the nodes that leave, by pool: all of a pool that is being removed, else those of its groups that are."""
    pools = {*snapshot.leaving, *(key.pool for key in snapshot.leaving_groups)}
    found: dict[str, list[objects.Node]] = {pool: [] for pool in sorted(pools)}
    if not found:
        return found
    going = {_place(key) for key in snapshot.leaving_groups}
    members = {one.provider_id: _place(group.key) for group in snapshot.groups for one in group.members}
    for _, node in sorted(snapshot.nodes.items()):
        place = members.get(node.provider_id) or _labelled(node)
        if place[0] in snapshot.leaving or place in going:
            found[place[0]].append(node)
    return found


def _groups(snapshot: Snapshot, pool: str) -> list[NodeGroupKey]:
    return [key for key, at in snapshot.leaving_groups.items() if key.pool == pool and at is not None]


def _place(key: NodeGroupKey) -> tuple[str, str, str]:
    return key.pool, key.zone, key.instance_type


def _labelled(node: objects.Node) -> tuple[str, str, str]:
    """Return the pool, zone and type that a node's labels name: nobody tells its group, or it has none any more."""
    labels = node.meta.labels
    return labels.get(keys.INSTANCE_POOL, ""), labels.get(keys.ZONE, ""), labels.get(keys.INSTANCE_TYPE, "")


def _is_kept(node: objects.Node, snapshot: Snapshot) -> bool:
    """Tell whether an annotation keeps a node; it does not when the whole stack leaves."""
    return work.kept_by(node) is not None and not snapshot.dissolving


def _abandoned(snapshot: Snapshot) -> Iterable[objects.Node]:
    """Yield nodes that were drained and whose pool is gone."""
    for node in disruption_taint.marked(snapshot.nodes):
        if disruption_taint.is_drained(node) and node.meta.labels.get(keys.INSTANCE_POOL) not in snapshot.pools:
            yield node


def _starting(snapshot: Snapshot, pool: str) -> list[float]:
    """Return until when each instance may still become a node of what leaves."""
    spec = snapshot.pools.get(pool)
    timeout = spec.registration_timeout_seconds if spec is not None else 0
    going = [group for group in snapshot.groups if group.key.pool == pool and snapshot.is_leaving(group.key)]
    instances = [one for group in going for one in group.members]
    missing = [one.id for one in instances if one.provider_id not in snapshot.by_provider]
    ends = [snapshot.launched_at[one] + timeout for one in missing if one in snapshot.launched_at]
    return [at for at in ends if at > snapshot.now]


def _on(snapshot: Snapshot, node: objects.Node) -> list[objects.Pod]:
    name = node.meta.key.name
    return [pod for pod in supply.pods_on(snapshot, name) if pod.node_name == name]


def _is_asked(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Tell whether a pod should leave now."""
    is_time = snapshot.closing_since is not None or not snapshot.dissolving
    return is_time and pod.meta.deleted_at is None and _is_movable(pod, snapshot)


def _is_movable(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Tell whether somebody makes a pod anew elsewhere, and it would not come back here."""
    is_moved = _is_endless(pod) and not _tolerates_everything(pod)
    return is_moved and work.is_work(pod) and not _is_own(pod, snapshot)


def _is_endless(pod: objects.Pod) -> bool:
    owner = pod.meta.controller
    return owner is not None and owner.kind in ENDLESS


def _is_own(pod: objects.Pod, snapshot: Snapshot) -> bool:
    """Tell whether a pod is the runtime itself: the stack stamps its version on it."""
    return pod.meta.key.namespace == snapshot.home and keys.VERSION in pod.meta.labels


def _tolerates_everything(pod: objects.Pod) -> bool:
    return any(each.operator == "Exists" and not each.key and not each.effect for each in pod.shape.tolerations)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
