"""What pods are told: for which group a node is started, or why none is. Pure; in the cluster-autoscaler's form."""

from collections.abc import Iterable

from autoscaler.capacity.decide import Launch
from autoscaler.capacity.model import Rejection

TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"
_GROUPS_SHOWN = 3


def triggered(launches: Iterable[Launch]) -> str:
    """Say which groups grow for a pod."""
    grown = " ".join(f"{{{each.group} {each.before}->{each.after} (max: {each.maximum})}}" for each in launches)
    return f"pod triggered scale-up: [{grown}]"


def not_triggered(rejections: Iterable[Rejection]) -> str:
    """Say why no group grows for a pod: each reason with the groups that say so and the numbers compared."""
    return f"pod didn't trigger scale-up: {'; '.join(map(_with_groups, rejections)) or 'there is no node group'}"


def rejection(each: Rejection) -> str:
    """Say why a group does not take a pod, with the numbers compared."""
    numbers = ""
    if each.wanted is not None and each.available is not None:
        numbers = f" (wants {each.wanted}, has {each.available})"
    return f"{each.reason}{f': {each.what}' if each.what else ''}{numbers}"


def _with_groups(each: Rejection) -> str:
    where = f"{len(each.groups)} " if each.groups else ""
    shown = ", ".join(f"{key.pool}/{key.zone}/{key.instance_type}" for key in each.groups[:_GROUPS_SHOWN])
    return f"{where}{rejection(each)}" + (f" [{shown}]" if shown else "")
