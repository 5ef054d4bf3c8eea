"""Keys of queues that Kueue has and Sluice has not, each with the reason: people bring their queues from there."""

from collections.abc import Mapping
from typing import Final

from components.config.base import Location

_HIERARCHY: Final = (
    "cohorts of cohorts are refused: what a queue may borrow would depend on every queue above and beside it, and "
    "nobody could tell from one queue why a job waits. Put the queues into one cohort and bound them by borrowingLimit"
)
_REASONS: Final[Mapping[str, str]] = {
    "lendingLimit": "lending limits are refused: quota that is neither used nor lent helps nobody, and reclaiming "
    "(preemption.reclaimWithinCohort) gives it back when it is needed. Keep a reserve in a queue without a cohort",
    "fairSharing": "fair sharing is refused: it evicts jobs because of what others run at the moment, so that who is "
    "evicted cannot be told from the queues. Use nominalQuota, borrowingLimit and priorities",
    "cohorts": _HIERARCHY,
    "parent": _HIERARCHY,
    "parentName": _HIERARCHY,
    "admissionChecks": "admission checks are refused, and with them MultiKueue: a job runs in the cluster that it is "
    "created in, and instances are started for it once its quota is granted",
}
_CLUSTER_DEPTH: Final = 2
"""A cluster's own keys stand below `clusters` and its name."""
_QUEUES: Final = frozenset({"clusterQueues", "localQueues", "cohorts"})


def reason(path: Location) -> str | None:
    """Say why an unknown key is refused; None where it is only unknown."""
    inside = path[_CLUSTER_DEPTH:]
    is_of_queues = bool(inside) and path[0] == "clusters" and inside[0] in _QUEUES
    return _REASONS.get(str(path[-1])) if is_of_queues else None
