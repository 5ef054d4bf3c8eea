"""What an admitted job's Workload should say: how many pods are granted, which slices were counted, what is recorded.

Pure. Always granted ≤ spec. A shrink lowers granted to what the job wants, or to the pods that still run; a fold raises
it by slices that were admitted and notes their UIDs in the same write, so that none is counted twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autoscaler.admission import writes
from autoscaler.admission.job_stages import manifests, resize_messages
from autoscaler.admission.state.job_state import JobState
from autoscaler.admission.workloads import workload_status
from autoscaler.admission.workloads.workload import Admission, Assignment, ConditionType, Requeue, Workload
from autoscaler.admission.workloads.workload_status import Change
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.workloads import FOLDED_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The ledger of a Workload as it should be."""

    assignments: Mapping[str, Assignment]
    folded: frozenset[str]
    opened: Mapping[str, tuple[str, ...]]
    withdrawn: Mapping[str, tuple[str, ...]]
    requeue: Requeue | None

    def granted(self, pod_set: str) -> int:
        """Return how many pods of a pod set may run."""
        found = self.assignments.get(pod_set)
        return found.count if found is not None else 0


def draft(state: JobState) -> Draft:
    """Lower what is granted where the job shrank, raise it by admitted slices, forget slices that are gone."""
    workload, admission = _admitted(state)
    there = {each.meta.uid for each in state.slices}
    before = Draft(
        assignments={each.name: each for each in admission.assignments},
        folded=frozenset(uid for uid in workload.folded if uid in there),
        opened=dict(workload.opened),
        withdrawn=dict(workload.withdrawn),
        requeue=workload.requeue,
    )
    return _folded(state, _shrunk(state, before))


def write(state: JobState, wanted: Draft, now: float) -> tuple[Write, ...]:
    """Write the ledger where it differs; else the spec, where it does: one write to the Workload at a time."""
    workload, admission = _admitted(state)
    changes = _changes(workload, admission, wanted)
    told = _conditions(state, wanted)
    changed = [each for each in told if not workload_status.says(workload, each)]
    if changed:
        changes["conditions"] = workload_status.with_conditions(workload, changed, now)
    if changes:
        moved = _moved(admission, wanted)
        why = f"granted: {', '.join(moved)}" if moved else f"changed: {', '.join(changes)}"
        step = _step(changes, is_moved=bool(moved))
        return (writes.patch_status(On.WORKLOAD, step, workload, changes, why),)
    return _spec(state, workload)


def _shrunk(state: JobState, before: Draft) -> Draft:
    """Lower what is granted to what the job wants, or to the pods that still run; forget pod sets that are gone."""
    lowered = {}
    for name, assigned in before.assignments.items():
        most = max(state.size(name), len(state.staying(name)))
        lowered[name] = assigned.with_count(min(assigned.count, most))
    kept = {name: each for name, each in lowered.items() if each.count or not _is_over(state, before, name)}
    return replace(before, assignments=kept)


def _is_over(state: JobState, before: Draft, pod_set: str) -> bool:
    """Tell whether the job has a pod set no more, and nothing of it is on record: a Workload has room for a few."""
    is_noted = bool(state.recorded(pod_set) or before.withdrawn.get(pod_set))
    return state.wanted_pods(pod_set) is None and not is_noted


def _folded(state: JobState, before: Draft) -> Draft:
    """Raise what is granted by slices that were admitted, as many as the job still wants."""
    workload, _ = _admitted(state)
    assignments, folded = dict(before.assignments), set(before.folded)
    for pod_set in workload.pod_sets:
        most = min(pod_set.count, state.size(pod_set.name))
        for each in state.unfolded(pod_set.name):
            granted = each.admission.of(pod_set.name) if each.admission is not None else None
            there = assignments.get(pod_set.name)
            count = there.count if there is not None else 0
            if granted is None or each.is_leaving or count >= most or len(folded) >= FOLDED_MAX:
                continue
            raised = min(most, count + granted.count)
            assignments[pod_set.name] = (there if there is not None and there.count else granted).with_count(raised)
            folded.add(each.meta.uid)
    return replace(before, assignments=assignments, folded=frozenset(folded))


def _changes(workload: Workload, admission: Admission, wanted: Draft) -> Manifest:
    changes: Manifest = {}
    assignments = tuple(wanted.assignments.values())
    if assignments != admission.assignments:
        changed = Admission(
            cluster_queue=admission.cluster_queue, generation=admission.generation, assignments=assignments
        )
        changes["admission"] = workload_status.admission(changed)
    if wanted.folded != workload.folded:
        changes["foldedSlices"] = sorted(wanted.folded) or None
    if _some(wanted.opened) != _some(workload.opened):
        changes["opened"] = workload_status.pods(wanted.opened) or None
    if _some(wanted.withdrawn) != _some(workload.withdrawn):
        changes["withdrawn"] = workload_status.pods(wanted.withdrawn) or None
    if wanted.requeue != workload.requeue:
        changes["requeue"] = workload_status.requeue(wanted.requeue) if wanted.requeue is not None else None
    return changes


def _conditions(state: JobState, wanted: Draft) -> list[Change]:
    workload, _ = _admitted(state)
    resize = resize_messages.condition(state, {name: each.count for name, each in wanted.assignments.items()})
    told = [resize] if resize.holds or ConditionType.RESIZE_REQUESTED in workload.conditions else []
    if not workload.holds(ConditionType.PODS_READY) and is_ready(state, wanted):
        message = "all granted pods were ready once"
        told.append(Change(type=ConditionType.PODS_READY, holds=True, reason="PodsReady", message=message))
    return told


def is_ready(state: JobState, wanted: Draft) -> bool:
    """Tell whether all pods that are granted and wanted are Ready now."""
    names = wanted.assignments.keys()
    return all(len(state.pods.of(name).ready) >= min(wanted.granted(name), state.size(name)) for name in names)


def _spec(state: JobState, workload: Workload) -> tuple[Write, ...]:
    """Bring the spec to what the job wants, and never below what is granted."""
    job = state.wanted
    if job is None:
        return ()
    want = {each.name: each.asked.with_count(max(each.size, state.granted(each.name))) for each in job.pod_sets}
    for pod_set in workload.pod_sets:
        granted = state.granted(pod_set.name)
        if pod_set.name not in want and granted:
            want[pod_set.name] = pod_set.with_count(granted)
    if want == {each.name: each for each in workload.pod_sets}:
        return ()
    body = {"spec": {"podSets": [manifests.pod_set(each, each.count) for each in want.values()]}}
    return (writes.patch(On.WORKLOAD, Step.SPEC, workload, body, "the job was resized"),)


def _step(changes: Manifest, *, is_moved: bool) -> Step:
    if is_moved:
        return Step.FOLD if "foldedSlices" in changes else Step.SHRINK
    return Step.RECORD if {"admission", "opened", "withdrawn"} & changes.keys() else Step.TELL


def _moved(admission: Admission, wanted: Draft) -> list[str]:
    """Say of each pod set how many pods were granted and are now, where that differs."""
    names = {**{each.name: None for each in admission.assignments}, **wanted.assignments}
    changed = {name: (admission.count(name), wanted.granted(name)) for name in names}
    return [f"{name} {before} → {after}" for name, (before, after) in changed.items() if before != after]


def _some(by_pod_set: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: uids for name, uids in by_pod_set.items() if uids}


def _admitted(state: JobState) -> tuple[Workload, Admission]:
    if state.workload is None or state.workload.admission is None:
        raise ValueError(f"job {state.uid} is not admitted")
    return state.workload, state.workload.admission
