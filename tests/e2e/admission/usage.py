"""What is used of quota, reckoned from plain JSON, and how much may be: no code of autoscaler/admission is used.

usage = min(spec, granted) of each Workload + admitted slices that are not folded yet + open pods whose job has no
Workload with quota.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from autoscaler.api import keys
from tests.e2e.admission import history
from tests.e2e.admission.history import Object, QueueSpec, State


class Quota(NamedTuple):
    """One resource of one flavor in one ClusterQueue."""

    queue: str
    flavor: str
    resource: str


class Limit(NamedTuple):
    """What a queue may use of it, in thousandths."""

    nominal: int
    borrowing: int | None
    """None: as much as the cohort has."""


Usage = dict[Quota, int]


class Book:
    """The sum of what all use, kept current: an event changes what few of them use."""

    def __init__(self) -> None:
        self.total: Usage = collections.defaultdict(int)
        self._held: dict[str, Usage] = {}

    def update(self, state: State, event: history.Event) -> Usage:
        """Take an event in that the state has taken in; return the totals as they were before, where they changed."""
        before: Usage = {}
        for holder, used in _affected(state, event):
            for quota, change in _difference(self._held.get(holder, {}), used):
                before.setdefault(quota, self.total[quota])
                self.total[quota] += change
            self._held[holder] = used
        return before


def _affected(state: State, event: history.Event) -> Iterator[tuple[str, Usage]]:
    """Say anew what those use whose use the event may have changed."""
    uid = history.uid_of(event.object)
    if event.kind == "Workload":
        yield uid, of_workload(state, state.workloads.get(uid))
        for each in state.slices_of(uid):
            yield history.uid_of(each), of_workload(state, each)
        job = history.label(event.object, keys.JOB_UID)
        yield f"strays of {job}", of_strays(state, job)
    elif event.kind == "Pod":
        job = history.job_of(event.object)
        yield f"strays of {job}", of_strays(state, job)


def of_workload(state: State, workload: Object | None) -> Usage:
    """Return what a Workload uses, or a slice."""
    if workload is None or granted_of(workload) is None:
        return {}
    parent = history.parent_of(workload)
    if parent is not None and not _counts(workload, state.workloads.get(parent)):
        return {}
    used: Usage = collections.defaultdict(int)
    admission = workload["status"]["admission"]
    wanted = {each["name"]: each for each in workload["spec"]["podSets"]}
    for assigned in admission["podSetAssignments"]:
        pod_set = wanted.get(assigned["name"], {})
        count = min(pod_set.get("count", 0), assigned["count"])
        for resource, flavor in assigned.get("flavors", {}).items():
            each = history.amount(pod_set.get("requests", {}).get(resource, 0))
            used[Quota(admission["clusterQueue"], flavor, resource)] += count * each
    return used


def of_strays(state: State, job: str) -> Usage:
    """Return what open pods use whose job has no Workload with quota, as was stamped on them."""
    used: Usage = collections.defaultdict(int)
    if granted_of(state.workload_of(job)) is not None:
        return used
    for pod_set in state.pods.sets_of(job):
        for uid in state.pods.open_of(job, pod_set):
            pod = state.pods.all[uid]
            queue = history.annotation(pod, keys.CLUSTER_QUEUE)
            for stamp in filter(None, history.annotation(pod, keys.FLAVORS).split(",")):
                resource, _, flavor = stamp.partition("=")
                used[Quota(queue, flavor, resource)] += request_of(pod, resource)
    return used


def request_of(pod: Object, resource: str) -> int:
    """Return what a pod requests in effect: its containers together, or the largest of those that run before them."""

    def requests(container: Object) -> int:
        return history.amount(container.get("resources", {}).get("requests", {}).get(resource, 0))

    before = pod["spec"].get("initContainers", ())
    together = sum(requests(each) for each in pod["spec"]["containers"])
    return max([together, *(requests(each) for each in before)])


def granted_of(workload: Object | None) -> dict[str, int] | None:
    """Return how many pods are granted by pod set; None: it is not admitted."""
    admission = (workload or {}).get("status", {}).get("admission")
    if admission is None:
        return None
    return {each["name"]: each["count"] for each in admission["podSetAssignments"]}


def folded_of(workload: Object | None) -> set[str]:
    return set((workload or {}).get("status", {}).get("foldedSlices", ()))


def recorded_of(workload: Object | None) -> dict[str, set[str]]:
    """Return the UIDs of pods that are about to be opened, by pod set."""
    return {each["name"]: set(each.get("uids", ())) for each in (workload or {}).get("status", {}).get("opened", ())}


def holds(workload: Object | None, condition: str) -> bool:
    conditions: Iterable[Object] = (workload or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _counts(part: Object, parent: Object | None) -> bool:
    """Tell whether an admitted slice is counted by itself."""
    if granted_of(parent) is None or holds(parent, "Evicted") or holds(parent, "Finished"):
        return False
    return history.uid_of(part) not in folded_of(parent)


def _difference(old: Mapping[Quota, int], new: Mapping[Quota, int]) -> Iterator[tuple[Quota, int]]:
    for quota in {**old, **new}:
        change = new.get(quota, 0) - old.get(quota, 0)
        if change:
            yield quota, change


# How much may be used


def limit(spec: Object, quota: Quota) -> Limit:
    """Return what a ClusterQueue's spec gives of a flavor's resource."""
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            for each in flavor["resources"]:
                if (flavor["name"], each["name"]) == (quota.flavor, quota.resource):
                    borrowing = each.get("borrowingLimit")
                    return Limit(
                        history.amount(each["nominalQuota"]), None if borrowing is None else history.amount(borrowing)
                    )
    return Limit(0, 0)


def in_force(specs: Iterable[QueueSpec], since: int) -> list[Object]:
    """Return the specs of a queue that were in force at some time from a version on."""
    known = list(specs)
    ends = [each.since for each in known[1:]]
    return [each.spec for each, end in zip(known, [*ends, None], strict=True) if end is None or end > since]
