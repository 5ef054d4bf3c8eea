"""What a right is, in Kubernetes and in AWS, and the rules that controllers have in common. Pure.

`controllers` says who has which; RBAC and IAM are made from that, and tests hold the runtime to it. A rule is there
because a line of code needs it. No rule may hold a wildcard. Reading is `list` and `watch`, since all reading is done
by watches; `get` stands only where one object is read by name: a Lease, a Secret, a pod template, the drain object, a
worker pool that is looked at afresh, and what a create finds already there. All changes are patches; a status is a
subresource, granted apart from its object.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoscaler.api import names, version
from autoscaler.api.resources import Resource


class Where(StrEnum):
    """Where a right to Kubernetes objects holds."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own-namespace"
    """The runtime's own namespace."""
    WORKER_SCOPE = "worker-scope"
    """The runtime's own namespace, or the whole cluster where worker pools of all namespaces are handled."""
    SECRET_NAMESPACES = "secret-namespaces"  # noqa: S105  # where, not what
    """The namespaces that the stack declares."""
    KUBE_SYSTEM = "kube-system"
    """Kubernetes' own namespace; only with names, but for new Leases."""
    WORKER_LEASES = "worker-leases"
    """Where operators of worker pools have their Leases: in Kubernetes' own namespace where pools of all namespaces are
    handled, whichever namespaces the operators run in; else in the runtime's own."""


class WorkerScope(StrEnum):
    """Which worker pools are handled: those of the runtime's own namespace, or of the whole cluster."""

    NAMESPACE = "namespace"
    CLUSTER = "cluster"


class AwsResource(StrEnum):
    """What a right in AWS is bound to."""

    ANY = "any"
    """Everything: for reading only, where AWS knows no narrower bound."""
    CLUSTER_TAGGED = "cluster-tagged"
    """Auto Scaling groups with the cluster's own tag."""
    IMAGE_PARAMETERS = "image-parameters"
    """The parameters that hold images of nodes: AWS' own, and those of the stack's pipelines."""
    INTERRUPTION_QUEUE = "interruption-queue"
    """The stack's queue of interruptions and failed launches."""
    WORKER_QUEUES = "worker-queues"
    """The SQS queues that the stack declares for worker pools."""
    PROVIDER_ROLES = "provider-roles"
    """The roles that the stack declares for provider accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeRule:
    """Verbs on resources of one API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    where: Where
    resource_names: tuple[str, ...] = ()
    """Only objects of these names; empty means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsRule:
    """Actions of AWS, bound to something."""

    actions: tuple[str, ...]
    resource: AwsResource


CORE: Final = ""
"""The API group of pods, nodes and the like."""


def rule(group: str, resources: str, verbs: str, where: Where, *only: str) -> KubeRule:
    """Allow verbs on resources, each with spaces between; only on objects of these names, if any are given."""
    return KubeRule(
        group=group,
        resources=tuple(resources.split()),
        verbs=tuple(verbs.split()),
        where=where,
        resource_names=only,
    )


def watching(where: Where, *kinds: type[Resource]) -> tuple[KubeRule, ...]:
    """Let kinds of ours be watched, and their status be written: by their controller, and where one is unreadable."""
    plurals = tuple(kind.definition.plural for kind in kinds)
    told = tuple(f"{kind.definition.plural}/status" for kind in kinds if "status" in kind.model_fields)
    return (
        KubeRule(group=version.GROUP, resources=plurals, verbs=("list", "watch"), where=where),
        *((KubeRule(group=version.GROUP, resources=told, verbs=("patch",), where=where),) if told else ()),
    )


def writing(where: Where, verbs: str, *kinds: type[Resource]) -> KubeRule:
    """Allow verbs on kinds of ours."""
    return rule(version.GROUP, " ".join(kind.definition.plural for kind in kinds), verbs, where)


def leading(where: Where, *leases: str) -> tuple[KubeRule, ...]:
    """Let Leases be taken, renewed and given back. Creating cannot be bound to names."""
    group = "coordination.k8s.io"
    return (rule(group, "leases", "create", where), rule(group, "leases", "get patch", where, *leases))


def drain_object() -> KubeRule:
    """Look at the drain object, and hold it until everything of a part has left."""
    return rule(CORE, "configmaps", "get patch", Where.OWN_NAMESPACE, names.DRAIN_OBJECT)


def events(where: Where) -> KubeRule:
    """Tell what was done: a new event, one more of the same, and the count that an earlier life reached."""
    return rule(CORE, "events", "create get patch", where)
