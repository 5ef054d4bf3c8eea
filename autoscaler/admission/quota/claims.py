"""Claims: what one who displaces others will be granted when they are gone. Pure.

A claim is written before the first eviction, so that nobody else is admitted into what the victims give back, also
after a change of leader. Victims are evicted only once the books hold the claim. It is dropped when its owner does not
want it any more, or cannot get it by displacing anybody.
"""

from autoscaler.admission.quota import amounts, nomination, preemption
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache.usage import Use
from autoscaler.admission.quota.cache.waiting import Want
from autoscaler.admission.quota.preemption import Displacement, Situation
from autoscaler.admission.quota.trial import Trial
from autoscaler.admission.workloads.workload import Assignment, Workload


def settle(trial: Trial) -> None:
    """Evict for each claim whom it needs, and drop those that cannot be had; the best comes first.

    A claim counts only those before it, each with its victims gone: else two that could both be had would each seem to
    be in the other's way.
    """
    books, ledger = trial.books, trial.ledger.copy()
    claimed: dict[str, dict[FlavorResource, int]] = {}
    claims = books.claims()
    for _, use in claims:
        ledger.add(use.queue, use.amounts, -1)
    for workload, use in claims:
        ledger.add(use.queue, use.amounts)
        found = _displacement(trial, workload, use, trial.situation(ledger, claimed))
        if found is None:
            ledger.add(use.queue, use.amounts, -1)
            trial.drop_claim(workload)
        else:
            amounts.add(claimed.setdefault(use.queue, {}), use.amounts)
            for victim in found.victims:
                trial.displace(victim, found.nomination)


def drop_stale(trial: Trial) -> None:
    """Drop the claims of those who do not wait any more."""
    for workload in trial.books.claimants():
        if not trial.books.is_waiting(workload.meta.uid) and not workload.is_leaving:
            trial.drop_claim(workload)


def _displacement(trial: Trial, workload: Workload, use: Use, situation: Situation) -> Displacement | None:
    """Find out whom one that has a claim must displace; None: it cannot be had, or is not wanted any more."""
    found = trial.books.class_of(workload.meta.uid)
    queue = trial.books.queues.get(use.queue)
    if queue is None or trial.books.config.refusal(found) is not None or not _is_wanted(trial, workload):
        return None
    return preemption.find(situation, workload, queue) if found.queue == queue.name else None


def _is_wanted(trial: Trial, workload: Workload) -> bool:
    """Tell whether a claim is for what one is nominated with now."""
    claimed = {each.name: each for each in workload.claim.assignments} if workload.claim is not None else {}
    wanted = {each.pod_set.name: each for each in nomination.wants(trial.books, workload, trial.siblings) if each.count}
    return wanted.keys() == claimed.keys() and all(_suits(claimed[name], wanted[name]) for name in wanted)


def _suits(claimed: Assignment, want: Want) -> bool:
    """Tell whether what is claimed for a pod set is what it wants, in the flavors that it is locked to."""
    return claimed.count == want.count and {**claimed.flavors, **want.flavors} == claimed.flavors
