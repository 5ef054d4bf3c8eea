"""Who uses a ClusterQueue, a LocalQueue or a flavor, and so keeps it from being deleted. Pure.

Used is what somebody has quota of: work that only waits uses nothing, or nothing could ever be deleted. A flavor is
also used by each ClusterQueue that names it.
"""

from collections.abc import Iterable
from typing import Final

from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.state import tally
from autoscaler.admission.state.tally import Place, Tally
from autoscaler.kube import objects

NAMED_MAX: Final = 3
"""So many are told by name."""


def of_cluster_queue(books: Books, counted: Tally, name: str) -> str:
    """Say who uses a ClusterQueue; empty: nobody does."""
    pods = "pods without a Workload" if books.usage.get(name) else ""
    return _workloads(counted, tally.cluster_queue(name)) or pods


def of_local_queue(counted: Tally, key: objects.Key) -> str:
    """Say who uses a LocalQueue; empty: nobody does."""
    return _workloads(counted, tally.local_queue(key))


def of_flavor(books: Books, counted: Tally, name: str) -> str:
    """Say who uses a flavor; empty: nobody does."""
    naming = sorted(each.name for each in books.queues.values() if any(key.flavor == name for key in each.quotas))
    queues = f"ClusterQueues: {_some(naming)}" if naming else ""
    workloads = _workloads(counted, tally.flavor(name))
    is_used = any(key.flavor == name for used in books.usage.values() for key in used)
    return "; ".join(filter(None, (queues, workloads))) or ("pods without a Workload" if is_used else "")


def _workloads(counted: Tally, place: Place) -> str:
    standing = counted.get(place)
    if standing is None or not standing.holders:
        return ""
    return f"Workloads: {_some([f'{key.namespace}/{key.name}' for key in sorted(standing.holders.values())])}"


def _some(names: Iterable[str]) -> str:
    there = list(names)
    more = len(there) - NAMED_MAX
    return ", ".join(there[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
