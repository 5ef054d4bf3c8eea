"""The group list: which node groups the stack's file gives a pool, as JSON in a ConfigMap of the runtime's namespace.

The stack writes one for each pool, and another one when the pool's groups change; none is ever changed. Deleting one
asks the runtime to drain the groups that no other list of the pool has.
"""

from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.base import Model
from autoscaler.api.resources.pools import PoolName
from autoscaler.api.settings.node_groups import NodeGroupKey

FIELD: Final = "groups.json"
"""The key of the ConfigMap's data."""


class GroupList(Model):
    """The node groups of one pool."""

    cluster: Annotated[str, Field(min_length=1, max_length=100)]
    """The cluster's name, which the names of its groups begin with."""
    pool: PoolName
    """The InstancePool."""
    groups: tuple[NodeGroupKey, ...]
    """Those that it has."""
