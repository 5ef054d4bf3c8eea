"""Which flavor each pod set gets its resources from. Pure.

Flavors are tried in the order of their resource group; the first that suits the pods and has room, borrowing included,
is taken. Pod sets of one job add up. The ledger is only read, and nobody is displaced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.quota.cache.ledger import Ledger
from autoscaler.admission.quota.cache.queues import Flavor, Group, Queue
from autoscaler.admission.quota.cache.waiting import Want
from autoscaler.admission.quota.refusals import Conflict, Reason, Refusal, Shortage
from autoscaler.admission.workloads.workload import Assignment, Constraints
from autoscaler.kube import selecting, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """What can be granted, and what it takes of the quota."""

    assignments: tuple[Assignment, ...]
    amounts: Amounts


def assign(
    wanted: Iterable[Want], *, queue: Queue, flavors: Mapping[str, Flavor], ledger: Ledger, tried: Iterable[str] = ()
) -> Assigned | Refusal:
    """Find a flavor with room for each resource of each pod set, or say what is missing.

    Flavors in `tried` come after the others. A pod set of no pods gets no assignment: its flavor is chosen when it has
    some.
    """
    taken: dict[FlavorResource, int] = {}
    assignments = []
    for want in wanted:
        if not want.count:
            continue
        chosen = _choose(want, _Choice(queue, flavors, ledger, frozenset(tried), taken))
        if isinstance(chosen, Refusal):
            return chosen
        assignments.append(Assignment(name=want.pod_set.name, count=want.count, flavors=chosen))
    return Assigned(assignments=tuple(assignments), amounts=taken)


def conflict(flavor: Flavor | None, constraints: Constraints) -> str | None:
    """Say why pods cannot use a flavor; None: they can."""
    if flavor is None:
        return "does not exist"
    if flavor.is_leaving:
        return "is being deleted"
    for key, value in constraints.node_selector.items():
        if flavor.labels.get(key, value) != value:
            return f"has label {key}={flavor.labels[key]}, the pods select {key}={value}"
    affinity = constraints.affinity.node_affinity if constraints.affinity is not None else None
    if affinity is not None and affinity.required is not None and not _may_match(affinity.required, flavor.labels):
        return "has labels that the pods' required node affinity excludes"
    taint = selecting.untolerated(flavor.taints, (*constraints.tolerations, *flavor.tolerations))
    return f"has taint {taint.key}={taint.value}:{taint.effect}, which the pods do not tolerate" if taint else None


@dataclass(frozen=True, slots=True)
class _Choice:
    """What flavors are chosen by."""

    queue: Queue
    flavors: Mapping[str, Flavor]
    ledger: Ledger
    tried: frozenset[str]
    taken: dict[FlavorResource, int]
    """What pod sets of the same job already took."""


def _choose(want: Want, choice: _Choice) -> dict[str, str] | Refusal:
    """Choose flavors for one pod set, and take what it needs."""
    needs = {name: amount * want.count for name, amount in sorted(want.pod_set.requests.items()) if amount}
    chosen: dict[str, str] = {}
    for resource in needs:
        if resource in chosen:
            continue
        group = choice.queue.group_of(resource)
        if group is None:
            name = choice.queue.name
            return Refusal(reason=Reason.NOT_COVERED, queue=name, pod_set=want.pod_set.name, resource=resource)
        mine = {name: amount for name, amount in needs.items() if name in group.resources}
        found = _of_group(want, group, mine, choice)
        if isinstance(found, Refusal):
            return found
        for name, amount in mine.items():
            key = FlavorResource(found, name)
            choice.taken[key] = choice.taken.get(key, 0) + amount
            chosen[name] = found
    return chosen


def _of_group(want: Want, group: Group, needs: Mapping[str, int], choice: _Choice) -> str | Refusal:
    """Return the first flavor of a group that suits and has room."""
    shortages: list[Shortage] = []
    conflicts: list[Conflict] = []
    locked = sorted({want.flavors[name] for name in needs if name in want.flavors})
    for name in locked or sorted(group.flavors, key=lambda each: each in choice.tried):
        why = conflict(choice.flavors.get(name), want.pod_set.constraints)
        if why is not None:
            conflicts.append(Conflict(flavor=name, why=why))
            continue
        short = _shortages(name, needs, choice)
        if not short:
            return name
        shortages += short
    return Refusal(
        reason=Reason.NO_ROOM if shortages else Reason.FLAVORS_CONFLICT,
        queue=choice.queue.name,
        pod_set=want.pod_set.name,
        shortages=tuple(shortages),
        conflicts=tuple(conflicts),
    )


def _shortages(flavor: str, needs: Mapping[str, int], choice: _Choice) -> list[Shortage]:
    found = []
    for resource, amount in needs.items():
        key = FlavorResource(flavor, resource)
        free = choice.ledger.free(choice.queue, key) - choice.taken.get(key, 0)
        if amount > free:
            most = choice.ledger.most(choice.queue, key)
            found.append(Shortage(flavor=flavor, resource=resource, wanted=amount, free=free, most=most))
    return found


def _may_match(required: wire.NodeSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether nodes with these labels, and any others, can meet a required affinity."""
    return any(_term_may_match(term, labels) for term in required.node_selector_terms)


def _term_may_match(term: wire.NodeTerm, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(
        selecting.holds(requirement, labels[requirement.key])
        for requirement in term.match_expressions
        if requirement.key in labels
    )
