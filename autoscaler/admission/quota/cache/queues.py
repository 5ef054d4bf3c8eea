"""ClusterQueues and ResourceFlavors as decisions read them: quota in integers, read once per change. Pure.

What is used of a quota is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.api.resources import ClusterQueue, ResourceFlavor
from autoscaler.api.resources.queues import Preempt, QueueingStrategy, Reclaim, StopPolicy
from autoscaler.api.resources.types import LabelSelector, Toleration
from autoscaler.kube import objects, selecting, shapes, wire


class CohortKey(NamedTuple):
    """Queues that lend each other quota; a queue without a cohort is alone in its own."""

    cohort: str
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of one resource of a flavor a queue may use."""

    nominal: int
    borrowing_limit: int | None
    """None: all that the cohort leaves unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Resources that come from one flavor together."""

    resources: frozenset[str]
    flavors: tuple[str, ...]
    """In order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue."""

    name: str
    generation: int
    cohort: CohortKey
    groups: tuple[Group, ...]
    quotas: Mapping[FlavorResource, Quota]
    is_strict: bool
    within: Preempt
    reclaim: Reclaim
    drains: bool
    refusal: Refusal | None
    """Why nothing is admitted; None: it can be."""
    namespaces: wire.LabelSelector

    @property
    def preempts(self) -> bool:
        """Whether somebody who waits here may displace anybody."""
        return self.within is not Preempt.NEVER or self.reclaim is not Reclaim.NEVER

    def group_of(self, resource: str) -> Group | None:
        """Return the group that covers a resource."""
        return next((group for group in self.groups if resource in group.resources), None)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Tell whether jobs of a namespace with these labels may use it."""
        return selecting.labels_match(self.namespaces, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A ResourceFlavor."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[objects.NodeTaint, ...]
    tolerations: tuple[wire.Toleration, ...]
    is_leaving: bool


def queue(stored: objects.Custom[ClusterQueue]) -> Queue:
    """Read a ClusterQueue."""
    name, spec = stored.meta.key.name, stored.resource.spec
    return Queue(
        name=name,
        generation=stored.meta.generation,
        cohort=CohortKey(spec.cohort, "") if spec.cohort else CohortKey("", name),
        groups=tuple(
            Group(resources=frozenset(group.covered_resources), flavors=tuple(each.name for each in group.flavors))
            for group in spec.resource_groups
        ),
        quotas=_quotas(stored.resource),
        is_strict=spec.queueing_strategy is QueueingStrategy.STRICT_FIFO,
        within=spec.preemption.within_cluster_queue,
        reclaim=spec.preemption.reclaim_within_cohort,
        drains=spec.stop_policy is StopPolicy.HOLD_AND_DRAIN,
        refusal=_refusal(stored),
        namespaces=_selector(spec.namespace_selector),
    )


def flavor(stored: objects.Custom[ResourceFlavor]) -> Flavor:
    """Read a ResourceFlavor."""
    spec = stored.resource.spec
    return Flavor(
        name=stored.meta.key.name,
        labels=spec.node_labels,
        taints=tuple(objects.NodeTaint(taint.key, taint.value, taint.effect) for taint in spec.node_taints),
        tolerations=tuple(_toleration(each) for each in spec.tolerations),
        is_leaving=stored.meta.deleted_at is not None,
    )


def _quotas(resource: ClusterQueue) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(each.name, quota.name): Quota(
            nominal=shapes.amount(quota.name, str(quota.nominal_quota)),
            borrowing_limit=(
                None if quota.borrowing_limit is None else shapes.amount(quota.name, str(quota.borrowing_limit))
            ),
        )
        for group in resource.spec.resource_groups
        for each in group.flavors
        for quota in each.resources
    }


def _refusal(stored: objects.Custom[ClusterQueue]) -> Refusal | None:
    if stored.meta.deleted_at is not None:
        return Refusal(reason=Reason.QUEUE_LEAVING, queue=stored.meta.key.name)
    if stored.resource.spec.stop_policy is not StopPolicy.NONE:
        return Refusal(reason=Reason.QUEUE_STOPPED, queue=stored.meta.key.name)
    return None


def _selector(selector: LabelSelector) -> wire.LabelSelector:
    expressions = tuple(
        wire.Requirement(key=each.key, operator=each.operator, values=each.values)
        for each in selector.match_expressions
    )
    return wire.LabelSelector(match_labels=dict(selector.match_labels), match_expressions=expressions)


def _toleration(read: Toleration) -> wire.Toleration:
    return wire.Toleration(key=read.key or "", operator=read.operator, value=read.value or "", effect=read.effect or "")
