"""Sees at every single change that quota is kept, by what the objects say themselves.

It reads plain JSON and shares no code with what it judges; every pod asks for one cpu. People may lower quota: then
nothing may grow.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from autoscaler.api import resources
from autoscaler.kube import kinds
from autoscaler.simulation.cluster.store import Change, Key, Store

Body = dict[str, Any]
GATE = "sluice.dev/admission"
JOB_UID = "sluice.dev/job-uid"
WORKLOADS = kinds.custom(resources.Workload)
CLUSTER_QUEUES = kinds.custom(resources.ClusterQueue)
_ENDED = {"Succeeded", "Failed"}


class Share(NamedTuple):
    """One flavor of a ClusterQueue."""

    queue: str
    flavor: str


class Audit:
    """Recomputes usage at every change of a Workload, a queue or a pod, and keeps what was wrong."""

    def __init__(self, store: Store) -> None:
        self.faults: list[str] = []
        self.most: Counter[Share] = Counter()
        """The most that was ever used of each share."""
        self.folded: Counter[str] = Counter()
        """How often each slice was counted, by UID."""
        self._store = store
        self._over: dict[tuple[str, str], int] = {}
        for resource in (WORKLOADS, CLUSTER_QUEUES, kinds.PODS):
            store.collection(resource).listeners.append(self._on_change)

    def check(self) -> None:
        """Fail if anything was wrong at any moment."""
        twice = [f"slice {uid} was counted {count} times" for uid, count in self.folded.items() if count > 1]
        assert not [*self.faults, *twice], "\n".join([*self.faults, *twice])

    def usage(self) -> Counter[Share]:
        """Return what is used now, in cpus."""
        workloads = {each["metadata"]["uid"]: each for each in self._all(WORKLOADS)}
        used: Counter[Share] = Counter()
        known = set()
        for each in workloads.values():
            owner = _owner(each)
            if owner["kind"] != "Workload":
                known.add(each["metadata"]["labels"][JOB_UID])
            elif not _is_counted_apart(each, workloads.get(owner["uid"])):
                continue
            used.update(_used(each))
        used.update(_share_of(pod) for pod in self._open() if _stamp(pod) and _stamp(pod) not in known)
        return used

    def _on_change(self, change: Change) -> None:
        what = f"{change.resource.kind} {change.key.name}"
        used = self.usage()
        self.most |= used
        over = list(self._over_quota(used))
        if change.resource == CLUSTER_QUEUES:
            over.clear()  # people may do that
        self.faults += [f"after {what}: {fault}" for fault in (*over, *self._over_usage(used))]
        before, after = (each.object if each else None for each in (change.before, change.after))
        if change.resource == WORKLOADS:
            self._see_fold(before, after)
        elif change.resource == kinds.PODS and before is not None and after is not None:
            self._see_opening(before, after)

    def _over_quota(self, used: Counter[Share]) -> Iterator[str]:
        """Nothing may raise what is used above what may be used, together or by one that borrows."""
        totals: dict[tuple[str, str], int] = defaultdict(int)
        for queue in self._all(CLUSTER_QUEUES):
            name, cohort = queue["metadata"]["name"], queue["spec"].get("cohort")
            for flavor, nominal, limit in _quotas(queue):
                own = used[Share(name, flavor)]
                totals[cohort or name, flavor] += own - nominal
                if limit is not None:
                    totals[f"what {name} borrows", flavor] = own - nominal - limit
        for place, over in totals.items():
            if over > max(0, self._over.get(place, 0)):
                yield f"{place} is {over} over its quota"
            self._over[place] = over

    def _over_usage(self, used: Counter[Share]) -> Iterator[str]:
        """No more pods may run than are counted."""
        running = Counter(_share_of(pod) for pod in self._open() if _stamp(pod) and not _is_leaving(pod))
        for share, count in running.items():
            if count > used[share]:
                yield f"{count} run on {used[share]} of {share}"

    def _see_fold(self, before: Body | None, after: Body | None) -> None:
        """What is granted grows by slices that were admitted, each counted once."""
        old, new = _status(before), _status(after)
        counted = set(new.get("foldedSlices") or ()) - set(old.get("foldedSlices") or ())
        self.folded.update(counted)
        there = {each["metadata"]["uid"]: each for each in self._all(WORKLOADS)}
        for uid in counted:
            if uid not in there or not _status(there[uid]).get("admission"):
                self.faults.append(f"slice {uid} was counted and was not admitted")
        if old.get("admission") and new.get("admission") and _granted(new) - _granted(old) > len(counted):
            self.faults.append(f"{_granted(old)} granted became {_granted(new)} by {len(counted)} slices")

    def _see_opening(self, before: Body, after: Body) -> None:
        """A gate is opened only of a pod that is on record, and of no more than are granted."""
        if not _is_gated(before) or _is_gated(after):
            return
        name, uid, job = after["metadata"]["name"], after["metadata"]["uid"], _owner(after)["uid"]
        parents = [each for each in self._all(WORKLOADS) if _owner(each)["uid"] == job]
        recorded = [uids for each in parents for part in _status(each).get("opened") or () for uids in part["uids"]]
        if uid not in recorded:
            self.faults.append(f"pod {name} was opened and is on no record")
        granted = sum(_granted(_status(each)) for each in parents)
        there = [pod for pod in self._open() if _owner(pod)["uid"] == job and not self._is_lost(pod)]
        if len(there) > granted:
            self.faults.append(f"pod {name} was opened as number {len(there)} of {granted}")

    def _open(self) -> list[Body]:
        """Return the pods of jobs that may run, also while they are being deleted."""
        live = [pod for pod in self._all(kinds.PODS) if pod.get("status", {}).get("phase") not in _ENDED]
        return [pod for pod in live if not _is_gated(pod) and (_owner(pod)["kind"] == "Job" or _stamp(pod))]

    def _is_lost(self, pod: Body) -> bool:
        """Tell whether a pod is being deleted and its node cannot say that it ended."""
        node = self._store.find(kinds.NODES, Key("", pod["spec"].get("nodeName", "")))
        told = node.object["status"]["conditions"] if node else ()
        return _is_leaving(pod) and not any(each["type"] == "Ready" and each["status"] == "True" for each in told)

    def _all(self, resource: kinds.ResourceType) -> list[Body]:
        return [entry.object for entry in self._store.collection(resource).entries.values()]


def _is_counted_apart(part: Body, parent: Body | None) -> bool:
    """Tell whether an admitted slice uses quota of its own."""
    status = _status(parent)
    said = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    is_folded = part["metadata"]["uid"] in (status.get("foldedSlices") or ())
    return bool(status.get("admission")) and not said & {"Evicted", "Finished"} and not is_folded


def _used(workload: Body) -> Counter[Share]:
    admitted = _status(workload).get("admission") or {"podSetAssignments": ()}
    wanted = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    used: Counter[Share] = Counter()
    for each in admitted["podSetAssignments"]:
        used[Share(admitted["clusterQueue"], each["flavors"]["cpu"])] += min(each["count"], wanted.get(each["name"], 0))
    return used


def _granted(status: Body) -> int:
    admitted = status.get("admission")
    return sum(each["count"] for each in admitted["podSetAssignments"]) if admitted else 0


def _quotas(queue: Body) -> Iterator[tuple[str, int, int | None]]:
    for group in queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            cpu = next(each for each in flavor["resources"] if each["name"] == "cpu")
            limit = cpu.get("borrowingLimit")
            yield flavor["name"], int(cpu["nominalQuota"]), None if limit is None else int(limit)


def _share_of(pod: Body) -> Share:
    notes = pod["metadata"]["annotations"]
    flavors = dict(each.split("=") for each in notes["sluice.dev/flavors"].split(","))
    return Share(notes["sluice.dev/cluster-queue"], flavors["cpu"])


def _stamp(pod: Body) -> str | None:
    """Return the UID of the job on whose quota a pod was opened; None: it was not opened by us."""
    return (pod["metadata"].get("annotations") or {}).get(JOB_UID)


def _status(stored: Body | None) -> Body:
    return (stored or {}).get("status") or {}


def _is_gated(pod: Body) -> bool:
    return any(each["name"] == GATE for each in pod["spec"].get("schedulingGates") or ())


def _is_leaving(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _owner(stored: Body) -> Body:
    owners = stored["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {"kind": "", "uid": ""})
