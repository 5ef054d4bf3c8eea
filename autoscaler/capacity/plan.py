"""What capacity would do now, as data: launches, take-backs, disruptions, gates to open, and what pods are told. Pure.

Printing it is the dry run. Whoever carries a part of it out returns what became of it, and the next cycle sees that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity import colocation
from autoscaler.capacity.experience import Landed
from autoscaler.capacity.marks import Reason
from autoscaler.capacity.model import Rejection
from autoscaler.cloud import port as cloud
from autoscaler.control import plans
from autoscaler.kube import objects

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hope:
    """Pods for which nodes are started, and where."""

    pods: tuple[objects.Pod, ...]
    groups: tuple[NodeGroupKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Despair:
    """Pods for which no node can be started, and why."""

    pods: tuple[objects.Pod, ...]
    rejections: tuple[Rejection, ...]


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

    @property
    def pool(self) -> str:
        return self.key.pool if self.key is not None else ""

    @property
    def node_name(self) -> str:
        return self.node.name if self.node is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, and what to tell."""

    launches: tuple[Launch, ...] = ()
    hopes: tuple[Hope, ...] = ()
    despairs: tuple[Despair, ...] = ()
    needed: frozenset[str] = frozenset()
    """Nodes that waiting pods are expected to use: nobody may remove them."""
    landed: Landed = field(default_factory=dict)
    """For all pods that wait: on which nodes there seems to be room for them."""
    openings: tuple[colocation.Opening, ...] = ()
    """Pods that waited for a zone, and may go there now."""
    wake_at: float | None = None
    """When time alone will change the plan. None: it will not."""

    def commands(self) -> Iterator[plans.Command]:
        """Return what is to be done, each with its reason."""
        for launch in self.launches:
            sizes = f"from {launch.before} to {launch.after}, at most {launch.maximum}"
            pods = sum(len(hope.pods) for hope in self.hopes if launch.key in hope.groups)
            yield plans.Command(verb="scale", what=f"node group {launch.group} {sizes}", why=f"{pods} pods wait for it")
        for opening in self.openings:
            key = opening.pod.meta.key
            why = f"zone {opening.zone} has room for all pods of its owner"
            yield plans.Command(verb="ungate", what=f"pod {key.namespace}/{key.name}", why=why)
