"""What InstancePools, Scopes and ProviderAccounts say about themselves, and what is wrong. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler import clock
from autoscaler.api import conditions, keys, status
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.accounts import ProviderAccount
from autoscaler.api.resources.base import Condition, Model
from autoscaler.api.resources.pools import NODE_GROUPS_MAX, InstancePool, InstancePoolStatus
from autoscaler.api.resources.scopes import Scope
from autoscaler.api.resources.types import QUANTITIES_MAX
from autoscaler.capacity import messages
from autoscaler.capacity.accounts import unavailable_offerings
from autoscaler.capacity.custom import ACCOUNTS, POOLS, SCOPES
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.model import Limit, Template
from autoscaler.capacity.plan import Plan, Status
from autoscaler.capacity.records.accounting import Durations, MonthToDate, ScopePool
from autoscaler.capacity.reporting import budget_events
from autoscaler.capacity.scaledown import drift, pool_teardown
from autoscaler.capacity.scaleup import demand, learned_allocatable, templates, unhelpful
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.scaleup.scopes import scope_users
from autoscaler.capacity.snapshot import ScopeUse, Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import MICROS
from autoscaler.kube import kinds, objects

READY: Final = "Ready"
WITHIN_BUDGET: Final = "WithinBudget"
UP_TO_DATE: Final = "UpToDate"
STEP_SECONDS: Final = 60
"""What is used is written in steps of at least so much."""
NAMED_MAX: Final = 3
"""So many nodes are told by name."""
CPU: Final = "cpu"
Teller = tuple[str, str]
"""Who says something about itself: its kind, and its name."""
_UNUSED: Final = ScopeUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """What was used this month, and what the budgets say to it."""

    to_date: MonthToDate
    limits: tuple[Limit, ...] = ()
    told_lately: frozenset[Teller] = frozenset()
    """Who need not say again what was used, as it has said so lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What is there to say something, each as it is now."""

    pools: tuple[objects.Custom[InstancePool], ...] = ()
    scopes: tuple[objects.Custom[Scope], ...] = ()
    accounts: tuple[objects.Custom[ProviderAccount], ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    """Accounts that cannot be used, and why."""
    warned: budget_events.Warned = field(default_factory=dict)
    told_lately: frozenset[Teller] = frozenset()
    """Who has said lately what was used."""

    def names(self) -> frozenset[str]:
        """Return the names of the pools."""
        return frozenset(pool.meta.key.name for pool in self.pools)


def statuses(snapshot: Snapshot, plan: Plan, stated: Stated) -> Iterator[Status]:
    """Yield the statuses that must be written, each from the very version that it is made from."""
    month = Month(to_date=offers.used(snapshot), limits=offers.monthly(snapshot), told_lately=stated.told_lately)
    fixed = [pool.resource for pool in stated.pools if pool.resource.spec.specifications.node_selector is not None]
    nodes = static_nodes(snapshot.nodes, *fixed) if fixed else {}
    for pool in stated.pools:
        name, spec = pool.meta.key.name, pool.resource.spec
        known = Known(
            problem=stated.problems.get(spec.provider_account),
            generation=pool.meta.generation if snapshot.pools.get(name) is spec else None,
            static_nodes=nodes.get(name),
        )
        yield from _status(POOLS, pool, changes(pool.resource, snapshot, month, known))
    for account in stated.accounts:
        name = account.meta.key.name
        problem = stated.problems.get(name) or snapshot.outages.get(name) or snapshot.silent.get(name)
        yield from _status(ACCOUNTS, account, account_changes(account.resource, problem, snapshot.now))
    pending = waiting(snapshot, plan)
    for scope in stated.scopes:
        count, now = pending[scope.meta.key.name], snapshot.now
        use = snapshot.scope_use.get(scope.meta.key.name, _UNUSED)
        found = scope_changes(scope.resource, month, count, snapshot.durations, use=use, now=now)
        yield from _status(SCOPES, scope, found)


def _status(resource: kinds.ResourceType, stored: objects.Stored, changed: Manifest) -> Iterator[Status]:
    if changed:
        yield Status(resource=resource, stored=stored, changes=changed)


def waiting(snapshot: Snapshot, plan: Plan) -> Counter[str]:
    """Count the pods that wait, by scope."""
    pods = [pod for launch in plan.launches for pod in launch.pods]
    pods += [pod for refused in plan.unserved for pod in refused.pods]
    return Counter(demand.scope_of(snapshot, pod.meta.key.namespace) for pod in pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else is known of a pool."""

    problem: str | None = None
    """Why its account cannot be used; None: it can."""
    generation: int | None = None
    """The generation of the spec that the snapshot has; None: another one came meanwhile."""
    static_nodes: int | None = None
    """How many nodes its nodeSelector selects; None: its instances are in node groups."""


