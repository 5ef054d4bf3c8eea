"""Hand-made histories for tests of the auditor: one job, its Workload, slices and pods, told write by write."""

import copy
import itertools
from typing import Any

from autoscaler.api import keys
from tests.e2e.admission.history import Event, History

Object = dict[str, Any]
JOB = "job-uid"
PARENT = "workload-uid"
FLAVOR = "spot"


class Story:
    """Says what happened, with growing versions; each object is told whole, as a watch does."""

    def __init__(self, *, nominal: int = 3, **queue: Any) -> None:
        self._versions = itertools.count(100)
        self._events: list[Event] = []
        self._last: dict[str, Object] = {}
        self.queue("team", nominal, **queue)

    def history(self) -> History:
        """Return it in an order in which several watches might have told it."""
        return History(events=tuple(sorted(self._events, key=lambda event: event.kind)))

    # What there is

    def queue(self, name: str, nominal: int, *, generation: int = 1, borrowing: int | None = None, **spec: Any) -> None:
        quota: Object = {"name": "cpu", "nominalQuota": str(nominal)}
        if borrowing is not None:
            quota["borrowingLimit"] = str(borrowing)
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]}]
        metadata = {"name": name, "uid": f"queue-{name}", "generation": generation}
        self._tell("ClusterQueue", metadata, spec={"resourceGroups": groups, **spec})

    def workload(
        self,
        uid: str = PARENT,
        *,
        spec: int = 2,
        granted: int | None = None,
        parent: str | None = None,
        job: str = JOB,
        **told: Any,
    ) -> None:
        """Write a Workload, or a slice of a parent, of pods that ask for one CPU each."""
        metadata: Object = {"name": uid, "uid": uid, "namespace": "default", "labels": {keys.JOB_UID: job}}
        if parent is not None:
            metadata["ownerReferences"] = [{"kind": "Workload", "uid": parent, "controller": True}]
        status: Object = {"conditions": [{"type": each, "status": "True"} for each in told.get("conditions", ())]}
        if granted is not None:
            assigned = {"name": "main", "count": granted, "flavors": {"cpu": FLAVOR}}
            status["admission"] = {
                "clusterQueue": told.get("queue", "team"),
                "clusterQueueGeneration": told.get("generation", 1),
                "podSetAssignments": [assigned],
            }
        if "opened" in told:
            status["opened"] = [{"name": "main", "uids": list(told["opened"])}]
        if "folded" in told:
            status["foldedSlices"] = list(told["folded"])
        pod_set = {"name": "main", "count": spec, "requests": {"cpu": "1"}}
        self._tell("Workload", metadata, spec={"podSets": [pod_set]}, status=status)

    def pod(
        self, uid: str, *, gated: bool = False, phase: str = "Pending", leaving: bool = False, job: str = JOB
    ) -> None:
        """Write a pod of the job; one that is open carries its stamps."""
        metadata: Object = {"name": uid, "uid": uid, "namespace": "default"}
        metadata["ownerReferences"] = [{"kind": "Job", "uid": job, "controller": True}]
        if leaving:
            metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        spec: Object = {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "500m"}}}],
            "nodeName": "node",
        }
        if gated:
            spec["schedulingGates"] = [{"name": keys.ADMISSION_GATE}]
        else:
            stamps = {keys.JOB_UID: job, keys.POD_SET: "main", keys.CLUSTER_QUEUE: "team"}
            metadata["annotations"] = {**stamps, keys.FLAVORS: f"cpu={FLAVOR}"}
        self._tell("Pod", metadata, spec=spec, status={"phase": phase})

    def gone(self, uid: str) -> None:
        """Delete something for good."""
        last = copy.deepcopy(self._last[uid])
        last["metadata"]["resourceVersion"] = str(next(self._versions))
        self._events.append(Event(type="DELETED", object=last))

    def _tell(self, kind: str, metadata: Object, **rest: Any) -> None:
        is_new = metadata["uid"] not in self._last
        metadata = {**metadata, "resourceVersion": str(next(self._versions))}
        told = {"kind": kind, "metadata": metadata, **rest}
        self._last[metadata["uid"]] = told
        self._events.append(Event(type="ADDED" if is_new else "MODIFIED", object=told))
