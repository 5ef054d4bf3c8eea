"""Machine and MachineNodePool: machine types with room held for them on chosen nodes (seed 001)."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api import keys, names
from autoscaler.api.resources.base import (
    AGE,
    Column,
    Conditions,
    Definition,
    Model,
    Named,
    Resource,
    Rule,
    checked,
    condition_column,
    immutable,
    list_map,
    name_rule,
    rules,
)
from autoscaler.api.resources.types import Count, DnsLabel, DnsName, LabelKey, LabelValue, PositiveQuantity

TYPES_MAX = 32
NODES_MAX = 128
STATES_MAX = 5000
SELECTOR_MAX = 8


class NodeMode(StrEnum):
    READY = "ready"
    MAINTENANCE = "maintenance"


class NodeCondition(StrEnum):
    READY = "Ready"
    MAINTENANCE = "Maintenance"
    NOT_READY = "NotReady"


class GpuType(StrEnum):
    NVIDIA = "nvidia.com/gpu"


class MachineTypeRef(Model):
    """A machine type of the same Machine."""

    name: DnsLabel
    """The machine type's name."""


NodeSelector = Annotated[
    dict[LabelKey, LabelValue],
    Field(
        min_length=1,
        max_length=SELECTOR_MAX,
        json_schema_extra=rules(
            Rule(
                expression=f"self.all(key, key != '{keys.NODE_POOL}' && !key.startsWith('{keys.machine_label('')}'))",
                message=f"nodes cannot be selected by {keys.NODE_POOL} or {keys.machine_label('')}<type>, which the"
                " operator puts on them",
            ),
        ),
    ),
]


class NodePoolEntry(Model):
    """One node, or all nodes with certain labels, and the machine type they serve."""

    model_config = checked(
        Rule(
            expression="has(self.name) != has(self.nodeSelector)",
            message="exactly one of name and nodeSelector must be given",
            field=".name",
        ),
    )

    name: DnsName | None = None
    """The name of a node. Exactly one of name and nodeSelector must be given."""
    node_selector: NodeSelector | None = None
    """Labels of the nodes meant; nodes that come later join by themselves. An entry that names a node goes before one
    that selects it, and of those that select it the first counts."""
    mode: NodeMode
    """ready: the nodes take guests. maintenance: nothing new is put there."""
    taint: bool = False
    """Keep all other pods off these nodes."""
    machine_type: Annotated[tuple[MachineTypeRef, ...], Field(min_length=1, max_length=1)]
    """The machine type these nodes serve: exactly one."""


NodePoolEntries = Annotated[
    tuple[NodePoolEntry, ...],
    Field(
        max_length=NODES_MAX,
        json_schema_extra=rules(
            Rule(
                expression="self.filter(n, has(n.name)).all(n, self.exists_one(m, has(m.name) && m.name == n.name))",
                message="each node may be named once only",
            ),
            Rule(
                expression="self.filter(n, has(n.nodeSelector))"
                ".all(n, self.exists_one(m, has(m.nodeSelector) && m.nodeSelector == n.nodeSelector))",
                message="each nodeSelector may be given once only",
            ),
        ),
    ),
]


class Gpu(Model):
    """GPUs of one machine."""

    model_config = checked(
        Rule(
            expression="[has(self.family), has(self.product), has(self.machine)].exists_one(given, given)",
            message="exactly one of family, product and machine must be given",
        ),
    )

    type: GpuType
    """The GPU's resource name. Only nvidia.com/gpu is supported."""
    num: Annotated[int, Field(ge=1, le=1024)]
    """How many GPUs a machine has."""
    family: LabelValue | None = None
    """Runs on nodes whose label nvidia.com/gpu.family has this value, such as ampere."""
    product: LabelValue | None = None
    """Runs on nodes whose label nvidia.com/gpu.product has this value, such as NVIDIA-GeForce-RTX-3090."""
    machine: LabelValue | None = None
    """Runs on nodes whose label nvidia.com/gpu.machine has this value, such as DGX-1."""


class Dependence(Model):
    """Makes a machine type a fraction of another one."""

    parent: DnsLabel
    """The machine type this one is cut from."""
    available_ratio: Annotated[int, Field(ge=1, le=100)]
    """How much of the parent's cpu and memory this type has, in percent, rounded down."""


class MachineTypeSpec(Model):
    """The resources of one machine."""

    model_config = checked(
        Rule(
            expression="has(self.dependence) || (has(self.cpu) && has(self.memory))",
            message="cpu and memory must both be given, unless dependence says what to derive them from",
            field=".cpu",
        ),
    )

    cpu: PositiveQuantity | None = None
    """CPU of one machine, such as 6000m."""
    memory: PositiveQuantity | None = None
    """Memory of one machine, such as 48Gi."""
    gpu: Gpu | None = None
    """GPUs of one machine."""
    host_limit: Annotated[int, Field(ge=1, le=100)] | None = None
    """The most that one machine may take of a node's allocatable cpu, of its memory and of its GPUs, in percent. On
    a node where it would take more, the type is not offered."""
    dependence: Dependence | None = None
    """Derive cpu and memory, where they are left out, from another machine type."""


class MachineType(Model):
    """A kind of machine that guests may ask for by name."""

    name: DnsLabel
    """The name guests ask for."""
    spec: MachineTypeSpec
    available: Annotated[int, Field(ge=0, le=10_000)]
    """How many machines of this type there are at most."""


