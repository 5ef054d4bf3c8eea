"""Every label, annotation, taint, tag, gate and finalizer key. No other module may spell one out.

Keys of ours begin with `sluice.dev/`. Keys that other projects define keep their own names. Keys that contain a
name chosen by a user have a prefix of their own, so that no such name can collide with one of ours.
"""

from typing import Final

from autoscaler.api import version

PREFIX: Final = f"{version.GROUP}/"

# Every object we make
VERSION: Final = f"{PREFIX}version"
"""Label on CRDs and on the Deployment: the version of the stack that wrote them."""
FINALIZER: Final = f"{PREFIX}cleanup"
"""On worker pods, pools, queues, flavors and Workloads: we have something to do before the object may go."""

PAUSED: Final = f"{PREFIX}paused"
"""Annotation on the runtime's namespace: `true` stops everything within a second."""

CONFIRM_LEAVING: Final = f"{PREFIX}confirm-leaving"
"""Annotation on the drain object: `true` lets everybody delete it who may delete ConfigMaps there."""
GROUP_LIST: Final = f"{PREFIX}group-list"
"""Label on ConfigMaps of the runtime's namespace: the pool whose node groups are listed there."""
DEPLOYERS_GROUP: Final = "sluice:deployers"
"""The Kubernetes group of those who run Pulumi, and so delete the drain object. EKS puts administrators into it."""

# Worker pools (seed 000)
WORKER_POOL: Final = f"{PREFIX}worker-pool"
"""Label on worker pods: the name of their pool."""

TEMPLATE_HASH: Final = f"{PREFIX}template-hash"
"""Annotation on worker pods: a hash of what they were made from."""

# Machines (seed 001); ADR 0005 tells which spelling was chosen where the seed has two
MACHINE_GROUP: Final = f"{PREFIX}machine-group"
"""Label on Machines and pods, annotation on nodes: the machine group, which is the Machine's name."""
MACHINE_TYPE: Final = f"{PREFIX}machine-type"
"""Label on pods: the machine type a guest asks for, or a sleeper holds room for."""
POD_ROLE: Final = f"{PREFIX}pod-role"
"""Label on pods of a machine group: `guest` or `reservation`."""
NODE_POOL: Final = f"{PREFIX}node-pool"
"""Label and taint on nodes: `ready` while the node takes guests."""
INJECT_RESOURCE: Final = f"{PREFIX}inject-resource"
"""Label on namespaces: `enabled` lets guests there receive their machine's resources."""
INJECTING_CONTAINER: Final = f"{PREFIX}injecting-container"
"""Label on guests: the container that receives the resources; the first one where it is absent."""
INJECT_ENABLED: Final = "enabled"
"""The value of the namespace's label that lets guests there receive their machine's resources."""
ROLE_GUEST: Final = "guest"
"""The role of a pod that runs on a machine."""
ROLE_RESERVATION: Final = "reservation"
"""The role of a sleeper: a pod that holds a machine's room."""
NODE_POOL_READY: Final = "ready"
"""The value of a node's label and taint while it takes guests."""
MACHINE_CLOSED: Final = f"{PREFIX}machine-closed"
"""Taint on nodes that leave a machine group or take no guests for now, until the last guest there has gone."""
MACHINE_PROMISED: Final = f"{PREFIX}machine-promised"
"""Annotation on guests: the node whose room was given up for them, or was free when their gate was opened."""
MACHINE_TRIED: Final = f"{PREFIX}machine-tried"
"""Annotation on guests that the scheduler refused: nodes that had room for them then, separated by commas."""
MACHINE_TRYING_SINCE: Final = f"{PREFIX}machine-trying-since"
"""Annotation on guests: when their gate was opened or room was last made for them, in seconds since the epoch."""
MACHINE_PINNED: Final = f"{PREFIX}machine-pinned"
"""Annotation on sleepers whose gate was opened: the node whose room they hold."""

# Instance pools and scopes (seeds 002 and 003)
INSTANCE_POOL: Final = f"{PREFIX}instance-pool"
"""Label and taint on nodes, tag on Auto Scaling groups: the InstancePool they belong to."""
SCOPE: Final = f"{PREFIX}scope"
"""Label on namespaces: the Scope they belong to; on pools that are not instance-wide: the one Scope they are for."""
RESERVED_FOR: Final = f"{PREFIX}reserved-for"
"""Taint on nodes of ephemeral pools: the UID of the one pod that may run there, or `none`."""
RESERVED_FOR_NONE: Final = "none"
"""The value of that taint while the node waits for a pod."""
REMOVING: Final = f"{PREFIX}removing"
"""Taint on nodes that are about to be removed: nothing new goes there."""
INTERRUPTED_AT: Final = f"{PREFIX}interrupted-at"
"""Annotation on nodes: when the provider takes the instance away, as it announced, in seconds since the epoch."""
MAINTENANCE_AT: Final = f"{PREFIX}maintenance-at"
"""Annotation on nodes: when the provider stops, restarts or retires the instance, in seconds since the epoch."""
REBALANCE_AT: Final = f"{PREFIX}rebalance-recommended-at"
"""Annotation on nodes: when the provider said that it may take the instance away, in seconds since the epoch."""
DO_NOT_DISRUPT: Final = f"{PREFIX}do-not-disrupt"
"""Annotation on nodes and pods: `true` keeps a node, or a pod where it is, but for what the provider takes away."""
KARPENTER_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""The same, as Karpenter calls it."""
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""The same on nodes, as the cluster-autoscaler calls it."""
NODE_TYPE: Final = "node.type"
"""Label on nodes: what kind of work they are for, as seed 002 uses it."""

