"""What InstancePools say about themselves: their groups, their instances, and what is wrong. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Condition
from autoscaler.api.resources.pools import NODE_GROUPS_MAX, InstancePool
from autoscaler.capacity import offers, templates
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud

READY: Final = "Ready"
MESSAGE_MAX: Final = 1024
CPU: Final = "cpu"


def changes(pool: InstancePool, snapshot: Snapshot, problem: str | None) -> Manifest:
    """Return the fields of a pool's status that must be written; empty if it says all this already.

    `problem` is why the pool's account cannot be used; None: it can.
    """
    written = pool.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    groups = [group for group in snapshot.groups if group.key.pool == pool.metadata.name]
    wanted: dict[str, Any] = {
        "activeInstances": offers.active(snapshot, pool.metadata.name),
        "conditions": [_ready(pool, groups, problem, snapshot.now)],
    }
    if problem is None:  # of an account that cannot be read, what was read last stands
        wanted["nodeGroups"] = [_group(snapshot, group) for group in groups[:NODE_GROUPS_MAX]]
    return {key: value for key, value in wanted.items() if written.get(key) != value}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Write amounts as Kubernetes does."""
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in sorted(amounts.items())}


def _group(snapshot: Snapshot, group: cloud.NodeGroup) -> Manifest:
    template = templates.of(snapshot, group)
    unavailable = snapshot.unavailable.get(group.key)
    refused = offers.refusal(snapshot, group, template)
    stated: Manifest = {
        "name": group.name,
        "zone": group.key.zone,
        "instanceType": group.key.instance_type,
        "minimum": group.minimum,
        "maximum": group.maximum,
        "desired": group.desired,
        "instances": len(group.members),
        "allocatable": quantities(template.allocatable) if template else {},
        "labels": dict(sorted(template.labels.items())) if template else {},
        "taints": [taint.model_dump(mode="json", by_alias=True) for taint in group.node.taints],
    }
    if unavailable is not None and unavailable.until > snapshot.now:
        stated["unavailableUntil"] = clock.to_rfc3339(unavailable.until)
        stated["reason"] = f"{unavailable.reason}: {unavailable.message}"[:MESSAGE_MAX]
    elif refused is not None:
        stated["reason"] = refused[:MESSAGE_MAX]
    return stated


def _ready(pool: InstancePool, groups: list[cloud.NodeGroup], problem: str | None, now: float) -> Manifest:
    if problem is not None:
        stated = _condition("AccountUnusable", problem, holds=False)
    elif not groups:
        why = f"no Auto Scaling group is tagged for this cluster and pool {pool.metadata.name}"
        stated = _condition("NoNodeGroups", why, holds=False)
    elif not pool.spec.enabled:
        stated = _condition("Disabled", "nothing is asked for; what runs goes on", holds=True)
    else:
        stated = _condition("Usable", "", holds=True)
    return _dated(stated, pool.status.conditions, now)


def _condition(reason: str, message: str, *, holds: bool) -> Manifest:
    return {"type": READY, "status": "True" if holds else "False", "reason": reason, "message": message[:MESSAGE_MAX]}


def _dated(condition: Manifest, written: tuple[Condition, ...], now: float) -> Manifest:
    before = next((each for each in written if each.type == condition["type"]), None)
    same = before is not None and str(before.status) == condition["status"]
    since = before.last_transition_time.timestamp() if before is not None and same else now
    return {**condition, "lastTransitionTime": clock.to_rfc3339(since)}
