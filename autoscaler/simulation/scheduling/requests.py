"""What a pod asks a node for: the effective request, in thousandths of a cpu and whole units of all else."""

from collections.abc import Iterable, Mapping
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import shapes

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
Amounts = dict[str, int]


def effective(spec: Manifest) -> Amounts:
    """Add up containers and sidecars, or the largest moment of the start-up if that is more, and the overhead."""
    running = _sum(_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            peak = _largest(peak, sidecars)
        else:
            peak = _largest(peak, _sum((sidecars, asked)))
    whole = _largest(_sum((running, sidecars)), peak)
    whole.update(amounts((spec.get("resources") or {}).get("requests") or {}))
    return _sum((whole, amounts(spec.get("overhead") or {})))


def amounts(given: Mapping[str, str | int]) -> Amounts:
    """Read quantities by resource name."""
    return {name: amount(name, value) for name, value in given.items()}


def amount(name: str, value: str | int) -> int:
    return shapes.amount(name, value)


def _requests(container: Manifest) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests") or {})


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _largest(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