@remembered.Remembered
def static_nodes(nodes: Mapping[objects.Key, objects.Node], *pools: InstancePool) -> dict[str, int]:
    """Count the nodes of pools of fixed nodes, by the pool's name."""
    return {
        pool.metadata.name: sum(
            (pool.spec.specifications.node_selector or {}).items() <= node.meta.labels.items()
            for node in nodes.values()
        )
        for pool in pools
    }


def changes(pool: InstancePool, snapshot: Snapshot, month: Month, known: Known) -> Manifest:
    """Return the fields of a pool's status that must be written; empty if it says all this already."""
    name, problem = pool.metadata.name, known.problem
    groups = [group for group in snapshot.groups if group.key.pool == name]
    said = [_ready(pool, groups, known, snapshot)]
    own = [each for each in month.limits if each.pool == name and not each.scope]
    said += _within_budget(own, pool.status.conditions, snapshot.now)
    said += _up_to_date(pool, snapshot, groups)
    said += [pool_teardown.condition(pool, snapshot)] if name in pool_teardown.waiting(snapshot) else []
    wanted: dict[str, Any] = {
        "activeInstances": known.static_nodes or offers.active(snapshot, name),
        "observedGeneration": known.generation or pool.status.observed_generation,
        "unhelpfulLaunches": unhelpful.written(snapshot, name),
        "conditions": said,
        **_used(pool, month),
    }
    if problem is None:  # of an account that cannot be read, what was read last stands
        wanted["nodeGroups"] = [_group(snapshot, group) for group in groups[:NODE_GROUPS_MAX]]
    return status.missing(_said((POOLS.kind, name), _unpaused(pool.status)), wanted)


def account_changes(account: ProviderAccount, problem: str | None, now: float) -> Manifest:
    """Return what an account's status must say; empty if it says so. `problem` is why it does not answer."""
    before = account.status.conditions
    reason = "Answers" if problem is None else "NotUsable"
    said = conditions.written(
        READY, holds=problem is None, reason=reason, message=problem or "", before=before, now=now
    )
    return status.missing(_said((ACCOUNTS.kind, account.metadata.name), account.status), {"conditions": [said]})


def scope_changes(
    scope: Scope, month: Month, pending: int, durations: Mapping[ScopePool, Durations], *, use: ScopeUse, now: float
) -> Manifest:
    """Return the fields of a scope's status that must be written; empty if it says all this already."""
    before = {each.name: each for each in scope.status.pools}
    is_fresh = (SCOPES.kind, scope.metadata.name) in month.told_lately
    pools = []
    for entry in scope.spec.pools:
        key = ScopePool(scope.metadata.name, entry.name)
        known, old = durations.get(key), before.get(entry.name)
        stated: dict[str, Any] = {
            "name": entry.name,
            "secondsThisMonth": _steady(
                month.to_date.scopes.get(key, 0), old.seconds_this_month if old else None, is_fresh=is_fresh
            ),
            "samples": known.samples if known else old.samples if old else 0,
        }
        mean = known.mean_seconds if known else old.mean_duration_seconds if old else None
        pools.append({**stated, **({} if mean is None else {"meanDurationSeconds": mean})})
    own = [each for each in month.limits if each.scope == scope.metadata.name]
    said = _within_budget(own, scope.status.conditions, now)
    said += scope_users.conditions_of(use, scope.status.conditions, now)
    wanted = {"pending": pending, "month": month.to_date.month, "pools": pools, "conditions": said}
    return status.missing(_said((SCOPES.kind, scope.metadata.name), scope.status), wanted)


@remembered.RememberedEqual
def _said(_teller: Teller, before: Model) -> Manifest:
    """Return what a status says: as long as nobody writes it, it is the very same one."""
    return status.written(before)


def _unpaused(before: InstancePoolStatus) -> InstancePoolStatus:
    """Return what a pool says but for the runtime's pause: who wrote that takes it back."""
    left = tuple(each for each in before.conditions if each.type != conditions.RUNTIME_PAUSED)
    return before if len(left) == len(before.conditions) else before.model_copy(update={"conditions": left})


