"""Built-in objects as the API server sends them: only the fields that are read, in the form msgspec decodes fastest."""

from datetime import datetime
from typing import Final

import msgspec


class _Struct(msgspec.Struct, rename="camel", gc=False, frozen=True, omit_defaults=True):
    pass


class OwnerReference(_Struct, frozen=True):
    kind: str
    name: str
    uid: str
    controller: bool = False
    api_version: str = ""


class ObjectMeta(_Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(_Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: datetime | None = None


Amounts = dict[str, str | int | float]


class Resources(_Struct, frozen=True):
    requests: Amounts = {}
    limits: Amounts = {}


class Port(_Struct, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(_Struct, frozen=True):
    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    ports: tuple[Port, ...] = ()


class Gate(_Struct, frozen=True):
    name: str


class Claim(_Struct, frozen=True):
    claim_name: str = ""


class Ephemeral(_Struct, frozen=True):
    pass


class Volume(_Struct, frozen=True):
    name: str
    persistent_volume_claim: Claim | None = None
    ephemeral: Ephemeral | None = None


class Requirement(_Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(_Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeTerm(_Struct, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(_Struct, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(_Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class PodTerm(_Struct, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(_Struct, frozen=True):
    required: tuple[PodTerm, ...] = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=())


class Affinity(_Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Struct, frozen=True):
    key: str = ""
    operator: str = ""
    """Empty: Equal. Kept as it was sent, since a toleration may be written back only unchanged."""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Spread(_Struct, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ResourceClaim(_Struct, frozen=True):
    name: str


class PodSpec(_Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    restart_policy: str = "Always"
    priority: int = 0
    scheduling_gates: tuple[Gate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Amounts = {}
    resources: Resources = Resources()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()


class Waiting(_Struct, frozen=True):
    reason: str = ""


class Terminated(_Struct, frozen=True):
    finished_at: datetime | None = None


class ContainerState(_Struct, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Struct, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()
    allocated_resources: Amounts = {}
    resources: Resources = Resources()


class PodStatus(_Struct, frozen=True):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_Struct, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class Taint(_Struct, frozen=True):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class NodeSpec(_Struct, frozen=True):
    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_Struct, frozen=True):
    capacity: Amounts = {}
    allocatable: Amounts = {}
    conditions: tuple[Condition, ...] = ()


class Node(_Struct, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Simple(_Struct, frozen=True):
    metadata: ObjectMeta


class Event(_Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _VersionMeta(_Struct, frozen=True):
    name: str
    namespace: str = ""
    resource_version: str = "0"


class Version(_Struct, frozen=True):
    """Which object it is, and which version of it."""

    metadata: _VersionMeta


class ListMeta(_Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Listing(_Struct, frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: list[msgspec.Raw] = []


class _DeletedMeta(_Struct, frozen=True):
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int = 0


class Deleted(_Struct, frozen=True):
    """The answer to a deletion: a Status, or the object as it was or still is."""

    kind: str = ""
    metadata: _DeletedMeta = _DeletedMeta()

    @property
    def is_gone(self) -> bool:
        """Tell whether nothing holds the object any more."""
        return self.kind == "Status" or not (self.metadata.finalizers or self.metadata.deletion_grace_period_seconds)

    @property
    def is_let_go(self) -> bool:
        """Tell whether a change took away the last thing that held an object whose deletion was asked for."""
        return self.metadata.deletion_timestamp is not None and self.is_gone


POD: Final = msgspec.json.Decoder(Pod)
NODE: Final = msgspec.json.Decoder(Node)
SIMPLE: Final = msgspec.json.Decoder(Simple)
VERSION: Final = msgspec.json.Decoder(Version)
EVENT: Final = msgspec.json.Decoder(Event)
LISTING: Final = msgspec.json.Decoder(Listing)
DELETED: Final = msgspec.json.Decoder(Deleted)
