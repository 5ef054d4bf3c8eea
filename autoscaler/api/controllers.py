"""The registry of controllers: one line for each, with its name and its rights. Pure: it imports no controller.

A controller is its room, the package `autoscaler.NAME`, which exports `build`, and its line here. The runtime and the
simulation find the room by the name and run it under its Lease; the stack starts it, and grants its rights and no
others. What has no line does not exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.api import names, permissions
from autoscaler.api.permissions import AwsResource, AwsRule, KubeRule, Where, WorkerScope
from autoscaler.api.resources import (
    ClusterQueue,
    Instance,
    InstancePool,
    LocalQueue,
    Machine,
    MachineNodePool,
    ProviderAccount,
    ResourceFlavor,
    Scope,
    WorkerPool,
    Workload,
)

WORKERS: Final = "workers"
ADMISSION: Final = "admission"
MACHINES: Final = "machines"
CAPACITY: Final = "capacity"
KUBE_SYSTEM: Final = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller of this version."""

    name: str
    """Its name for --controllers, and its room's."""
    kube: tuple[KubeRule, ...]
    """What it may do in Kubernetes, besides what its Leases need."""
    aws: tuple[AwsRule, ...] = ()
    per_class: bool = False
    """True: it runs once for each class of worker pools, under a Lease for each. False: once, under the cluster's."""
    needs_cluster: bool = False
    """It is off where nobody says what the cluster is called in AWS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What one run of a controller acts under."""

    controller: str
    name: str
    namespace: str | None
    """None: the runtime's own."""
    class_name: str | None = None
    """The class of worker pools it is for; None: those without a class."""

    @property
    def title(self) -> str:
        """Name the run that acts under it."""
        return self.controller if self.class_name is None else f"{self.controller} {self.class_name}"


_WORKERS: Final = (
    *permissions.watching(Where.WORKER_SCOPE, WorkerPool),
    permissions.writing(Where.WORKER_SCOPE, "get patch", WorkerPool),  # a fresh look; the finalizer
    permissions.rule(permissions.CORE, "pods", "create delete get list patch watch", Where.WORKER_SCOPE),
    permissions.rule("coordination.k8s.io", "leases", "get", Where.WORKER_LEASES),  # do operators of others live?
    permissions.rule("apps", "deployments", "get", Where.WORKER_SCOPE),  # the template, read when a worker is made
    permissions.rule(permissions.CORE, "secrets", "get", Where.SECRET_NAMESPACES),
    permissions.drain_object(),
    permissions.events(Where.WORKER_SCOPE),
)
_WORKERS_AWS: Final = (AwsRule(actions=("sqs:GetQueueAttributes",), resource=AwsResource.WORKER_QUEUES),)

_ADMISSION: Final = (
    *permissions.watching(Where.CLUSTER, Workload, ClusterQueue, LocalQueue, ResourceFlavor),
    permissions.writing(Where.CLUSTER, "create delete get patch", Workload),
    permissions.writing(Where.CLUSTER, "patch", ClusterQueue, LocalQueue, ResourceFlavor),  # the finalizer
    permissions.rule("batch", "jobs", "list patch watch", Where.CLUSTER),  # suspend
    permissions.rule("ray.io", "rayclusters", "list patch watch", Where.CLUSTER),  # suspend; the kind may be absent
    permissions.rule(permissions.CORE, "pods", "delete list patch watch", Where.CLUSTER),  # the gate; what never starts
    permissions.rule(permissions.CORE, "nodes", "list watch", Where.CLUSTER),  # pods on lost nodes stop counting
    permissions.rule("scheduling.k8s.io", "priorityclasses", "list watch", Where.CLUSTER),
    permissions.drain_object(),
    permissions.events(Where.CLUSTER),
)

_MACHINES: Final = (
    *permissions.watching(Where.CLUSTER, Machine, MachineNodePool),
    permissions.writing(Where.CLUSTER, "create get patch", MachineNodePool),
    permissions.rule(permissions.CORE, "pods", "delete list patch watch", Where.CLUSTER),  # the gate; sleepers go
    permissions.rule(permissions.CORE, "nodes", "list patch watch", Where.CLUSTER),  # the annotation, labels, taints
    permissions.rule("apps", "statefulsets", "create delete get list patch watch", Where.OWN_NAMESPACE),
    permissions.rule(permissions.CORE, "services", "create delete get list patch watch", Where.OWN_NAMESPACE),
    permissions.rule(permissions.CORE, "configmaps", "create", Where.OWN_NAMESPACE),
    permissions.rule(permissions.CORE, "configmaps", "delete get patch", Where.OWN_NAMESPACE, names.MACHINE_CATALOGUE),
    permissions.drain_object(),
    permissions.events(Where.CLUSTER),
)

