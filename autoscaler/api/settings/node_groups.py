"""The node groups that a stack makes, as JSON: what the stack's grid tells the runtime's simulation.

Values only. It must not plan, name or look up anything: the stack's grid does that, and writes it down here.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from autoscaler.api.resources.base import Model
from autoscaler.api.resources.pools import Architecture, CapacityType, InstanceTypeName, PoolName, ZoneName
from autoscaler.api.resources.types import Count, Labels, Quantities, Taint

TAGS_MAX = 50
"""AWS allows so many tags on an Auto Scaling group."""

_Positive = Annotated[int, Field(ge=1)]


@functools.total_ordering
class NodeGroupKey(Model):
    """Which node group: one pool, one zone, one instance type. Sorts by pool, then zone, then type."""

    pool: PoolName
    """The InstancePool it belongs to."""
    zone: ZoneName
    """Its one availability zone."""
    instance_type: InstanceTypeName
    """Its one instance type."""

    def __lt__(self, other: "NodeGroupKey") -> bool:
        """Compare by pool, then zone, then instance type."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, str, str]:
        return (self.pool, self.zone, self.instance_type)


class NodeGroupSpec(Model):
    """One Auto Scaling group: its bounds, and what a node of it is."""

    key: NodeGroupKey
    """Which node group."""
    name: Annotated[str, Field(min_length=1, max_length=255)]
    """The Auto Scaling group's name."""
    minimum: Count
    """The fewest instances it may have."""
    maximum: Count
    """The most instances it may have."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """on-demand or spot."""
    architecture: Architecture
    """The processors' architecture, as Kubernetes names it."""
    vcpus: _Positive
    """Virtual processors of an instance."""
    memory_bytes: _Positive
    """Memory of an instance."""
    gpus: Count = 0
    """NVIDIA GPUs of an instance."""
    max_pods: _Positive
    """The most pods a node takes."""
    labels: Labels = Field(default_factory=dict)
    """Labels that its nodes have."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=32)] = ()
    """Taints that its nodes have when they register."""
    resources: Quantities = Field(default_factory=dict)
    """Resources that a node has besides cpu and memory, such as nvidia.com/gpu."""
    tags: Annotated[dict[str, str], Field(max_length=TAGS_MAX)] = Field(default_factory=dict)
    """The Auto Scaling group's own tags."""

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"node group {self.name}: minimum {self.minimum} is above maximum {self.maximum}")
        return self


class NodeGroups(Model):
    """All node groups of a cluster."""

    cluster: Annotated[str, Field(min_length=1, max_length=100)]
    """The cluster's name."""
    region: Annotated[str, Field(min_length=1, max_length=32)]
    """The region it is in."""
    groups: tuple[NodeGroupSpec, ...] = ()
    """The node groups; no two have the same key or name."""

    @model_validator(mode="after")
    def _unique(self) -> Self:
        for what, values in (
            ("key", [group.key for group in self.groups]),
            ("name", [group.name for group in self.groups]),
        ):
            if len(set(values)) < len(values):
                twice = next(value for index, value in enumerate(values) if value in values[:index])
                raise ValueError(f"two node groups of cluster {self.cluster} have the {what} {twice!r}")
        return self

    def by_key(self) -> Mapping[NodeGroupKey, NodeGroupSpec]:
        """Return the groups by key, in order."""
        return {group.key: group for group in sorted(self.groups, key=lambda group: group.key)}

    def to_json(self) -> str:
        """Write it down, the same text for the same groups."""
        ordered = self.model_copy(update={"groups": tuple(self.by_key().values())})
        return ordered.model_dump_json(by_alias=True, indent=1)
