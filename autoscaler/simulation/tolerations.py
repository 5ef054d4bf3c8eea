"""Taints and tolerations, as the scheduler and the node lifecycle controller read them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from autoscaler.api.manifests import Manifest


def tolerates(tolerations: Iterable[Manifest], taint: Manifest) -> bool:
    """Tell whether any toleration covers a taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def seconds(tolerations: Sequence[Manifest], taints: Sequence[Manifest]) -> float | None:
    """Return how long a pod may stay under NoExecute taints: 0 if it must go, None for good."""
    shortest: float | None = None
    for taint in taints:
        covering = [toleration for toleration in tolerations if _covers(toleration, taint)]
        if not covering:
            return 0.0
        limits = [toleration["tolerationSeconds"] for toleration in covering if "tolerationSeconds" in toleration]
        if limits:
            limit = max(float(min(limits)), 0.0)
            shortest = limit if shortest is None else min(shortest, limit)
    return shortest


def seconds_left(tolerations: Sequence[Manifest], taints: Sequence[Manifest], now: float) -> float | None:
    """Return how much longer a pod may stay, counted from when the taints came."""
    allowed = seconds(tolerations, taints)
    if allowed is None:
        return None
    since = max((_added(taint, now) for taint in taints), default=now)
    return max(since + allowed - now, 0.0)


def _covers(toleration: Manifest, taint: Manifest) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _added(taint: Manifest, now: float) -> float:
    said = taint.get("timeAdded")
    return datetime.fromisoformat(said).timestamp() if said else now
