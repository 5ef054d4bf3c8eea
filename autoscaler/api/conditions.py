"""Conditions as they are written into a status: with the moment at which their status last changed. Pure."""

import functools
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Condition, ConditionStatus

MESSAGE_MAX: Final = 1024
RUNTIME_PAUSED: Final = "RuntimePaused"
"""On pools while the runtime is paused. Not just Paused: a worker pool may be that by itself, by its own spec."""


def written(kind: str, *, holds: bool, reason: str, message: str, before: Iterable[Condition], now: float) -> Manifest:
    """Write a condition; the time stays as it was where the status did not change."""
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    old = next((each for each in before if each.type == kind), None)
    since = old.last_transition_time if old is not None and old.status is status else datetime.fromtimestamp(now, UTC)
    return {
        "type": kind,
        "status": str(status),
        "reason": str(reason),
        "message": message[:MESSAGE_MAX],
        "lastTransitionTime": _stamp(since),
    }


@functools.lru_cache(maxsize=10_000)
def _stamp(since: datetime) -> str:
    """Write a time as Kubernetes does. Most conditions say what they said before, since the same moment."""
    return since.strftime("%Y-%m-%dT%H:%M:%SZ")
