"""Events about what nobody else speaks of: pods whose gate will never be opened, and jobs that cannot be queued.

Nothing is opened and nothing is decided here. Each pod and each job is told once, so many in a second; a pod is given a
moment first, since its job may be on its way to us, or the pod on its way out.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from autoscaler import clock, control
from autoscaler.admission.jobs import port
from autoscaler.admission.state import gated_pods, known
from autoscaler.admission.state.gated_pods import GatedPods
from autoscaler.api import keys
from autoscaler.control import pacing
from autoscaler.kube import kinds, objects

GRACE_SECONDS: Final = 10.0
"""How long a gated pod may be without a job before it is told."""
PER_SECOND: Final = 50
"""So many pods and jobs are looked at in a second."""


class Notices:
    """Tells of pods and jobs."""

    def __init__(
        self,
        context: control.ControllerContext,
        tables: known.Tables,
        job_kinds: Mapping[str, port.ResizableJob],
        gated: GatedPods,
    ) -> None:
        self._context = context
        self._tables = tables
        self._kinds = job_kinds
        self._gated = gated
        self._pods: pacing.Pacer[objects.Key] = pacing.Pacer(context.clock, GRACE_SECONDS)
        self._jobs: dict[tuple[str, objects.Key], None] = {}
        self._told: set[str] = set()
        """The UIDs of pods that are there and were told."""
        self._next_at = float("-inf")
        tables.pods.listen(self._pod_changed)
        for table in tables.jobs.values():
            table.listen(self._job_changed)

    def tell(self) -> None:
        """Tell those whose time has come."""
        now = self._context.clock.monotonic()
        if now < self._next_at:
            return
        pods, jobs = list(islice(self._pods.take(), PER_SECOND)), list(islice(self._jobs, PER_SECOND))
        told = [self._tell_pod(self._tables.pods.get(key)) for key in pods]
        for kind, key in jobs:
            del self._jobs[kind, key]
            told.append(self._tell_job(kind, self._tables.jobs[kind].get(key)))
        if any(told):
            self._next_at = now + 1.0

    @property
    def next_at(self) -> float | None:
        """When somebody is to be told, on the monotonic clock; None: nobody is."""
        due = clock.earliest((self._pods.next_at, self._next_at if self._jobs else None))
        return max(due, self._next_at) if due is not None else None

    def _tell_pod(self, pod: objects.Pod | None) -> bool:
        """Tell a pod why its gate will not be opened; return whether there was something to say."""
        if pod is None or not gated_pods.waits(pod):
            return False
        why = self._why_never(pod)
        if why is None or pod.meta.uid in self._told:
            return False
        self._told.add(pod.meta.uid)
        message = f"{why}: its gate {keys.ADMISSION_GATE} will not be opened; delete the pod"
        self._context.tell(kinds.PODS, pod, "NeverAdmitted", message, is_warning=True)
        return True

    def _why_never(self, pod: objects.Pod) -> str | None:
        """Say why nobody will open a pod's gate; None: somebody will."""
        owner = pod.meta.controller
        if owner is None:
            return "no job owns it"
        kind = self._kinds.get(owner.kind)
        if kind is None or kind.resource.api_version != owner.api_version:
            return f"{owner.kind} {owner.name}, which made it, is no job that can be queued"
        job = self._tables.jobs[owner.kind].get(objects.Key(pod.meta.key.namespace, owner.name))
        if job is None or job.meta.uid != owner.uid:
            return f"its job {owner.name} is gone"
        if job.left_alone is not None:
            return f"its job {owner.name} is not queued: it is {job.left_alone}"
        return f"its job {owner.name} has no label {keys.QUEUE_NAME}" if job.queue is None else None

    def _tell_job(self, kind: str, job: port.Job | None) -> bool:
        """Tell a job why it is not queued; return whether there was something to say."""
        if job is None or job.queue is None or job.meta.deleted_at is not None or job.finished is not None:
            return False
        told = _about(job)
        if told is None:
            return False
        reason, message = told
        is_warning = job.problem is not None and job.left_alone is None
        self._context.tell(self._kinds[kind].resource, job, reason, message, is_warning=is_warning)
        return True

    # What changed

    def _pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        if old is not None and (new is None or new.meta.uid != old.meta.uid):
            self._told.discard(old.meta.uid)
        if new is not None and gated_pods.waits(new) and (old is None or old.meta.owners != new.meta.owners):
            self._note_pods([new.meta.key])

    def _job_changed(self, old: port.Job | None, new: port.Job | None) -> None:
        if old is not None and (new is None or new.meta.uid != old.meta.uid or new.queue != old.queue):
            group = self._gated.get(old.meta.uid)
            self._note_pods(group.keys.values() if group is not None else ())
        if new is not None and new.queue is not None and (old is None or _about(old) != _about(new)):
            self._jobs[new.kind, new.meta.key] = None

    def _note_pods(self, pods: Iterable[objects.Key]) -> None:
        due = self._context.clock.monotonic() + GRACE_SECONDS
        for key in pods:
            self._pods.note(key, at=due)


def _about(job: port.Job) -> tuple[str, str] | None:
    """Return the reason and the words of what a job is to be told; None: nothing."""
    if job.left_alone is not None:
        return "LeftAlone", f"the job is not queued: it is {job.left_alone}"
    return ("CannotBeQueued", job.problem) if job.problem is not None else None
