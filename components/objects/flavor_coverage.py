"""Which flavors no node of the stack's own pools could serve. Pure: config and node groups in, warnings out.

Others may have such nodes, or label them later, so it is a warning and no error: the stack cannot know.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupSpec
from components.config.clusters import Cluster

_EVERYWHERE: Final = frozenset({keys.OS, keys.REGION})
"""Labels that kubelet and cloud give every node of ours, with a value that no pool chooses."""


def warnings(cluster: Cluster, groups: Sequence[NodeGroupSpec]) -> Iterator[str]:
    """Warn of each flavor whose labels no node group has, and that no declared pool of others' nodes may have."""
    selectors = [pool.specifications.node_selector or {} for pool in cluster.instance_pools.values()]
    for name, flavor in sorted(cluster.resource_flavors.items()):
        wanted = {key: value for key, value in flavor.node_labels.items() if key not in _EVERYWHERE}
        is_served = any(wanted.items() <= group.labels.items() for group in groups)
        if groups and not is_served and not any(_agree(wanted, selector) for selector in selectors):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            yield f"flavor {name}: no node pool has nodes with {labels}; jobs admitted to it wait until others have"


def _agree(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Tell whether a node that a selector chooses may have these labels."""
    return all(labels.get(key, value) == value for key, value in selector.items())