def durations_of(scopes: Iterable[Scope]) -> dict[ScopePool, Durations]:
    """Return how long pods run, as scopes remember it."""
    return {
        ScopePool(scope.metadata.name, each.name): Durations(
            mean_seconds=each.mean_duration_seconds, samples=each.samples
        )
        for scope in scopes
        for each in scope.status.pools
        if each.samples
    }


def _used(pool: InstancePool, month: Month) -> Manifest:
    """Return what a pool has used this month; small steps are not worth a write."""
    name, before = pool.metadata.name, None
    if pool.status.month == month.to_date.month:
        before = pool.status.seconds_this_month
    used: Manifest = {
        "month": month.to_date.month,
        "secondsThisMonth": _steady(
            month.to_date.seconds.get(name, 0), before, is_fresh=(POOLS.kind, name) in month.told_lately
        ),
    }
    if used["secondsThisMonth"] != before:
        cost = month.to_date.cost_micros.get(name, 0)
        used["costThisMonth"] = f"{cost // MICROS}.{cost % MICROS // 10_000:02d}" if cost else None
    return used


def _steady(now: int, before: int | None, *, is_fresh: bool) -> int:
    """Return what to say was used: what was said before where that was lately, or little came to it."""
    if before is None or now < before:
        return now
    return before if is_fresh or now < before + STEP_SECONDS else now


def _up_to_date(pool: InstancePool, snapshot: Snapshot, groups: Sequence[cloud.NodeGroup]) -> list[Manifest]:
    """Say how many instances are of an older launch template and what holds them; nothing where none ever was."""
    before, outdated = pool.status.conditions, drift.outdated_of(snapshot, pool.metadata.name)
    if not outdated and all(each.type != UP_TO_DATE for each in before):
        return []
    old = [group for group in groups if any(one.id in snapshot.outdated for one in group.members)]
    whys = [drift.held(snapshot, group) for group in old]
    held = f"; held by: {messages.lasting(whys[0])}" if whys and whys[0] and all(whys) else ""
    kept = drift.kept(snapshot, old)
    held += f"; {len(kept)} are kept by an annotation ({', '.join(kept[:NAMED_MAX])})" if kept else ""
    count = sum(len(group.members) for group in groups)
    message = f"{outdated} of {count} instances are of an older launch template{held}" if outdated else ""
    reason = "Outdated" if outdated else UP_TO_DATE
    said = conditions.written(
        UP_TO_DATE, holds=not outdated, reason=reason, message=message, before=before, now=snapshot.now
    )
    return [said]


