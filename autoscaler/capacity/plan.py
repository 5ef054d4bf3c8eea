"""All that capacity would do now, as data and in words. Pure: values only.

Printing it is the dry run. Whoever carries a part of it out returns what became of it, and the next cycle sees that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api import keys, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import disruption_taint
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.model import Limit, Rejection
from autoscaler.capacity.records import accounting, instance_records
from autoscaler.capacity.scaledown import pool_teardown
from autoscaler.capacity.scaleup import ephemeral
from autoscaler.capacity.scaleup.colocation import colocation
from autoscaler.capacity.scaleup.missed_placements import Landed
from autoscaler.capacity.scaleup.scopes import scope_users
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.control import plans
from autoscaler.kube import kinds, objects

_NO_GROUP: Final = cloud.GroupName("")
_NO_INSTANCE: Final = cloud.InstanceId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A group that should have more nodes."""

    key: NodeGroupKey
    group: cloud.GroupName
    before: int
    after: int
    maximum: int
    pods: tuple[objects.Pod, ...] = field(default=(), compare=False)
    """Those that wait for it; none where it stands in for an outdated instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A group that should ask for what it has: less after a launch that failed, more where an instance came late."""

    key: NodeGroupKey
    group: cloud.GroupName
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """Pods for which no node can be started, and why."""

    pods: tuple[objects.Pod, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """Pods that are to be told the same: why no node is started for them."""

    pods: tuple[objects.Pod, ...]
    reason: str
    text: str
    rejections: tuple[Rejection, ...]
    cause: tuple[object, ...]
    """What of the rejections lasts: pods are told again once it is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEvent:
    """A pool that is to be told of a budget that has come nearer to its end."""

    pool: str
    reason: str
    text: str
    limit: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """A node or an instance that takes no more pods, is drained, or goes; and why."""

    reason: Reason
    node: objects.Key | None = None
    """None: the instance never became a node."""
    node_uid: str = ""
    key: NodeGroupKey | None = None
    group: cloud.GroupName = _NO_GROUP
    instance: cloud.InstanceId = _NO_INSTANCE
    """The one to end; empty: nothing is ended yet."""
    evict: tuple[objects.Pod, ...] = ()
    """The pods that are asked to leave, as their budgets allow."""
    decrement: bool = True
    """False: its group is at its minimum, and gets another instance for it."""
    since: float = 0.0
    """Since when it has been idle, lost or on its way."""
    wait_until: float = 0.0
    """It does not end before; infinite while its node is not marked."""

    @property
    def is_useless(self) -> bool:
        """Whether it runs no work and never will."""
        return self.reason in {Reason.NEVER_JOINED, Reason.LOST}

    @property
    def pool(self) -> str:
        return self.key.pool if self.key is not None else ""

    @property
    def node_name(self) -> str:
        return self.node.name if self.node is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """An object whose status is to say something else."""

    resource: kinds.ResourceType
    stored: objects.Stored
    changes: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered from one cycle to the next, and may be forgotten."""

    idle: Mapping[str, float] = field(default_factory=dict)
    """Since when idle nodes have been so."""
    nodeless: Mapping[str, float] = field(default_factory=dict)
    """Since when instances have been without the node that they had."""
    begun: Mapping[str, float] = field(default_factory=dict)
    """When nodes were first asked to become empty for a new launch template."""
    postponed: Mapping[str, float] = field(default_factory=dict)
    """Until when those are left alone that did not."""


NOTHING: Final = Memory()
NO_RECORDS: Final = instance_records.Plan()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, and what to tell."""

    records: instance_records.Plan = NO_RECORDS
    """What the Instance objects should say."""
    launches: tuple[Launch, ...] = ()
    """Those that stand in for outdated instances among them."""
    retries: frozenset[NodeGroupKey] = frozenset()
    """Groups that get a node only to see whether it offers more than those before it."""
    resizes: tuple[Resize, ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    """What goes, in the order in which it does: what is of no use, what is drained, what is idle."""
    spared: tuple[objects.Node, ...] = ()
    """Nodes that carry our mark without reason."""
    unserved: tuple[Unserved, ...] = ()
    needed: frozenset[str] = frozenset()
    """Nodes that waiting pods are expected to use: nobody may remove them."""
    landed: Landed = field(default_factory=dict)
    """For all pods that wait: on which nodes there seems to be room for them."""
    openings: tuple[colocation.Opening, ...] = ()
    """Pods that waited for a zone, and may go there now."""
    claims: ephemeral.Plan = ephemeral.NOTHING
    """Who gets which instance of an ephemeral pool, and which of them go back."""
    teardown: pool_teardown.Plan = pool_teardown.NOTHING
    """Pools that are held, and those that are let go."""
    scopes: scope_users.Plan = scope_users.NOTHING
    """The same of scopes."""
    statuses: tuple[Status, ...] = ()
    """What pools, scopes and accounts are to say. In a cycle it is decided once all else is done (`decide.report`)."""
    pod_events: tuple[PodEvent, ...] = ()
    """What waiting pods are to be told. That a node is started for them is told once the cloud took the call."""
    pool_events: tuple[PoolEvent, ...] = ()
    away: int = 0
    """So many nodes are away at once that none of them is replaced."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """By pool: why its outdated instances are not replaced now."""
    memory: Memory = NOTHING
    wake_at: float | None = None
    """When time alone will change the plan. None: it will not."""


def commands(snapshot: Snapshot, plan: Plan) -> Iterator[plans.Command]:
    """Say what a plan does, each with its reason."""
    yield from _recorded(plan.records)
    for each in plan.resizes:
        late = each.after > each.before
        yield _resized(each, "an instance came that nobody asked for any more" if late else "a launch failed")
    for launch in plan.launches:
        waiting = f"pods that wait for a node: {len(launch.pods)}"
        yield _resized(launch, waiting if launch.pods else "it stands in for a node of another launch template")
    yield from _claimed(plan.claims)
    for opening in plan.openings:
        pod = _place(opening.pod.meta.key)
        yield plans.Command(verb="open", what=f"pod {pod}", why=f"there will be room in zone {opening.zone}")
    for disruption in plan.disruptions:
        yield from _disrupted(snapshot, disruption)
    for node in plan.spared:
        yield plans.Command(verb="untaint", what=f"node {node.meta.key.name}", why="it is not to go any more")
    yield from _torn_down(snapshot, plan.teardown)
    yield from _scopes_held(plan.scopes)
    for status in plan.statuses:
        what = f"{status.resource.kind.lower()} {status.stored.meta.key.name}"
        yield plans.Command(verb="patch status of", what=what, why=f"new: {', '.join(sorted(status.changes))}")
    for warning in plan.pool_events:
        yield plans.Command(verb="tell", what=f"instancepool {warning.pool}", why=f"{warning.reason}: {warning.text}")
    for event in plan.pod_events:
        yield plans.Command(verb="tell", what=_several(event.pods), why=f"{event.reason}: {event.text}")


def _recorded(records: instance_records.Plan) -> Iterator[plans.Command]:
    for made in records.creates:
        why = f"an instance of pool {made.pool} has no record"
        yield plans.Command(verb="create", what=f"instance {made.name}", why=why)
    for change in records.changes:
        before, after = change.before.phase, change.after.phase
        why = f"{before} becomes {after}" if before != after else "what it used or ran has changed"
        yield plans.Command(verb="patch status of", what=f"instance {change.name}", why=why)
    for each in records.deletes:
        why = f"it ended more than {accounting.MONTHS_KEPT} months ago"
        yield plans.Command(verb="delete", what=f"instance {each.name}", why=why)


def _claimed(claims: ephemeral.Plan) -> Iterator[plans.Command]:
    for corrected in claims.corrected:
        is_free = corrected.kept_for == keys.RESERVED_FOR_NONE
        why = "the pod that it was kept for will not come" if is_free else "a pod runs there that it is not kept for"
        yield plans.Command(verb="taint", what=f"node {corrected.node.meta.key.name}", why=why)
    for each in claims.given:
        why = f"it is kept for pod {_place(each.pod.meta.key)}"
        yield plans.Command(verb="taint", what=f"node {each.node.meta.key.name}", why=why)
    for each in (*claims.let_on, *claims.given):
        why = f"node {each.node.meta.key.name} is kept for it: toleration"
        yield plans.Command(verb="patch", what=f"pod {_place(each.pod.meta.key)}", why=why)


def _torn_down(snapshot: Snapshot, teardown: pool_teardown.Plan) -> Iterator[plans.Command]:
    for name in teardown.held:
        why = "it is held until its instances are gone: finalizer"
        yield plans.Command(verb="patch", what=f"instancepool {name}", why=why)
    for name in teardown.let_go:
        yield plans.Command(verb="patch", what=f"instancepool {name}", why="it is deleted and empty: no finalizer")
    for name in teardown.held_lists:
        why = "it is held until groups that leave its pool are empty: finalizer"
        yield plans.Command(verb="patch", what=f"configmap {snapshot.home}/{name}", why=why)
    for name in teardown.let_go_lists:
        why = "it is deleted and none of its groups has to be emptied: no finalizer"
        yield plans.Command(verb="patch", what=f"configmap {snapshot.home}/{name}", why=why)
    if teardown.leaves:
        why = "all work has ended: our finalizers, taints and gates come off every object, then it is let go"
        yield plans.Command(verb="patch", what=f"configmap {snapshot.home}/{names.DRAIN_OBJECT}", why=why)


def _scopes_held(held: scope_users.Plan) -> Iterator[plans.Command]:
    for name in held.held:
        why = "namespaces use it, and it is held until none does: finalizer"
        yield plans.Command(verb="patch", what=f"scope {name}", why=why)
    for name in held.let_go:
        yield plans.Command(verb="patch", what=f"scope {name}", why="nothing holds it any more: no finalizer")


def _resized(each: Launch | Resize, why: str) -> plans.Command:
    return plans.Command(verb="resize", what=f"node group {each.group} from {each.before} to {each.after}", why=why)


def _disrupted(snapshot: Snapshot, each: Disruption) -> Iterator[plans.Command]:
    """Say what happens next: a node takes no more pods, its pods leave, its instance ends."""
    node = snapshot.nodes.get(each.node) if each.node is not None else None
    if node is not None and not each.is_useless and disruption_taint.must_mark(node, each.reason):
        yield plans.Command(verb="taint", what=f"node {node.meta.key.name}", why=each.reason)
    for pod in each.evict:
        if pod.meta.annotations.get(objects.SAFE_TO_EVICT) != "false":
            yield plans.Command(verb="evict", what=f"pod {_place(pod.meta.key)}", why=each.reason)
    if each.instance and each.wait_until <= snapshot.now:
        what = f"instance {each.instance} of node group {each.group}"
        yield plans.Command(verb="terminate", what=what, why=each.reason)


def _several(pods: tuple[objects.Pod, ...]) -> str:
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"pod {_place(pods[0].meta.key)}{more}"


def _place(key: objects.Key) -> str:
    return f"{key.namespace}/{key.name}"
