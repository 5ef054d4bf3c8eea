"""Claims: what one who displaces others will be granted when they are gone. Pure.

A claim is written before the first eviction, so that nobody else is admitted into what the victims give back, also
after a change of leader. Victims are evicted only once the books hold the claim. It is dropped when its owner does not
want it any more, or cannot get it by displacing anybody.
"""

import dataclasses

from autoscaler.admission.quota import nomination, preemption
from autoscaler.admission.quota.preemption import Displacement
from autoscaler.admission.quota.queues import Queue
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.quota.trial import Trial
from autoscaler.admission.quota.waiting import Want
from autoscaler.admission.workload import Admission, Assignment, Workload


def drop_stale(trial: Trial) -> None:
    """Drop the claims of those who do not wait any more."""
    for workload in trial.books.claimants():
        if not trial.books.is_waiting(workload.meta.uid) and not workload.is_leaving:
            trial.drop_claim(workload, None)


def displacement(trial: Trial, workload: Workload, queue: Queue, refusal: Refusal) -> Displacement | None:
    """Find out how one that was refused could be helped by displacing others; None: it could not, or may not."""
    claim = workload.claim
    if refusal.reason is not Reason.NO_ROOM or (claim is None and not queue.preempts):
        return None
    if claim is not None and not _is_wanted(trial, workload, claim, queue):
        return None
    return preemption.find(trial.situation(), workload, queue)


def pursue(
    trial: Trial, workload: Workload, queue: Queue | None, *, refusal: Refusal, found: Displacement | None
) -> Refusal:
    """Claim, displace or give up; return why it waits meanwhile."""
    if found is None:
        if workload.claim is not None:
            trial.drop_claim(workload, queue)
        return refusal
    if workload.claim is not None:
        for victim in found.victims:
            trial.displace(victim, found.nomination)
    elif found.victims:
        trial.claim(found.nomination)
    else:
        return refusal
    return dataclasses.replace(refusal, reason=Reason.DISPLACING)


def _is_wanted(trial: Trial, workload: Workload, claim: Admission, queue: Queue) -> bool:
    """Tell whether a claim is for what one is nominated with now."""
    wanted = {each.pod_set.name: each for each in nomination.wants(trial.books, workload, trial.siblings) if each.count}
    if claim.cluster_queue != queue.name or wanted.keys() != {each.name for each in claim.assignments}:
        return False
    return all(_suits(each, wanted[each.name]) for each in claim.assignments)


def _suits(claimed: Assignment, want: Want) -> bool:
    locked = want.flavors
    return claimed.count == want.count and all(locked.get(name, each) == each for name, each in claimed.flavors.items())