def _within_budget(found: Sequence[Limit], before: tuple[Condition, ...], now: float) -> list[Manifest]:
    """Say of all budgets of a pool or a scope how the worst one stands; nothing where there is none."""
    if not found:
        return []
    worst = max(found, key=lambda each: (len(budget_events.warnings(each)), each.used / max(1, each.most)))
    state, message = budgets.state(worst), messages.warning(worst)
    holds = state is budgets.State.WITHIN
    return [conditions.written(WITHIN_BUDGET, holds=holds, reason=state, message=message, before=before, now=now)]


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Write amounts as Kubernetes does; of very many, what every node has goes first."""
    written = sorted(
        sorted(amounts, key=lambda name: ("/" in name, name.startswith("hugepages-"), name))[:QUANTITIES_MAX]
    )
    return {name: f"{amounts[name]}m" if name == CPU else str(amounts[name]) for name in written}


def _group(snapshot: Snapshot, group: cloud.NodeGroup) -> Manifest:
    template = templates.of(snapshot, group)
    unavailable = snapshot.unavailable.get(group.key)
    refused = offers.refusal(snapshot, group, template)
    stated: Manifest = {**_stated(group.name, group, template), **_learned(snapshot, group)}
    if unavailable is not None:  # also for a while after: whoever leads next goes on with its backoff
        stated |= {"unavailableUntil": clock.to_rfc3339(unavailable.until), "failures": unavailable.failures}
    if refused is not None:
        stated["reason"] = messages.lasting(refused)[: conditions.MESSAGE_MAX]
    return stated


@remembered.RememberedEqual
def _stated(name: cloud.GroupName, group: cloud.NodeGroup, template: Template | None) -> Manifest:
    """Say what a group has and what its nodes will be."""
    return {
        "name": name,
        "zone": group.key.zone,
        "instanceType": group.key.instance_type,
        "minimum": group.minimum,
        "maximum": group.maximum,
        "desired": group.desired,
        "instances": len(group.members),
        "allocatable": quantities(template.allocatable) if template else {},
        "labels": _told_labels(template.labels) if template else {},
        "taints": [taint.model_dump(mode="json", by_alias=True) for taint in group.node.taints],
    }


def _learned(snapshot: Snapshot, group: cloud.NodeGroup) -> Manifest:
    """Return what nodes of a group really offered, for whoever begins anew."""
    learned = snapshot.learned.get(learned_allocatable.kind_of(group))
    told = learned_allocatable.written(snapshot, group)
    return {**told, "learned": _written(group.name, learned.amounts)} if told and learned is not None else {}


@remembered.RememberedEqual
def _written(_name: cloud.GroupName, amounts: Mapping[str, int]) -> dict[str, str]:
    return quantities(amounts)


def _ready(pool: InstancePool, groups: list[cloud.NodeGroup], known: Known, snapshot: Snapshot) -> Manifest:
    if known.problem is not None:
        said = (False, "AccountUnusable", known.problem)
    elif known.static_nodes is not None and not groups:
        labels = ",".join(f"{key}={value}" for key, value in (pool.spec.specifications.node_selector or {}).items())
        said = (bool(known.static_nodes), "StaticNodes", f"{known.static_nodes} nodes have the labels {labels}")
    elif not groups:
        said = (
            False,
            "NoNodeGroups",
            f"no Auto Scaling group is tagged for this cluster and pool {pool.metadata.name}",
        )
    elif snapshot.other_autoscaler is not None:
        why = messages.lasting(snapshot.other_autoscaler)
        said = (False, snapshot.other_autoscaler.reason, f"nothing is started or ended: {why}")
    elif pool.metadata.name in snapshot.leaving:
        said = (False, "BeingRemoved", "nothing is started; the condition Draining says what is waited for")
    elif not pool.spec.enabled:
        said = (True, "Disabled", "nothing is asked for; what runs goes on")
    else:
        half_read = snapshot.half_read.get(pool.spec.provider_account, "")
        unread = f"ages of instances or launch templates cannot be read: {half_read}" if half_read else ""
        unseen = messages.lasting(snapshot.autoscalers_unseen) if snapshot.autoscalers_unseen is not None else ""
        notes = (*_too_many(pool, snapshot), *_untagged(pool, groups), *_unread(groups, snapshot), unread, unseen)
        said = (True, "Usable", "; ".join(filter(None, notes)))
    holds, reason, message = said
    before, now = pool.status.conditions, snapshot.now
    return conditions.written(READY, holds=holds, reason=reason, message=message, before=before, now=now)


def _too_many(pool: InstancePool, snapshot: Snapshot) -> Iterator[str]:
    """Say that more instances run than the pool may have: somebody lowered the limit."""
    most, active = pool.spec.limits.max_active_instances, offers.active(snapshot, pool.metadata.name)
    if most is not None and active > most:
        yield f"{active} instances are active and maxActiveInstances is {most}: none is started, and idle ones go"


def _untagged(pool: InstancePool, groups: Iterable[cloud.NodeGroup]) -> Iterator[str]:
    """Say which groups' nodes will lack the labels of the pool's tags: pods that ask for these find no node there."""
    tags = dict(tag.partition("=")[::2] for tag in pool.spec.tags)
    labels = {keys.tag_label(name): value for name, value in tags.items()}
    without = [group.name for group in groups if not labels.items() <= group.node.labels.items()]
    if without:
        named = ", ".join(f"{key}={value}" for key, value in labels.items())
        yield f"nodes of {', '.join(without[:3])} lack labels of the pool's tags ({named}): add them to its template"


def _unread(groups: Iterable[cloud.NodeGroup], snapshot: Snapshot) -> Iterator[str]:
    """Say of which groups nobody can tell why they lack instances, or could not while these were waited for."""
    for group in groups:
        short = snapshot.unavailable.get(group.key)
        if short is not None and short.reason == unavailable_offerings.NEVER_LAUNCHED and short.until > snapshot.now:
            yield f"{group.name}: {short.message}"
        elif group.name in snapshot.unread:
            yield f"{group.name}: why it lacks instances cannot be read: {snapshot.unread[group.name]}"


def _told_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(labels.items()) if key not in templates.DERIVED}
