"""The Job controller: makes a Job's pods, deletes those it no longer wants, counts how they end, and ends the Job.

It is held to the real one by the contract tests. Limits for each index, rules for failures and successes, deadlines,
restarts within a pod and removal after a time are not simulated.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.kinds import jobs
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import job_pods, job_status
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.05
BATCH_SECONDS: Final = 1.0
"""Changes of pods are gathered for this long."""
RETRY_SECONDS: Final = 10.0
BACKOFF_SECONDS: Final = 10.0
BACKOFF_MOST_SECONDS: Final = 600.0
PODS_MOST: Final = 500
"""How many pods of one Job are made or deleted at a time."""
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:job-controller")


def run(server: Server) -> None:
    """Run Jobs from now on."""
    _Jobs(server)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failures:
    """Pods of a Job that failed since one succeeded, and when the last one did."""

    count: int
    at: float

    @property
    def until(self) -> float:
        """When the next pod may be made."""
        return self.at + min(BACKOFF_SECONDS * 2.0 ** (self.count - 1), BACKOFF_MOST_SECONDS)


class _Jobs:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store
        self._pods: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """The pods of each Job, by its uid."""
        self._failures: dict[str, _Failures] = {}
        self._soon: Pending[Key] = Pending(self._look, delay_seconds=DELAY_SECONDS)
        self._batched: Pending[Key] = Pending(self._look, delay_seconds=BATCH_SECONDS)
        self._orphaned: Pending[Key] = Pending(self._let_go, delay_seconds=DELAY_SECONDS)
        self._store.collection(kinds.JOBS).listeners.append(self._on_job)
        self._store.collection(kinds.PODS).listeners.append(self._on_pod)

    def _on_job(self, change: Change) -> None:
        """Look at what people change; a Job's status is written here alone."""
        if change.after is None:
            self._failures.pop(change.shown.uid, None)
        elif change.before is None or _marks(change.before) != _marks(change.after):
            self._soon.add(change.key)

    def _on_pod(self, change: Change) -> None:
        """Look at the Job that a pod belongs to, and at the one that it belonged to."""
        before, after = _job_uid(change.before), _job_uid(change.after)
        if before is not None and before != after:
            self._pods[before].pop(change.key)
        if after is not None:
            self._pods[after][change.key] = None
        for uid in dict.fromkeys((before, after)):
            place = self._store.find_uid(uid) if uid is not None else None
            if place is not None:
                self._batched.add(place[1])
        if self._is_orphan(change.after):
            self._orphaned.add(change.key)

    def _look(self, key: Key) -> None:
        """Bring a Job's pods and status to where its spec wants them."""
        entry = self._store.find(kinds.JOBS, key)
        if entry is None or job_status.is_finished(entry.object) or not _is_ours(entry.object):
            return
        job, present = entry.object, self._present(entry.uid)
        active = [pod for pod in present if job_pods.is_active(pod)]
        ended = [pod for pod in present if job_pods.is_tracked(pod) and _has_ended(job, pod)]
        tally = job_status.tally(job, ended)
        if job_status.is_failing(job, tally):
            tally = job_status.tally(job, [*ended, *active])
            self._remove(active)
        elif "deletionTimestamp" not in job["metadata"]:
            self._remember(entry.uid, ended)
            self._manage(job, tally, present)
        self._release(ended)
        now = clock.to_rfc3339(self._server.clock.now())
        left = self._present(entry.uid)
        self._server.writes.update(
            kinds.JOBS,
            key,
            lambda body: job_status.after(body, tally, left, now),
            manner=_MANNER,
            subresource=STATUS,
        )

    def _manage(self, job: Manifest, tally: job_status.Tally, present: Sequence[Manifest]) -> None:
        """Delete what is too much, or else make what is missing."""
        active = [pod for pod in present if job_pods.is_active(pod)]
        wanted = 0 if job["spec"]["suspend"] else job_status.wanted(job, tally, len(active))
        surplus = active if job["spec"]["suspend"] else job_pods.surplus(job, active, wanted)
        if surplus:
            self._remove(surplus[:PODS_MOST])
            return
        missing = wanted - len(active)
        if job["spec"]["podReplacementPolicy"] == "Failed":
            missing -= sum(job_pods.is_terminating(pod) for pod in present)
        if missing > 0:
            self._make(job, tally, active, min(missing, PODS_MOST))

    def _make(self, job: Manifest, tally: job_status.Tally, active: Sequence[Manifest], missing: int) -> None:
        """Make pods; after failures, and where they are refused, later."""
        key = Key(job["metadata"]["namespace"], job["metadata"]["name"])
        failed = self._failures.get(job["metadata"]["uid"])
        wait = failed.until - self._server.clock.now() if failed else 0.0
        if wait > 0:
            self._soon.later(key, wait)
            return
        places: Iterable[int | None] = [None] * missing
        if jobs.is_indexed(job):
            taken = tally.completed.union(place for pod in active if (place := job_pods.index(pod)) is not None)
            places = job_pods.free_indexes(taken, job["spec"]["completions"], missing)
        try:
            for place in places:
                body = job_pods.new(job, place)
                self._server.writes.create(kinds.PODS, body, namespace=key.namespace, manner=_MANNER)
        except failures.Refusal:
            self._soon.later(key, RETRY_SECONDS)

    def _remember(self, uid: str, ended: Sequence[Manifest]) -> None:
        """Count failures since the last success."""
        if any(job_pods.has_succeeded(pod) for pod in ended):
            self._failures.pop(uid, None)
        elif ended:
            before = self._failures.get(uid)
            count = len(ended) + (before.count if before else 0)
            self._failures[uid] = _Failures(count=count, at=self._server.clock.now())

    def _remove(self, chosen: Iterable[Manifest]) -> None:
        """Delete pods that do not count as failed."""
        for pod in chosen:
            self._release([pod])
            self._server.deletes.delete(kinds.PODS, _key(pod), Options(uid=pod["metadata"]["uid"]), _MANNER)

    def _let_go(self, key: Key) -> None:
        """Hold no pod whose Job is gone."""
        entry = self._store.find(kinds.PODS, key)
        if entry is not None and self._is_orphan(entry):
            self._release([entry.object])

    def _is_orphan(self, pod: Entry | None) -> bool:
        if pod is None or not job_pods.is_tracked(pod.object):
            return False
        return self._store.find_uid(_job_uid(pod) or "") is None

    def _release(self, chosen: Iterable[Manifest]) -> None:
        for pod in chosen:
            if job_pods.is_tracked(pod) and self._store.find(kinds.PODS, _key(pod)) is not None:
                self._server.writes.update(kinds.PODS, _key(pod), _untracked, manner=_MANNER)

    def _present(self, uid: str) -> list[Manifest]:
        entries = (self._store.find(kinds.PODS, key) for key in self._pods.get(uid, ()))
        return [entry.object for entry in entries if entry is not None]


def _marks(entry: Entry) -> object:
    metadata = entry.object["metadata"]
    return metadata["generation"], "deletionTimestamp" in metadata


def _job_uid(pod: Entry | None) -> str | None:
    """Return the uid of the Job that made a pod; its label tells it from one that only names the Job as its owner."""
    metadata = pod.object["metadata"] if pod else {}
    uid: str | None = (metadata.get("labels") or {}).get(keys.JOB_CONTROLLER_UID)
    owners = metadata.get("ownerReferences") or ()
    return uid if any(owner["uid"] == uid and owner.get("controller") for owner in owners) else None


def _is_ours(job: Manifest) -> bool:
    return bool(job["spec"].get("managedBy", JOB_CONTROLLER) == JOB_CONTROLLER)


def _has_ended(job: Manifest, pod: Manifest) -> bool:
    return job_pods.has_succeeded(pod) or job_pods.has_failed(job, pod)


def _untracked(pod: Manifest) -> Manifest:
    metadata = pod["metadata"]
    kept = [name for name in metadata["finalizers"] if name != job_pods.FINALIZER]
    return {**pod, "metadata": {**metadata, "finalizers": kept}}


def _key(pod: Manifest) -> Key:
    return Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
