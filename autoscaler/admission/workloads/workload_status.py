"""What is written into a Workload's status. Pure. A merge patch replaces lists whole, so each is written whole."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler import clock
from autoscaler.admission.workloads.workload import Admission, ConditionType, Requeue, Workload
from autoscaler.api import conditions
from autoscaler.api.manifests import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A condition as it should be."""

    type: ConditionType
    holds: bool
    reason: str
    message: str


def with_conditions(workload: Workload, changes: Iterable[Change], now: float) -> list[Manifest]:
    """Write all conditions of a Workload, some of them changed; the time stays where the status did not change."""
    written = {kind: _kept(kind, workload) for kind in workload.conditions}
    for change in changes:
        old = workload.conditions.get(change.type)
        since = old.since if old is not None and old.holds == change.holds else now
        written[change.type] = _condition(change.type, change.holds, change.reason, change.message, since)
    return list(written.values())


def says(workload: Workload, change: Change) -> bool:
    """Tell whether a Workload already says this of itself."""
    old = workload.conditions.get(change.type)
    if old is None:
        return False
    want = (change.holds, change.reason, change.message[: conditions.MESSAGE_MAX])
    return (old.holds, old.reason, old.message) == want


def admission(granted: Admission) -> Manifest:
    """Write what was granted or is claimed."""
    return {
        "clusterQueue": granted.cluster_queue,
        "clusterQueueGeneration": granted.generation,
        "podSetAssignments": [
            {"name": each.name, "count": each.count, "flavors": dict(each.flavors)} for each in granted.assignments
        ],
    }


def counts(by_pod_set: Mapping[str, int]) -> list[Manifest]:
    """Write numbers of pods by pod set."""
    return [{"name": name, "count": count} for name, count in by_pod_set.items()]


def pods(by_pod_set: Mapping[str, Iterable[str]]) -> list[Manifest]:
    """Write the UIDs of pods by pod set, without the pod sets that have none."""
    listed = {name: list(uids) for name, uids in by_pod_set.items()}
    return [{"name": name, "uids": uids} for name, uids in listed.items() if uids]


def requeue(attempts: Requeue) -> Manifest:
    """Write attempts whose pods did not start in time."""
    return {
        "count": attempts.count,
        "at": clock.to_rfc3339(attempts.at),
        "flavorsTried": list(attempts.flavors_tried),
    }


def _kept(kind: str, workload: Workload) -> Manifest:
    old = workload.conditions[kind]
    return _condition(kind, old.holds, old.reason, old.message, old.since)


def _condition(kind: str, holds: bool, reason: str, message: str, since: float) -> Manifest:  # noqa: FBT001
    return {
        "type": str(kind),
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message[: conditions.MESSAGE_MAX],
        "lastTransitionTime": clock.to_rfc3339(since),
    }
