"""What the upstream cluster-autoscaler cannot do, where the config asks it of pools that it scales."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from components.config.autoscaler import NodeScaler
from components.config.base import Problem

if TYPE_CHECKING:
    from components.config.clusters import Cluster

_WORDS: Final = "goes with nodeScaler: native; the upstream cluster-autoscaler"
_LIMITS: Final = {
    "max_active_instances": ("maxActiveInstances", "knows no limit of a whole pool: use maxPerGroup"),
    "target_max_seconds_per_month": ("targetMaxSecondsPerMonth", "counts no seconds"),
}


def upstream(cluster: Cluster) -> Iterator[Problem]:
    """Refuse what nobody would keep. A pool's idle time is told by a tag, and its money by AWS' own budget."""
    if cluster.autoscaler.node_scaler is NodeScaler.NATIVE:
        return
    for name, pool in cluster.node_pools.items():
        here = ("nodePools", name)
        if pool.ephemeral:
            message = f"{_WORDS} takes no taint off, and no pod would ever run there"
            yield Problem(path=(*here, "ephemeral"), value=True, message=message)
        if not pool.enabled:
            yield Problem(path=(*here, "enabled"), value=False, message=f"{_WORDS} scales every group that it finds")
        for field, (key, reason) in _LIMITS.items():
            value = getattr(pool.limits, field)
            if value is not None:
                yield Problem(path=(*here, "limits", key), value=value, message=f"{_WORDS} {reason}")


def warnings(cluster: Cluster) -> Iterator[str]:
    """Name limits that are told and not kept."""
    if cluster.autoscaler.node_scaler is NodeScaler.NATIVE:
        return
    for name, pool in cluster.node_pools.items():
        if pool.limits.target_max_cost_per_month is not None:
            yield (
                f"node pool {name}: targetMaxCostPerMonth is a budget that tells sluice:alarms and stops nothing: "
                "nodeScaler is cluster-autoscaler"
            )
