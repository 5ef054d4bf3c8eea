"""What each part of the runtime may do, in one table: RBAC and IAM are made from it, and tests hold the runtime to it.

A row is here because a line of code needs it. No row may hold a wildcard. Reading is `list` and `watch`, since all
reading is done by watches; `get` stands only where one object is read by name: a Lease, a Secret, a pod template, the
drain object, a worker pool that is looked at afresh, and what a create finds already there. All changes are patches; a
status is a subresource, granted apart from its object.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from autoscaler.api import names, version
from autoscaler.api.resources import (
    ClusterQueue,
    Instance,
    InstancePool,
    LocalQueue,
    Machine,
    MachineNodePool,
    ProviderAccount,
    Resource,
    ResourceFlavor,
    Scope,
    WorkerPool,
    Workload,
)


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
    """Kubernetes' own namespace where worker pools of all namespaces are handled, and nowhere else: operators of the
    whole cluster meet there, whichever namespaces they run in. Written are only the Leases of the classes that are
    handled; those of other classes are read, to tell whether somebody handles their pools."""


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


ENGINE: Final = "engine"
"""The part that is always there: elections, the pause switch, the check of definitions."""
WORKERS: Final = "workers"
ADMISSION: Final = "admission"
MACHINES: Final = "machines"
CAPACITY: Final = "capacity"
CONTROLLERS: Final = (WORKERS, ADMISSION, MACHINES, CAPACITY)
"""The controllers, by the names that --controllers takes."""

_READ: Final = ("list", "watch")
_CORE: Final = ""


def kube_rules(controllers: Iterable[str], *, classes: Iterable[str | None]) -> tuple[KubeRule, ...]:
    """Return what these controllers, and the engine under them, may do in Kubernetes.

    Args:
        controllers: the controllers that run.
        classes: the classes of the worker pools that are handled; None is the default class.
    """
    leases = tuple(sorted({names.worker_lease(each) for each in classes}))
    if not leases:
        raise ValueError("no class of worker pools is named: rules without names would be for all Leases")
    return tuple(_bound(rule, leases) for part in _parts(controllers) for rule in KUBE[part])


def aws_rules(controllers: Iterable[str]) -> tuple[AwsRule, ...]:
    """Return what these controllers may do in AWS."""
    return tuple(rule for part in _parts(controllers) for rule in AWS[part])


def _bound(rule: KubeRule, leases: tuple[str, ...]) -> KubeRule:
    """Bind writing worker Leases to their names, but for creating: there Kubernetes looks at no name."""
    if rule.where is not Where.WORKER_LEASES or "patch" not in rule.verbs:
        return rule
    return replace(rule, resource_names=leases)


def _parts(controllers: Iterable[str]) -> tuple[str, ...]:
    chosen = set(controllers)
    unknown = sorted(chosen - set(CONTROLLERS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)} are no controllers: there are {', '.join(CONTROLLERS)}")
    return (ENGINE, *(name for name in CONTROLLERS if name in chosen))


def _rule(group: str, resources: str, verbs: str, where: Where, *only: str) -> KubeRule:
    return KubeRule(
        group=group,
        resources=tuple(resources.split()),
        verbs=tuple(verbs.split()),
        where=where,
        resource_names=only,
    )


def _reading(where: Where, *kinds: type[Resource]) -> tuple[KubeRule, ...]:
    """Let kinds of ours be watched, and their status be written: by their controller, and where one is unreadable."""
    plurals = tuple(kind.definition.plural for kind in kinds)
    told = tuple(f"{kind.definition.plural}/status" for kind in kinds if "status" in kind.model_fields)
    return (
        KubeRule(group=version.GROUP, resources=plurals, verbs=_READ, where=where),
        *((KubeRule(group=version.GROUP, resources=told, verbs=("patch",), where=where),) if told else ()),
    )


def _writing(where: Where, verbs: str, *kinds: type[Resource]) -> KubeRule:
    plurals = " ".join(kind.definition.plural for kind in kinds)
    return _rule(version.GROUP, plurals, verbs, where)


def _drain_object() -> KubeRule:
    """Look at the drain object, and hold it until everything of a part has left."""
    return _rule(_CORE, "configmaps", "get patch", Where.OWN_NAMESPACE, names.DRAIN_OBJECT)


def _events(where: Where) -> KubeRule:
    """Tell what was done: a new event, one more of the same, and the count that an earlier life reached."""
    return _rule(_CORE, "events", "create get patch", where)


KUBE: Final[Mapping[str, tuple[KubeRule, ...]]] = {
    ENGINE: (
        _rule("coordination.k8s.io", "leases", "create get patch", Where.OWN_NAMESPACE),
        _rule(_CORE, "namespaces", "list watch", Where.CLUSTER),
        _rule("apiextensions.k8s.io", "customresourcedefinitions", "list", Where.CLUSTER),
    ),
    WORKERS: (
        *_reading(Where.WORKER_SCOPE, WorkerPool),
        _writing(Where.WORKER_SCOPE, "get patch", WorkerPool),  # a fresh look; the finalizer
        _rule(_CORE, "pods", "create delete get list patch watch", Where.WORKER_SCOPE),
        _rule("coordination.k8s.io", "leases", "create", Where.WORKER_LEASES),
        _rule("coordination.k8s.io", "leases", "patch", Where.WORKER_LEASES),  # kube_rules adds their names
        _rule("coordination.k8s.io", "leases", "get", Where.WORKER_LEASES),  # do operators of other classes live?
        _rule("apps", "deployments", "get", Where.WORKER_SCOPE),  # the pod template, read when a worker is made
        _rule(_CORE, "secrets", "get", Where.SECRET_NAMESPACES),
        _drain_object(),
        _events(Where.WORKER_SCOPE),
    ),
    ADMISSION: (
        *_reading(Where.CLUSTER, ClusterQueue, LocalQueue, ResourceFlavor, Workload),
        _writing(Where.CLUSTER, "create delete get patch", Workload),
        _rule(_CORE, "pods", "delete list patch watch", Where.CLUSTER),  # gates; an unstarted pod of a resize
        _rule("batch", "jobs", "list patch watch", Where.CLUSTER),  # suspend
        _rule("ray.io", "rayclusters", "list patch watch", Where.CLUSTER),
        _rule("scheduling.k8s.io", "priorityclasses", "list watch", Where.CLUSTER),
        _events(Where.CLUSTER),
    ),
    MACHINES: (
        *_reading(Where.CLUSTER, Machine, MachineNodePool),
        _writing(Where.CLUSTER, "patch", Machine),  # the finalizer
        _writing(Where.CLUSTER, "create get patch", MachineNodePool),
        _rule(_CORE, "nodes", "list patch watch", Where.CLUSTER),  # annotation, labels and taints
        _rule(_CORE, "pods", "list patch watch", Where.CLUSTER),  # gates of guests and sleepers
        _rule(_CORE, "pods", "delete", Where.OWN_NAMESPACE),  # a sleeper that makes room
        _rule("apps", "statefulsets", "create delete get list patch watch", Where.OWN_NAMESPACE),
        _rule(_CORE, "services", "create delete get list patch watch", Where.OWN_NAMESPACE),
        _rule(_CORE, "configmaps", "create get list patch watch", Where.OWN_NAMESPACE),  # the catalogue
        _events(Where.CLUSTER),
    ),
    CAPACITY: (
        *_reading(Where.CLUSTER, InstancePool, Scope, Instance, ProviderAccount, Machine),
        _writing(Where.CLUSTER, "patch", InstancePool),  # the finalizer
        _writing(Where.CLUSTER, "create delete get", Instance),
        _rule(_CORE, "nodes", "list patch watch", Where.CLUSTER),  # taints
        _rule(_CORE, "pods", "list patch watch", Where.CLUSTER),  # the placement gate, a claim's toleration
        _rule(_CORE, "pods/eviction", "create", Where.CLUSTER),
        _rule("policy", "poddisruptionbudgets", "list watch", Where.CLUSTER),
        _rule("apps", "daemonsets", "list watch", Where.CLUSTER),  # what every new node will carry
        _rule(_CORE, "persistentvolumes persistentvolumeclaims", "list watch", Where.CLUSTER),  # zones of volumes
        _rule("storage.k8s.io", "storageclasses", "list watch", Where.CLUSTER),
        _rule("coordination.k8s.io", "leases", "get", Where.KUBE_SYSTEM, "cluster-autoscaler"),
        # Two runtimes in different namespaces meet on this Lease. Creating cannot be bound to a name.
        _rule("coordination.k8s.io", "leases", "create", Where.KUBE_SYSTEM),
        _rule("coordination.k8s.io", "leases", "get patch", Where.KUBE_SYSTEM, names.CLUSTER_LEASE),
        _rule(_CORE, "secrets", "get", Where.SECRET_NAMESPACES),  # credentials of provider accounts
        _drain_object(),
        _events(Where.CLUSTER),
    ),
}

AWS: Final[Mapping[str, tuple[AwsRule, ...]]] = {
    ENGINE: (),
    WORKERS: (AwsRule(actions=("sqs:GetQueueAttributes",), resource=AwsResource.WORKER_QUEUES),),
    ADMISSION: (),
    MACHINES: (),
    CAPACITY: (
        AwsRule(
            actions=(
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeInstances",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
            ),
            resource=AwsResource.ANY,
        ),
        AwsRule(
            actions=("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
            resource=AwsResource.CLUSTER_TAGGED,
        ),
        AwsRule(actions=("sqs:DeleteMessage", "sqs:ReceiveMessage"), resource=AwsResource.INTERRUPTION_QUEUE),
        # Pod Identity's session tags go along into the next role, which takes a right of its own.
        AwsRule(actions=("sts:AssumeRole", "sts:TagSession"), resource=AwsResource.PROVIDER_ROLES),
    ),
}
