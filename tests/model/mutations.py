"""Rules 4 to 9 and 12 of admission, each broken in one clause: the exploration must find something wrong each time."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from autoscaler.admission import decide, doubts
from autoscaler.admission.job_stages import grants, lifecycle, slices, ungating
from autoscaler.admission.quota import preemption, trial
from autoscaler.admission.quota.cache import books, strays, usage
from autoscaler.admission.state import job_state
from tests.model import breaking, explorer, scenarios
from tests.model.breaking import Mutation


@contextlib.contextmanager
def broken(mutation: Mutation) -> Iterator[None]:
    """Break a clause, also where a stage of the decision is that function."""
    stages: Any = decide._STAGES
    with breaking.broken(mutation) as (original, edited):
        staged = [stage for stage, function in stages.items() if function is original]
        stages.update(dict.fromkeys(staged, edited))
        try:
            yield
        finally:
            stages.update(dict.fromkeys(staged, original))


def is_found(mutation: Mutation) -> bool:
    """Tell whether the exploration finds something wrong, or does not come to an end."""
    scenario = next(each for each in scenarios.SMALL if each.name == mutation.found_in)
    with broken(mutation):
        result = explorer.explore(scenario, most=scenarios.SMALL_MOST)
    return result.violation is not None or not result.is_whole


NEW: Final = "two jobs are new"
GROWS: Final = "a job grows and shrinks"
DISPLACES: Final = "a job displaces another"
SLICE_DISPLACES: Final = "a slice displaces another job"
DELETED: Final = "a job is deleted while it grows"
OUTLIVED: Final = "a job displaces another beside pods that outlived theirs"
LOST: Final = "the Workload of a job is lost"
UNSTARTED: Final = "pods of a growth do not start"

MUTATIONS: Final = (
    Mutation(
        rule=4,
        name="a shrink forgets recorded pods",
        owner=job_state.JobState,
        function="staying",
        old="(pods.open.keys() | recorded) -",
        new="pods.open.keys() -",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a shrink forgets open pods",
        owner=job_state.JobState,
        function="staying",
        old="(pods.open.keys() | recorded) -",
        new="recorded -",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a shrink waits for pods that are being deleted",
        owner=grants,
        function="_shrunk",
        old="most = max(state.size(name), len(state.staying(name)))",
        new="most = assigned.count",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a fold does not note the slice",
        owner=grants,
        function="_folded",
        old="folded.add(each.meta.uid)",
        new="pass",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a slice is folded although it was noted",
        owner=job_state.JobState,
        function="unfolded",
        old="not self._is_folded(each) and ",
        new="",
        found_in=UNSTARTED,
    ),
    Mutation(
        rule=4,
        name="a folded slice is forgotten while it is there",
        owner=grants,
        function="draft",
        old="if uid in there",
        new="if uid not in there",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a slice is folded that was not admitted",
        owner=grants,
        function="_folded",
        old="granted = each.admission.of(pod_set.name) if each.admission is not None else None",
        new="granted = assignments.get(pod_set.name).with_count(1)",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a folded slice is not deleted",
        owner=slices,
        function="_counted",
        old="each.meta.uid in workload.folded and",
        new="False and",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="the spec is lowered below what is granted",
        owner=grants,
        function="_spec",
        old="max(each.size, state.granted(each.name))",
        new="each.size",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="surplus slices are not deleted",
        owner=slices,
        function="_surplus",
        old="if total < _growth(state, name):",
        new="if True:",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="a surplus slice is deleted before the spec says so",
        owner=slices,
        function="_surplus",
        old="!= max(state.size(name), state.granted(name)):",
        new="is None:",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="slices are made for what is granted already",
        owner=slices,
        function="_growth",
        old=" - state.granted(name)",
        new="",
        found_in=GROWS,
    ),
    Mutation(
        rule=4,
        name="admitted slices use nothing",
        owner=usage,
        function="counts",
        old="return part.meta.uid not in parent.folded",
        new="return False",
        found_in=SLICE_DISPLACES,
    ),
    Mutation(
        rule=4,
        name="pods without a Workload use nothing",
        owner=usage,
        function="of_pod",
        old="job is None or",
        new="True or",
        found_in=LOST,
    ),
    Mutation(
        rule=4,
        name="pods whose Workload waits use nothing",
        owner=strays,
        function="_counted_for",
        old=" or workload.admission is None",
        new="",
        found_in=LOST,
    ),
    Mutation(
        rule=5,
        name="admission is cleared while slices are left",
        owner=lifecycle,
        function="evicted",
        old='planned = [*suspension(state, "it was evicted"), *_without_slices(state, "its job was evicted")]',
        new='planned = [*suspension(state, "it was evicted")]',
        found_in="people take a job out of its queue",
    ),
    Mutation(
        rule=5,
        name="slices of a job that waits are left",
        owner=lifecycle,
        function="waiting",
        old=', *_without_slices(state, "its job is not admitted")',
        new="",
        found_in="people take a job out of its queue",
    ),
    Mutation(
        rule=6,
        name="pods are opened without a record",
        owner=ungating,
        function="pods",
        old="for uid in uids if uid in gated]\n    for name, uids in workload.withdrawn",
        new="for uid in gated]\n    for name, uids in workload.withdrawn",
        found_in=NEW,
    ),
    Mutation(
        rule=6,
        name="more are recorded than are granted",
        owner=ungating,
        function="_recorded",
        old="min(draft.granted(name), state.size(name))",
        new="state.size(name)",
        found_in=GROWS,
    ),
    Mutation(
        rule=6,
        name="pods that are being deleted have no place",
        owner=job_state.JobState,
        function="occupying",
        old="lost = {uid for uid, pod in pods.leaving.items() if self._is_lost(pod, now)}",
        new="lost = pods.leaving.keys()",
        found_in="people suspend a job and delete a pod",
    ),
    Mutation(
        rule=6,
        name="recorded pods have no place",
        owner=ungating,
        function="_recorded",
        old="len(state.occupying(name, now))",
        new="len(state.pods.of(name).open)",
        found_in="people suspend a job and delete a pod",
    ),
    Mutation(
        rule=6,
        name="a record is pruned before the pod is open",
        owner=ungating,
        function="_recorded",
        old="uid in state.pods.uids and uid not in there.open]",
        new="False]",
        found_in=GROWS,
    ),
    Mutation(
        rule=6,
        name="a refused pod is taken off the record untouched",
        owner=ungating,
        function="_recorded",
        old="uid in state.memory.refused and uid in state.memory.touched",
        new="uid in state.memory.refused",
        found_in="a gate is refused for good",
    ),
    Mutation(
        rule=6,
        name="a pod of a job that is gone is taken off the record untouched",
        owner=lifecycle,
        function="_unrecord",
        old="if pod.meta.uid not in state.memory.touched]",
        new="if False]",
        found_in=DELETED,
    ),
    Mutation(
        rule=7,
        name="an evicted job gives its quota back at once",
        owner=usage,
        function="of",
        old="if workload.admission is None or",
        new="if workload.admission is None or workload.is_evicted or",
        found_in=DISPLACES,
    ),
    Mutation(
        rule=7,
        name="admission is cleared while pods are open",
        owner=lifecycle,
        function="evicted",
        old=" or state.is_running(now)",
        new="",
        found_in=DISPLACES,
    ),
    Mutation(
        rule=7,
        name="admission is cleared while pods are recorded",
        owner=job_state.JobState,
        function="occupying",
        old=" | self.recorded(pod_set)",
        new="",
        found_in=DELETED,
    ),
    Mutation(
        rule=7,
        name="an evicted job is not suspended",
        owner=lifecycle,
        function="evicted",
        old='*suspension(state, "it was evicted"), ',
        new="",
        found_in=DISPLACES,
    ),
    Mutation(
        rule=7,
        name="others are evicted without a claim",
        owner=trial.Trial,
        function="claim",
        old="self._write(grants.claim(wanted, found.victims), wanted.queue)",
        new="[self.displace(each, wanted) for each in found.victims]",
        found_in=DISPLACES,
    ),
    Mutation(
        rule=7,
        name="a claim that is no longer wanted is kept",
        owner=trial.Trial,
        function="drop_claim",
        old="self._write(",
        new="(lambda *_: None)(",
        found_in="a job displaces another and grows beyond the quota",
    ),
    Mutation(
        rule=7,
        name="a claim is held against nobody",
        owner=books.Books,
        function="_hold",
        old="if claim is not None:",
        new="if False:",
        found_in=DISPLACES,
    ),
    Mutation(
        rule=7,
        name="those of equal priority are displaced",
        owner=preemption,
        function="_lower",
        old="each.priority < priority",
        new="each.priority <= priority",
        found_in="jobs of one priority share a queue",
    ),
    Mutation(
        rule=7,
        name="one that leaves counts as free while its pods run on without a job",
        owner=preemption,
        function="_without_leaving",
        old="filter(books.may_free, leaving.union(situation.evicting))",
        new="leaving.union(situation.evicting)",
        found_in=OUTLIVED,
    ),
    Mutation(
        rule=8,
        name="the Workload of a job that is gone is released while pods are open",
        owner=lifecycle,
        function="departing",
        old="if state.is_running(now):",
        new="if False:",
        found_in=DELETED,
    ),
    Mutation(
        rule=8,
        name="the Workload of a job that is gone is released while slices are left",
        owner=lifecycle,
        function="departing",
        old="if _has_slices(state):",
        new="if False:",
        found_in=DELETED,
    ),
    Mutation(
        rule=8,
        name="slices of a job that is gone are deleted before its Workload's deletion is asked for",
        owner=lifecycle,
        function="departing",
        old="if not workload.is_leaving:",
        new="if not workload.is_leaving and not state.slices:",
        found_in=DELETED,
    ),
    Mutation(
        rule=9,
        name="granted is lowered before a withdrawn pod is being deleted",
        owner=ungating,
        function="_withdrawn",
        old="if uid not in there.open or uid in there.leaving]",
        new="]",
        found_in=UNSTARTED,
        slow=True,
    ),
    Mutation(
        rule=9,
        name="granted is lowered below the pods that stay",
        owner=ungating,
        function="_withdrawn",
        old="max(assigned.count - len(gone), min(assigned.count, least))",
        new="0",
        found_in=UNSTARTED,
    ),
    Mutation(
        rule=9,
        name="granted is not lowered for a withdrawn pod",
        owner=ungating,
        function="_withdrawn",
        old="assignments[name] = assigned.with_count(lowered)",
        new="pass",
        found_in=UNSTARTED,
    ),
    Mutation(
        rule=9,
        name="a withdrawn pod is not deleted",
        owner=ungating,
        function="pods",
        old="for uid in uids if uid in there]",
        new="for uid in uids if False]",
        found_in=UNSTARTED,
    ),
    Mutation(
        rule=12,
        name="an admission that was not answered is forgotten",
        owner=doubts.Doubts,
        function="unless_answered",
        old="if seconds is not None and write.step in _ON_SUMS:",
        new="if False:",
        found_in=NEW,
    ),
    Mutation(
        rule=12,
        name="admission goes on without a fence",
        owner=doubts.Doubts,
        function="fences",
        old="return [_fence(each) for each in there.values() if each is not None]",
        new="return []",
        found_in=NEW,
    ),
)
