"""Which node groups may get how many more nodes, and what holds the others back. Pure."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping

from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.model import Group, Limit, LimitKind, Reason, Rejection, Template
from autoscaler.capacity.records import accounting, pool_lives
from autoscaler.capacity.scaleup import templates
from autoscaler.capacity.scaleup.limits import budgets, costs, lasting
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud

_NOTHING = Template(labels={}, allocatable={})


def groups(snapshot: Snapshot) -> tuple[Group, ...]:
    """Return all node groups; those that take nothing now say why."""
    return tuple(_group(snapshot, group) for group in snapshot.groups)


def limits(snapshot: Snapshot) -> tuple[Limit, ...]:
    """Return the limits that several groups share, as how much is left of each."""
    return (*_pool_limits(snapshot), *budgets.limits(monthly(snapshot)), *_ceilings(snapshot))


@functools.lru_cache(maxsize=2)
def monthly(snapshot: Snapshot) -> tuple[Limit, ...]:
    """Return what the month's budgets say."""
    limited = budgets.limited_pools(snapshot.pools, snapshot.scopes)
    if not limited:
        return ()
    lives = snapshot.lives if snapshot.lives is not None else pool_lives.lives(snapshot.instances)
    recorded = {name: len(there.living) for name, there in lives.items()}
    unrecorded = {name: max(0, active(snapshot, name) - recorded.get(name, 0)) for name in snapshot.pools}
    return budgets.budgets(
        budgets.Books(
            now=snapshot.now,
            pools=snapshot.pools,
            scopes=snapshot.scopes,
            lives=lives,
            unrecorded=unrecorded,
            durations=snapshot.durations,
            prices=snapshot.prices,
            lasting=lasting.lasting(snapshot, limited),
        ),
        used(snapshot),
    )


@functools.lru_cache(maxsize=2)
def used(snapshot: Snapshot) -> accounting.MonthToDate:
    """Return what was used of this month."""
    if snapshot.used is not None:
        return snapshot.used
    hourly = costs.hourly_micros(snapshot.instances, snapshot.pools, snapshot.prices)
    return accounting.month_to_date(snapshot.instances, snapshot.now, hourly)


def size(group: cloud.NodeGroup) -> int:
    """Return how many instances a group has or is to have: a late one counts although nobody asks for it any more."""
    return max(group.desired, len(group.members))


def _group(snapshot: Snapshot, group: cloud.NodeGroup) -> Group:
    template = templates.of(snapshot, group)
    return Group(
        key=group.key,
        template=template or _NOTHING,
        more=group.maximum - size(group),
        nodes=size(group),
        price_micros=_price(snapshot, group),
        refused=refusal(snapshot, group, template),
    )


def refusal(snapshot: Snapshot, group: cloud.NodeGroup, template: Template | None) -> Rejection | None:
    """Return why a group takes nothing now; None if it does."""
    pool = snapshot.pools.get(group.key.pool)
    if snapshot.other_autoscaler is not None:
        return snapshot.other_autoscaler
    if pool is None:
        return Rejection(reason=Reason.NO_POOL, what=group.key.pool)
    if snapshot.is_leaving(group.key):
        return Rejection(reason=Reason.LEAVING if group.key.pool in snapshot.leaving else Reason.GROUP_LEAVING)
    if not pool.enabled:
        return Rejection(reason=Reason.DISABLED)
    if template is None:
        return Rejection(reason=Reason.UNKNOWN_TYPE, what=group.key.instance_type)
    held = _unallowed(snapshot, group, pool) or _outage(snapshot, pool) or _shortage(snapshot, group)
    return held or budgets.unpriced(pool, group.key.instance_type, snapshot.prices)


def _unallowed(snapshot: Snapshot, group: cloud.NodeGroup, pool: InstancePoolSpec) -> Rejection | None:
    own, allowed = snapshot.types[group.key.instance_type].architecture, pool.architectures
    if not allowed or own in allowed:
        return None
    return Rejection(reason=Reason.ARCHITECTURE, what=own, message=", ".join(allowed))


def _outage(snapshot: Snapshot, pool: InstancePoolSpec) -> Rejection | None:
    account = pool.provider_account
    if account not in snapshot.outages:
        return None
    return Rejection(reason=Reason.NO_ANSWER, what=account, message=snapshot.outages[account])


def _shortage(snapshot: Snapshot, group: cloud.NodeGroup) -> Rejection | None:
    unavailable = snapshot.unavailable.get(group.key)
    if unavailable is not None and unavailable.until > snapshot.now:
        if not unavailable.reason:
            return Rejection(reason=Reason.STATED, message=unavailable.message)
        left = int(unavailable.until - snapshot.now)
        return Rejection(reason=Reason.UNAVAILABLE, what=unavailable.reason, message=unavailable.message, wanted=left)
    return Rejection(reason=Reason.SUSPENDED) if "Launch" in group.suspended else None


def _price(snapshot: Snapshot, group: cloud.NodeGroup) -> int | None:
    pool = snapshot.pools.get(group.key.pool)
    if pool is None:
        return None
    return snapshot.prices.hourly_micros.get((group.key.instance_type, pool.specifications.capacity_type))


def _pool_limits(snapshot: Snapshot) -> Iterator[Limit]:
    for name, spec in sorted(snapshot.pools.items()):
        most = spec.limits.max_active_instances
        if most is not None:
            yield Limit(kind=LimitKind.POOL_INSTANCES, pool=name, most=most, used=active(snapshot, name))


def active(snapshot: Snapshot, pool: str) -> int:
    """Count a pool's instances, those still starting included."""
    return _active(snapshot.groups).get(pool, 0)


@remembered.Remembered
def _active(groups: tuple[cloud.NodeGroup, ...]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for group in groups:
        found[group.key.pool] += size(group)
    return found


def _ceilings(snapshot: Snapshot) -> Iterator[Limit]:
    ceilings = snapshot.ceilings
    if ceilings.nodes is not None:
        used = sum(size(group) for group in snapshot.groups)
        yield Limit(kind=LimitKind.CLUSTER_NODES, most=ceilings.nodes, used=used)
    if ceilings.cpu_millis is not None:
        yield Limit(kind=LimitKind.CLUSTER_CPU, most=ceilings.cpu_millis, used=_cpu_millis(snapshot))
    if ceilings.launches_per_minute is not None:
        yield Limit(kind=LimitKind.LAUNCHES, most=ceilings.launches_per_minute, used=snapshot.launched)


def _cpu_millis(snapshot: Snapshot) -> int:
    types = snapshot.types
    return sum(
        size(group) * types[group.key.instance_type].vcpus * 1000
        for group in snapshot.groups
        if group.key.instance_type in types
    )