_CAPACITY: Final = (
    *permissions.watching(Where.CLUSTER, InstancePool, Scope, Instance, ProviderAccount),
    *permissions.watching(Where.CLUSTER, Machine),  # which of them pull nodes, and what these will carry
    permissions.writing(Where.CLUSTER, "patch", InstancePool, Scope),  # the finalizer
    permissions.writing(Where.CLUSTER, "create delete get", Instance),
    permissions.rule(permissions.CORE, "nodes", "list patch watch", Where.CLUSTER),  # taints
    permissions.rule(permissions.CORE, "pods", "list patch watch", Where.CLUSTER),  # the gate; a claim's toleration
    permissions.rule(permissions.CORE, "pods/eviction", "create", Where.CLUSTER),
    permissions.rule("apps", "daemonsets", "list watch", Where.CLUSTER),  # what every new node will carry
    permissions.rule(permissions.CORE, "persistentvolumes persistentvolumeclaims", "list watch", Where.CLUSTER),
    permissions.rule("storage.k8s.io", "storageclasses csinodes", "list watch", Where.CLUSTER),
    permissions.rule("storage.k8s.io", "volumeattachments", "list", Where.CLUSTER),  # before a node's instance ends
    # Who else scales this cluster's nodes:
    permissions.rule("coordination.k8s.io", "leases", "list", Where.CLUSTER),
    permissions.rule("apps", "deployments", "list", Where.CLUSTER),
    permissions.rule("karpenter.sh", "nodepools", "list", Where.CLUSTER),  # the kind may be absent
    permissions.rule(permissions.CORE, "secrets", "get", Where.SECRET_NAMESPACES),  # credentials of accounts
    # The group lists; their names are the stack's to choose. The finalizer:
    permissions.rule(permissions.CORE, "configmaps", "list patch watch", Where.OWN_NAMESPACE),
    permissions.drain_object(),
    permissions.events(Where.CLUSTER),
)
_CAPACITY_AWS: Final = (
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
    # Asked for by DescribeLaunchTemplateVersions, which says which image a parameter means.
    AwsRule(actions=("ssm:GetParameters",), resource=AwsResource.IMAGE_PARAMETERS),
    AwsRule(actions=("sqs:DeleteMessage", "sqs:ReceiveMessage"), resource=AwsResource.INTERRUPTION_QUEUE),
    # Pod Identity's session tags go along into the next role, which takes a right of its own.
    AwsRule(actions=("sts:AssumeRole", "sts:TagSession"), resource=AwsResource.PROVIDER_ROLES),
)

ENGINE: Final = (
    permissions.rule(permissions.CORE, "namespaces", "list watch", Where.CLUSTER),  # the pause switch
    permissions.rule("apiextensions.k8s.io", "customresourcedefinitions", "list", Where.CLUSTER),
)
"""What the runtime may do in Kubernetes whichever controllers it runs."""

_REGISTERED: Final = (
    Controller(name=WORKERS, kube=_WORKERS, aws=_WORKERS_AWS, per_class=True),
    Controller(name=ADMISSION, kube=_ADMISSION),
    Controller(name=MACHINES, kube=_MACHINES),
    Controller(name=CAPACITY, kube=_CAPACITY, aws=_CAPACITY_AWS, needs_cluster=True),
)
CONTROLLERS: Final[Mapping[str, Controller]] = {each.name: each for each in _REGISTERED}
"""All controllers, by the names that --controllers takes."""


def chosen(asked: Iterable[str]) -> tuple[Controller, ...]:
    """Return these controllers, in the registry's order; raise ValueError where one is not registered."""
    wanted = set(asked)
    unknown = sorted(wanted - CONTROLLERS.keys())
    if unknown:
        raise ValueError(f"{', '.join(unknown)} are no controllers: there are {', '.join(CONTROLLERS)}")
    return tuple(each for each in CONTROLLERS.values() if each.name in wanted)


def leases(controller: Controller, *, scope: WorkerScope, classes: Sequence[str | None]) -> tuple[Lease, ...]:
    """Return what a controller acts under.

    Operators of the whole cluster meet on Leases in Kubernetes' own namespace, wherever they themselves run. Two that
    share the pools without a class, and no other, have one Lease for these alone in common.
    """
    if not controller.per_class:
        return (Lease(controller=controller.name, name=names.CLUSTER_LEASE, namespace=KUBE_SYSTEM),)
    namespace = KUBE_SYSTEM if scope is WorkerScope.CLUSTER else None
    return tuple(
        Lease(controller=controller.name, name=names.worker_lease(each), namespace=namespace, class_name=each)
        for each in classes
    )


def kube_rules(asked: Iterable[str], *, scope: WorkerScope, classes: Sequence[str | None]) -> tuple[KubeRule, ...]:
    """Return what these controllers, and the engine under them, may do in Kubernetes; class None is the default."""
    if not classes:
        raise ValueError("no class of worker pools is named: rules without names would be for all Leases")
    rules = list(ENGINE)
    for each in chosen(asked):
        rules += each.kube
        for lease in leases(each, scope=scope, classes=classes):
            rules += permissions.leading(Where.KUBE_SYSTEM if lease.namespace else Where.OWN_NAMESPACE, lease.name)
    return tuple(rules)


def aws_rules(asked: Iterable[str]) -> tuple[AwsRule, ...]:
    """Return what these controllers may do in AWS."""
    return tuple(rule for each in chosen(asked) for rule in each.aws)
