"""The words for what was decided about capacity: all of them, and nowhere is one read back. Pure.

Pods are told in the cluster-autoscaler's form for which group a node is started, or why none is.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

from autoscaler import units
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.model import ATTACHABLE, Limit, LimitKind, Reason, Rejection
from autoscaler.capacity.plan import Launch
from autoscaler.capacity.scaleup.limits import budgets
from autoscaler.capacity.scaleup.scopes.latency import Patience
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.kube import shapes

TRIGGERED: Final = "TriggeredScaleUp"
NOT_TRIGGERED: Final = "NotTriggerScaleUp"
Cause = tuple[tuple[str, tuple[NodeGroupKey, ...]], ...]
"""Why pods wait, without what changes from one moment to the next: the words, and the groups that say so."""
_GROUPS_SHOWN: Final = 3
_REASONS_SHOWN: Final = 3
_FAR: Final = frozenset(
    {
        Reason.NOT_ALLOWED,
        Reason.NO_POOL,
        Reason.LEAVING,
        Reason.GROUP_LEAVING,
        Reason.DISABLED,
        Reason.UNKNOWN_TYPE,
        Reason.ARCHITECTURE,
        Reason.SELECTOR,
        Reason.AFFINITY,
        Reason.TAINT,
        Reason.VOLUME_ZONE,
        Reason.INSUFFICIENT,
    }
)
"""What neither time nor a larger limit changes; all other reasons are told before."""
_ORDER: Final = {reason: number for number, reason in enumerate(Reason)}

_REASONS: Final[Mapping[Reason, str]] = {
    Reason.UNSUPPORTED: "not planned for: {what}",
    Reason.NO_CLAIM: "its volume claim {what} does not exist",
    Reason.CLAIM_LEAVING: "its volume claim {what} is being deleted",
    Reason.CLAIM_LOST: "its volume claim {what} has lost its volume",
    Reason.CLAIM_UNBOUND: "its volume claim {what} has no volume yet, and its class {message} makes it before pods run",
    Reason.CLAIM_WITHOUT_CLASS: "its volume claim {what} has no volume and no StorageClass that makes one",
    Reason.NO_STORAGE_CLASS: "its volume claim {what} names StorageClass {message}, which does not exist",
    Reason.VOLUME_NODE_GONE: "its volume is on node {what}, which is gone",
    Reason.NO_GROUPS: "there is no node group",
    Reason.NOT_ALLOWED: "the pod's scope does not use this pool",
    Reason.OTHER_AUTOSCALER: "{what} scales this cluster's nodes",
    Reason.AUTOSCALERS_UNSEEN: "whether another autoscaler scales this cluster's nodes cannot be seen: {message}",
    Reason.NO_POOL: "there is no InstancePool {what}",
    Reason.LEAVING: "the pool is being removed",
    Reason.GROUP_LEAVING: "the group is being removed from its pool",
    Reason.DISABLED: "the pool is disabled",
    Reason.UNKNOWN_TYPE: "nobody knows the instance type {what}",
    Reason.ARCHITECTURE: "its instances are {what}, and the pool's architectures are {message}",
    Reason.NO_ANSWER: "account {what} does not answer: {message}",
    Reason.UNAVAILABLE: "unavailable{still} ({what}): {message}",
    Reason.SUSPENDED: "somebody has suspended launches of the group",
    Reason.NO_PRICE: "targetMaxCostPerMonth is {wanted} and {what} has no price: add it to the stack's prices",
    Reason.STATED: "{message}",
    Reason.MISSED: "an empty node of {what} did not take such a pod although it had room",
    Reason.LOW_PRIORITY: "no instance is started for priority {wanted}, below {available}",
    Reason.SELECTOR: "its nodes do not have the label {what}",
    Reason.AFFINITY: "its nodes do not match the pod's node affinity",
    Reason.TAINT: "the pod does not tolerate the taint {what}",
    Reason.HOST_PORT: "a DaemonSet uses port {what} of its nodes",
    Reason.VOLUME_ZONE: "the pod's volume is in zone {what}",
    Reason.VOLUME_NODE: "the pod's volume is on node {what}",
    Reason.INSUFFICIENT: "{what}: wants {wanted}, has {available}",
    Reason.AT_MAXIMUM: "the group has {wanted} of at most {available}",
    Reason.LIMIT: "{numbers}",
    Reason.PATIENCE: "{numbers}",
    Reason.NO_LABEL: "the pod must be near others by {what}, and its nodes are not known to have that label",
    Reason.LABEL_AFFINITY: "no pod that this one must be near has the {what} of its nodes",
    Reason.HOST_AFFINITY: "the pod must share a node with one that it names, and no node that has one has room",
    Reason.NO_HOST: "all {wanted} pods must share one node, and none takes them all",
    Reason.ZONE_SPREAD: "one more in zone {what} makes a skew of {wanted}, and the pod allows {available}",
    Reason.ZONE_AFFINITY: "no pod that this one must be near is in zone {what}",
    Reason.ZONE_ANTI_AFFINITY: "zone {what} has a pod that must not be near this one",
    Reason.NO_ZONE: "no zone takes all {wanted} pods of {what}: at most {available}, with what would be started",
}
_LIMITS: Final[Mapping[LimitKind, str]] = {
    LimitKind.POOL_INSTANCES: "the pool has {used} of at most {most} instances",
    LimitKind.CLUSTER_NODES: "the cluster has {used} of at most {most} nodes",
    LimitKind.CLUSTER_CPU: "the cluster has {used} of at most {most} cores",
    LimitKind.LAUNCHES: "{used} of at most {most} instances were started within a minute",
    LimitKind.POOL_SECONDS: "the pool may use {most} of instances a month",
    LimitKind.SCOPE_SECONDS: "scope {scope} may use {most} of instances a month in pool {pool}",
    LimitKind.POOL_COST: "the pool may cost {most} a month",
    LimitKind.STATED: "{message}",
}
_MONTHLY: Final = frozenset({LimitKind.POOL_SECONDS, LimitKind.SCOPE_SECONDS, LimitKind.POOL_COST})


def triggered(launches: Iterable[Launch]) -> str:
    """Say which groups grow for a pod."""
    grown = " ".join(f"{{{each.group} {each.before}->{each.after} (max: {each.maximum})}}" for each in launches)
    return f"pod triggered scale-up: [{grown}]"


def not_triggered(rejections: Iterable[Rejection]) -> str:
    """Say why no group grows for a pod: the reasons of the groups that come nearest, with the numbers compared."""
    near = _nearest_first(rejections)
    said = "; ".join(map(_with_groups, near[:_REASONS_SHOWN])) or _REASONS[Reason.NO_GROUPS]
    groups = sum(len(each.groups) for each in near)
    is_all = len(near) <= _REASONS_SHOWN and all(len(each.groups) <= _GROUPS_SHOWN for each in near)
    rest = "" if is_all else f"; `python -m autoscaler explain pod` lists all {groups} groups"
    return f"pod didn't trigger scale-up: {said}{rest}"


def nearest(rejections: Iterable[Rejection]) -> Reason:
    """Return the reason of the group that comes nearest to taking a pod."""
    return next((each.reason for each in _nearest_first(rejections)), Reason.NO_GROUPS)


def cause(rejections: Iterable[Rejection]) -> Cause:
    """Return by what a cause is known to be another one than before."""
    return tuple((lasting(each), each.groups) for each in rejections)


def rejection(each: Rejection) -> str:
    """Say why a group does not take a pod, with the numbers compared."""
    numbers = limit(each.numbers) if isinstance(each.numbers, Limit) else _patience(each.numbers)
    return _worded(each, numbers, still=f" for {units.duration(each.wanted or 0)} more")


def lasting(each: Rejection) -> str:
    """Say the same without what changes from one moment to the next, for a status."""
    numbers = _most(each.numbers) if isinstance(each.numbers, Limit) else _target(each.numbers)
    return _worded(each, numbers)


def limit(each: Limit) -> str:
    """Say what a limit allows and how much of it is used."""
    if each.kind not in _MONTHLY:
        return _most(each)
    used, expected, one = (_amount(each, amount) for amount in (each.used, each.expected, each.each))
    return f"{_most(each)}: {used} used, {expected} expected, one more takes {one}"


def limits(rejections: Iterable[Rejection]) -> list[dict[str, Any]]:
    """Return the limits that hold a pod back, as the log has them: whoever reads it needs no words."""
    return [dataclasses.asdict(each.numbers) for each in rejections if isinstance(each.numbers, Limit)]


def warning(budget: Limit) -> str:
    """Say how far a budget is used, in few steps: what changes each minute is the metric."""
    if budgets.state(budget) is budgets.State.WITHIN:
        return ""
    percent = 100 if budgets.is_spent(budget) else budgets.WARNING_PERCENT
    used = f"{percent} % or more is used" if budgets.is_near(budget) else "what runs is expected to use it up"
    return f"{_most(budget)}: {used}"


def _nearest_first(rejections: Iterable[Rejection]) -> list[Rejection]:
    return sorted(rejections, key=lambda each: (each.reason in _FAR, -_ORDER[each.reason]))


def _with_groups(each: Rejection) -> str:
    if not each.groups:
        return rejection(each)
    shown = [f"{key.pool}/{key.zone}/{key.instance_type}" for key in each.groups[:_GROUPS_SHOWN]]
    shown += ["…"] if len(each.groups) > _GROUPS_SHOWN else []
    return f"{rejection(each)} ({units.counted(len(each.groups), 'group')}: {', '.join(shown)})"


def _worded(each: Rejection, numbers: str, still: str = "") -> str:
    wanted, available = each.wanted or 0, each.available or 0
    return _REASONS[each.reason].format(
        what=_volumes(each.what) if each.what.startswith(ATTACHABLE) else each.what,
        message=each.message or "no more is known",
        wanted=_quantity(each.what, wanted) if each.reason is Reason.INSUFFICIENT else wanted,
        available=_quantity(each.what, available) if each.reason is Reason.INSUFFICIENT else available,
        numbers=numbers,
        still=still,
    )


def _volumes(resource: str) -> str:
    return f"volumes of {storage.driver(resource)} on one node"


def _quantity(resource: str, amount: int) -> str:
    return units.size(amount) if shapes.is_bytes(resource) else shapes.worded(resource, amount)


def _most(each: Limit) -> str:
    used, most = _amount(each, each.used), _amount(each, each.most)
    return _LIMITS[each.kind].format(pool=each.pool, scope=each.scope, used=used, most=most, message=each.message)


def _amount(each: Limit, amount: int) -> str:
    match each.kind:
        case LimitKind.POOL_SECONDS | LimitKind.SCOPE_SECONDS:
            return units.duration(amount)
        case LimitKind.POOL_COST:
            return units.money(amount)
        case LimitKind.CLUSTER_CPU:
            return shapes.worded(shapes.CPU, amount)
        case LimitKind.POOL_INSTANCES | LimitKind.CLUSTER_NODES | LimitKind.LAUNCHES | LimitKind.STATED:
            return str(amount)


def _patience(each: Patience | None) -> str:
    if each is None:
        return ""
    boot, mean = units.duration(each.target.boot_seconds), units.duration(each.target.mean_seconds)
    return (
        f"{each.slots} of {each.waiting} waiting pods get a slot now, {each.busy} slots are busy; the others wait for"
        f" one that is free in time, or sooner than a new one ({_target(each)}, boot {boot}, a pod runs {mean})"
    )


def _target(each: Patience | None) -> str:
    return f"target {units.duration(each.target.target_seconds or 0)}" if each is not None else ""
