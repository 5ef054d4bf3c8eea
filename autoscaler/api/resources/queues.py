"""ResourceFlavor, ClusterQueue and LocalQueue: quota, and the queues that share it (seed 004)."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api.resources.base import (
    AGE,
    LIST_SET,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    Rule,
    checked,
    condition_column,
    immutable,
    list_map,
)
from autoscaler.api.resources.types import (
    Count,
    DnsName,
    Labels,
    LabelSelector,
    Quantity,
    ResourceName,
    Taint,
    Tolerations,
)

GROUPS_MAX = 8
FLAVORS_MAX = 8
RESOURCES_MAX = 8


class ResourceFlavorSpec(Model):
    """The nodes that quota of this flavor is spent on."""

    node_labels: Labels = {}
    """Labels of those nodes; admitted pods are bound to them."""
    node_taints: Annotated[tuple[Taint, ...], Field(max_length=8)] = ()
    """Taints of those nodes; only jobs that tolerate them may use this flavor."""
    tolerations: Tolerations = ()
    """Tolerations that admitted pods receive."""


class ResourceFlavorStatus(Model):
    """Whether it can go."""

    conditions: Conditions = ()
    """InUse says which ClusterQueues and jobs keep a flavor from going whose deletion was asked for."""


class ResourceFlavor(Resource):
    """A kind of node that quota is counted for, such as on-demand or spot."""

    definition: ClassVar[Definition] = Definition(plural="resourceflavors", short_names=("rf",))

    spec: ResourceFlavorSpec = ResourceFlavorSpec()
    status: ResourceFlavorStatus = ResourceFlavorStatus()


class QueueingStrategy(StrEnum):
    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class Reclaim(StrEnum):
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"


class Preempt(StrEnum):
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class ResourceQuota(Model):
    """Quota for one resource of a flavor."""

    name: ResourceName
    """The resource, such as cpu."""
    nominal_quota: Quantity
    """How much of it this queue may use of its own."""
    borrowing_limit: Quantity | None = None
    """How much more it may borrow from its cohort. Absent: all that the others leave unused."""


class FlavorQuotas(Model):
    """Quota for one flavor."""

    name: DnsName
    """The ResourceFlavor."""
    resources: Annotated[
        tuple[ResourceQuota, ...], Field(min_length=1, max_length=RESOURCES_MAX, json_schema_extra=list_map("name"))
    ]
    """Quota for each of the group's covered resources."""


class ResourceGroup(Model):
    """Resources that are counted together, and the flavors they may come from, in order of preference."""

    model_config = checked(
        Rule(
            expression="self.flavors.all(f, size(f.resources) == size(self.coveredResources)"
            " && f.resources.all(r, r.name in self.coveredResources))",
            message="each flavor must give quota for exactly the coveredResources",
            field=".flavors",
        ),
    )

    covered_resources: Annotated[
        tuple[ResourceName, ...], Field(min_length=1, max_length=RESOURCES_MAX, json_schema_extra=LIST_SET)
    ]
    """The resources this group counts."""
    flavors: Annotated[
        tuple[FlavorQuotas, ...], Field(min_length=1, max_length=FLAVORS_MAX, json_schema_extra=list_map("name"))
    ]
    """The flavors they may come from; the first that has room is taken."""


class Preemption(Model):
    """Whom a waiting job may displace. A job is always displaced as a whole."""

    reclaim_within_cohort: Reclaim = Reclaim.NEVER
    """Whether to take back quota that other queues of the cohort have borrowed."""
    within_cluster_queue: Preempt = Preempt.NEVER
    """Whether to displace jobs of this queue."""