class MachineSpec(Model):
    """The nodes of a machine group and the machines on them."""

    model_config = checked(
        Rule(
            expression="self.nodePool.all(n, n.machineType.all(t, self.machineTypes.exists(m, m.name == t.name)))",
            message="every machineType of a node must be one of machineTypes",
            field=".nodePool",
        ),
        Rule(
            expression="self.machineTypes.all(m, !has(m.spec.dependence)"
            " || self.machineTypes.exists(p, p.name == m.spec.dependence.parent && !has(p.spec.dependence)))",
            message="dependence.parent must be one of machineTypes, and must not depend on another type itself",
            field=".machineTypes",
        ),
    )

    node_pool: NodePoolEntries
    """The nodes of this group. A node belongs to one group at most."""
    machine_types: Annotated[
        tuple[MachineType, ...], Field(min_length=1, max_length=TYPES_MAX, json_schema_extra=list_map("name"))
    ]
    """The kinds of machine this group offers, unique by name."""
    provision: bool = False
    """Let the room held for guests pull nodes from zero and keep them (a warm pool)."""


class Usage(Model):
    """How many machines of a type are what."""

    maximum: Count
    """How many there are at most."""
    reserved: Count
    """How many are free, their room held on a node."""
    used: Count
    """How many run a guest."""
    waiting: Count
    """How many guests wait for one."""


class AvailableMachine(Model):
    """The usage of one machine type."""

    name: DnsLabel
    """The machine type's name."""
    usage: Usage
    """How many machines of this type are what."""


class MachineStatus(Model):
    """What the operator last saw."""

    conditions: Conditions = ()
    """Ready says whether all room is held that should be; NodesReady whether all nodes that should take guests do."""
    available_machines: Annotated[
        tuple[AvailableMachine, ...], Field(max_length=TYPES_MAX, json_schema_extra=list_map("name"))
    ] = ()
    """The usage of each machine type."""
    total: Usage | None = None
    """The usage of all machine types together."""


def _reason_column(condition: str) -> Column:
    return Column(name="Reason", path=f'.status.conditions[?(@.type=="{condition}")].reason', wide=True)


_USAGE_COLUMNS = tuple(
    Column(name=name.capitalize(), path=f".status.total.{name}", type="integer")
    for name in ("maximum", "reserved", "used", "waiting")
)


class Machine(Resource):
    """A machine group: machine types, how many of each, and the nodes that hold room for them.

    Its label sluice.dev/machine-group must equal its name.
    """

    definition: ClassVar[Definition] = Definition(
        plural="machines",
        short_names=("mc",),
        columns=(
            condition_column("Ready"),
            condition_column("NodesReady"),
            *_USAGE_COLUMNS,
            Column(name="Provision", path=".spec.provision", type="boolean", wide=True),
            _reason_column("Ready"),
            AGE,
        ),
        rules=(
            name_rule(names.LABEL_VALUE_MAX, "it is the machine group's name on nodes and pods"),
            Rule(
                expression="self.spec.machineTypes.all(t,"
                f" t.name.size() + 1 + self.metadata.name.size() <= {names.STATEFUL_SET_MAX})",
                message="a machine type's name and metadata.name must have at most"
                f" {names.STATEFUL_SET_MAX - 1} characters together: a StatefulSet is named <type>-<group>",
                field=".spec.machineTypes",
            ),
        ),
    )

    spec: MachineSpec
    status: MachineStatus = MachineStatus()


class MachineNodePoolSpec(Model):
    """A copy of the Machine's nodes, and all its types. Written by the operator."""

    model_config = checked(immutable("machineGroup"))

    machine_group: DnsLabel
    """The machine group, which is the Machine's name."""
    node_pool: NodePoolEntries
    """The nodes of the group, as the Machine says."""
    machine_type_stock: Annotated[tuple[Named, ...], Field(max_length=TYPES_MAX, json_schema_extra=list_map("name"))]
    """All machine types of the group."""


class NodeState(Model):
    """The state of one node."""

    name: DnsName
    """The node's name."""
    condition: NodeCondition
    """Ready takes guests; Maintenance was asked for; NotReady is missing, unhealthy, or another group's."""
    message: Annotated[str, Field(max_length=256)] | None = None
    """Why it does not take all the guests that it should."""


class MachineNodePoolStatus(Model):
    """The state of the group's nodes."""

    conditions: Conditions = ()
    """Ready says whether all nodes that should take guests do."""
    node_pool: Annotated[tuple[NodeState, ...], Field(max_length=STATES_MAX, json_schema_extra=list_map("name"))] = ()
    """The state of each node, or of the first 5000 by name."""
    nodes: Count = 0
    """How many nodes the group has, missing ones among them."""
    ready_nodes: Count = 0
    """How many of them take guests."""


class MachineNodePool(Resource):
    """The nodes of a machine group as the operator sees them. Made by the operator for each Machine."""

    definition: ClassVar[Definition] = Definition(
        plural="machinenodepools",
        short_names=("mnp",),
        columns=(
            Column(name="MachineGroup", path=".spec.machineGroup"),
            condition_column("Ready"),
            Column(name="Nodes", path=".status.nodes", type="integer"),
            Column(name="ReadyNodes", path=".status.readyNodes", type="integer"),
            _reason_column("Ready"),
            AGE,
        ),
        rules=(
            Rule(
                expression="self.metadata.name == self.spec.machineGroup + '-node-pool'",
                message="metadata.name must be <machineGroup>-node-pool",
            ),
        ),
    )

    spec: MachineNodePoolSpec
    status: MachineNodePoolStatus = MachineNodePoolStatus()