# Elastic jobs (seed 004)
QUEUE_NAME: Final = f"{PREFIX}queue-name"
"""Label on jobs: the LocalQueue they wait in."""
JOB_UID: Final = f"{PREFIX}job-uid"
"""Label on Workloads and their slices, annotation on pods whose gate was opened: the UID of the job."""
QUEUED_AT: Final = f"{PREFIX}queued-at"
"""Annotation on Workloads: when the job was made, in seconds since the epoch."""
POD_SET: Final = f"{PREFIX}pod-set"
"""Annotation on pods whose gate was opened: the pod set they count for."""
CLUSTER_QUEUE: Final = f"{PREFIX}cluster-queue"
"""Annotation on pods whose gate was opened: the ClusterQueue whose quota they use."""
FLAVORS: Final = f"{PREFIX}flavors"
"""Annotation on pods whose gate was opened: the flavor of each resource, as `cpu=spot,memory=spot`."""
OPENED_AT: Final = f"{PREFIX}opened-at"
"""Annotation on pods whose gate was opened: when, in seconds since the epoch."""
NOT_OPENED: Final = f"{PREFIX}not-opened"
"""Annotation on pods behind the gate of quota: why they will not be let through."""
FENCED: Final = f"{PREFIX}fenced"
"""Annotation on Workloads: the version to which a write was sent that was not answered, and must not succeed late."""
ADMISSION_GATE: Final = f"{PREFIX}admission"
"""Scheduling gate that quota opens."""
PLACEMENT_GATE: Final = f"{PREFIX}placement"
"""Scheduling gate that zone co-location opens."""
SAME_ZONE: Final = f"{PREFIX}same-zone"
"""Annotation on pods: `true` sends all pods of one owner, a Job for one, to the same zone."""
MACHINE_GATE: Final = f"{PREFIX}machine"
"""Scheduling gate that a free machine opens."""

# Pods of StatefulSets and jobs, as their controllers label them
POD_REVISION: Final = "controller-revision-hash"
"""Label on pods of a StatefulSet: which template they were made from."""
JOB_NAME: Final = "batch.kubernetes.io/job-name"
JOB_NAME_LEGACY: Final = "job-name"
JOB_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_CONTROLLER_UID_LEGACY: Final = "controller-uid"
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label and annotation on pods of an Indexed Job: the index they complete."""
RAY_NODE_TYPE: Final = "ray.io/node-type"
"""Label on pods of a RayCluster: `head` or `worker`."""
RAY_GROUP: Final = "ray.io/group"
"""Label on pods of a RayCluster: the worker group's name."""
RAY_REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
"""Label on workers of a RayCluster: the number of their replica, which all hosts of one replica share."""

# Auto Scaling group tags, as the cluster-autoscaler defines them
TAG_AUTOSCALER: Final = "k8s.io/cluster-autoscaler/"
"""Begins all tags that speak of a group to autoscalers."""
TAG_ENABLED: Final = "k8s.io/cluster-autoscaler/enabled"
TAG_TEMPLATE_LABEL: Final = "k8s.io/cluster-autoscaler/node-template/label/"
TAG_TEMPLATE_TAINT: Final = "k8s.io/cluster-autoscaler/node-template/taint/"
TAG_TEMPLATE_UNNEEDED: Final = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime"
TAG_TEMPLATE_RESOURCES: Final = "k8s.io/cluster-autoscaler/node-template/resources/"

# Well-known node labels
ZONE: Final = "topology.kubernetes.io/zone"
ZONE_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
REGION: Final = "topology.kubernetes.io/region"
REGION_BETA: Final = "failure-domain.beta.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
INSTANCE_TYPE_BETA: Final = "beta.kubernetes.io/instance-type"
ARCHITECTURE: Final = "kubernetes.io/arch"
ARCHITECTURE_BETA: Final = "beta.kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
OS_BETA: Final = "beta.kubernetes.io/os"
CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
"""`ON_DEMAND` or `SPOT`, as nodes of EKS's own node groups have it."""
HOSTNAME: Final = "kubernetes.io/hostname"
ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
"""The label by which the cluster-autoscaler knows a node that will have GPUs."""
GPU_RESOURCE: Final = "nvidia.com/gpu"
GPU_FAMILY: Final = "nvidia.com/gpu.family"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
GPU_MACHINE: Final = "nvidia.com/gpu.machine"

EXCLUDED_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Label on nodes: load balancers send nothing to it, whatever the value; ours is `sluice`."""
EXCLUDED_BY_US: Final = "sluice"

# In a new cluster
DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
"""Annotation on a StorageClass: `true` gives it to claims that name none."""
VIEWERS_GROUP: Final = "sluice:viewers"
"""The Kubernetes group of those who may read everything but Secrets. EKS puts them into it."""


def part_finalizer(part: str) -> str:
    """Name the finalizer that a part of the runtime puts on the drain object until nothing of its own hangs on it."""
    return f"{PREFIX}leaving-{part}"


def machine_label(machine_type: str) -> str:
    """Name the node label and taint that says a node offers this machine type; its value is the group."""
    return f"machine.{version.GROUP}/{machine_type}"


def tag_label(tag: str) -> str:
    """Name the node label that carries a pool's tag."""
    return f"tag.{version.GROUP}/{tag}"


def discovery_tag(cluster: str) -> str:
    """Return the AWS tag by which cluster-autoscaler's own default discovery finds a cluster's groups."""
    return f"{TAG_AUTOSCALER}{cluster}"


def cluster_tag(cluster: str) -> str:
    """Name the tag that marks what belongs to a cluster; its value is `owned`."""
    return f"kubernetes.io/cluster/{cluster}"