class ClusterQueueSpec(Model):
    """Quota and who may use it."""

    model_config = checked(
        Rule(
            expression="has(self.cohort) || !has(self.resourceGroups)"
            " || self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
            message="borrowingLimit must be left out where there is no cohort to borrow from",
            field=".resourceGroups",
        ),
        Rule(
            expression="!has(self.resourceGroups) || self.resourceGroups.all(g, g.coveredResources.all(r,"
            " self.resourceGroups.exists_one(h, r in h.coveredResources)))",
            message="each resource may be covered by one group only",
            field=".resourceGroups",
        ),
        Rule(
            expression="!has(self.resourceGroups) || self.resourceGroups.all(g, g.flavors.all(f,"
            " self.resourceGroups.exists_one(h, h.flavors.exists(e, e.name == f.name))))",
            message="each flavor may stand in one group only",
            field=".resourceGroups",
        ),
    )

    cohort: DnsName | None = None
    """Queues of one cohort lend each other what they do not use."""
    namespace_selector: LabelSelector = LabelSelector()
    """The namespaces whose jobs may use this queue. Empty: all of them."""
    queueing_strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    """StrictFIFO: the oldest job blocks those behind it. BestEffortFIFO: smaller ones may pass."""
    resource_groups: Annotated[tuple[ResourceGroup, ...], Field(max_length=GROUPS_MAX)] = ()
    """Quota by resource and flavor."""
    preemption: Preemption = Preemption()
    """Whom a waiting job may displace."""
    stop_policy: StopPolicy = StopPolicy.NONE
    """Hold: nothing new is admitted. HoldAndDrain: admitted jobs are displaced too."""


class ResourceUsage(Model):
    """Usage of one resource of a flavor."""

    name: ResourceName
    """The resource."""
    total: Quantity
    """How much is used."""
    borrowed: Quantity = "0"
    """How much of that is borrowed from the cohort."""


class FlavorUsage(Model):
    """Usage of one flavor."""

    name: DnsName
    """The ResourceFlavor."""
    resources: Annotated[tuple[ResourceUsage, ...], Field(max_length=16, json_schema_extra=list_map("name"))] = ()
    """Usage by resource."""


class ClusterQueueStatus(Model):
    """What is used and what waits."""

    usage: Annotated[tuple[FlavorUsage, ...], Field(max_length=128, json_schema_extra=list_map("name"))] = ()
    """Usage by flavor."""
    pending: Count | None = None
    """Workloads that wait."""
    admitted: Count | None = None
    """Workloads that have their quota."""
    conditions: Conditions = ()
    """Active says whether the queue can admit anything, and if not, why; InUse what keeps it from being deleted."""


class ClusterQueue(Resource):
    """Quota for the jobs of many namespaces, and the order in which they get it."""

    definition: ClassVar[Definition] = Definition(
        plural="clusterqueues",
        short_names=("cq",),
        columns=(
            Column(name="Cohort", path=".spec.cohort"),
            Column(name="Strategy", path=".spec.queueingStrategy", wide=True),
            Column(name="StopPolicy", path=".spec.stopPolicy", wide=True),
            Column(name="Pending", path=".status.pending", type="integer"),
            Column(name="Admitted", path=".status.admitted", type="integer"),
            condition_column("Active"),
            AGE,
        ),
    )

    spec: ClusterQueueSpec
    status: ClusterQueueStatus = ClusterQueueStatus()


class LocalQueueSpec(Model):
    """Where jobs of this queue get their quota."""

    model_config = checked(immutable("clusterQueue"))

    cluster_queue: DnsName
    """The ClusterQueue that gives the quota."""


class LocalQueueStatus(Model):
    """What waits in this queue."""

    pending: Count | None = None
    """Workloads that wait."""
    admitted: Count | None = None
    """Workloads that have their quota."""
    conditions: Conditions = ()
    """Active says whether jobs of this queue can be admitted, and if not, why; InUse what keeps it from going."""


class LocalQueue(Resource):
    """Which ClusterQueue jobs of its namespace use. They name it in their label sluice.dev/queue-name."""

    definition: ClassVar[Definition] = Definition(
        plural="localqueues",
        short_names=("lq",),
        namespaced=True,
        columns=(
            Column(name="ClusterQueue", path=".spec.clusterQueue"),
            Column(name="Pending", path=".status.pending", type="integer"),
            Column(name="Admitted", path=".status.admitted", type="integer"),
            condition_column("Active"),
            AGE,
        ),
    )

    spec: LocalQueueSpec
    status: LocalQueueStatus = LocalQueueStatus()
