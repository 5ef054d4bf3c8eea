"""What to do about capacity now. Pure: a snapshot in, a plan out; the same snapshot gives the same plan.

Up: 1. Demand: pods that no node has room for. 2. Supply: what is there and what is on its way. 3. Choice: which groups
may serve whom. 4. Placement. 5. Launches, and pods that may go to the zone they waited for. Nothing vanishes: a pod has
room, waits for a node, or is told why not. Down: what failed is taken back; what is of no use, drained or idle goes.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator

from autoscaler import clock
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.accounts import unavailable_offerings
from autoscaler.capacity.model import Demand, Placement, Policy, Situation
from autoscaler.capacity.plan import NOTHING, Disruption, Launch, Memory, Plan, Unserved
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.reporting import budget_events, pod_events, pool_status
from autoscaler.capacity.scaledown import drain_plan, drift, emptiness, node_repair, pool_teardown
from autoscaler.capacity.scaleup import allocatable_retry, demand, ephemeral, machine_demand, supply
from autoscaler.capacity.scaleup.colocation import colocation, gangs
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.capacity.scaleup.missed_placements import Landed, Waiting
from autoscaler.capacity.scaleup.scopes import scope_targets, scope_users
from autoscaler.capacity.scaleup.storage import attachments
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects


def decide(
    snapshot: Snapshot, policy: Policy, memory: Memory = NOTHING, seen: instance_records.Sight | None = None
) -> Plan:
    """Plan all that is to be done now. Who shares the cluster with another autoscaler only tells."""
    records = instance_records.decide(seen) if seen is not None else instance_records.Plan()
    plan = _scale_up(snapshot, policy)
    plan = dataclasses.replace(
        plan,
        records=records,
        claims=ephemeral.decide(snapshot, plan.landed),
        teardown=pool_teardown.decide(snapshot),
        scopes=scope_users.decide(snapshot),
    )
    if snapshot.other_autoscaler is not None:
        return dataclasses.replace(plan, memory=memory)
    renewal = drift.choose(snapshot, plan, memory)
    gone = _disrupt(snapshot, memory, plan.needed | renewal.spares, renewal.drains)
    return dataclasses.replace(
        plan,
        launches=(*plan.launches, *renewal.surges),
        resizes=unavailable_offerings.resizes(snapshot),
        disruptions=gone.disruptions,
        spared=gone.spared,
        away=gone.away,
        waits=renewal.waits,
        memory=dataclasses.replace(gone.memory, begun=renewal.memory.begun, postponed=renewal.memory.postponed),
        wake_at=clock.earliest((plan.wake_at, renewal.wake_at, gone.wake_at)),
    )


def report(snapshot: Snapshot, plan: Plan, stated: pool_status.Stated, told: pod_events.Told) -> Plan:
    """Add what pools, scopes and accounts are to say, given what they say now; and what pods are to be told."""
    return dataclasses.replace(
        plan,
        statuses=tuple(pool_status.statuses(snapshot, plan, stated)),
        pod_events=pod_events.due(plan.unserved, told, snapshot.now),
        pool_events=tuple(budget_events.due(offers.monthly(snapshot), stated.warned, stated.names())),
    )


def _disrupt(snapshot: Snapshot, memory: Memory, needed: frozenset[str], renewed: tuple[Disruption, ...]) -> Plan:
    """Plan what goes: what is of no use, then, on what is left, what is drained and what is idle."""
    nodeless = node_repair.nodeless_since(snapshot, memory.nodeless)
    useless = node_repair.choose(snapshot, nodeless)
    left = _without(snapshot, useless.replacements)
    drained = (*drain_plan.choose(left), *renewed)
    idle = emptiness.idle_since(left, memory.idle)
    removed = emptiness.choose(left, idle, needed)
    waiting = [each.wait_until for each in removed.removals if snapshot.now < each.wait_until < float("inf")]
    return Plan(
        disruptions=(*useless.replacements, *drained, *removed.removals),
        spared=drain_plan.spared(left, {each.node_name for each in (*drained, *removed.removals)}),
        away=useless.away,
        memory=Memory(idle=idle, nodeless=nodeless),
        wake_at=clock.earliest((useless.wake_at, removed.wake_at, *waiting)),
    )


def _without(snapshot: Snapshot, gone: tuple[Disruption, ...]) -> Snapshot:
    """Return how it will be once these have ended, so that no group loses more than it may."""
    if not gone:
        return snapshot
    groups = {group.name: group for group in snapshot.groups}
    for each in gone:
        groups[each.group] = groups[each.group].without(each.instance, decrement=each.decrement)
    return dataclasses.replace(snapshot, groups=tuple(groups.values()))


# What pods wait for


def _scale_up(snapshot: Snapshot, policy: Policy) -> Plan:
    """Plan launches for all pods that wait."""
    found = demand.waiting(snapshot.indexed)
    together = gangs.gather(snapshot)
    gated = demand.alike(machine_demand.waiting(snapshot), demand.labels_read(snapshot.indexed))
    if not found and not together and not gated:
        return Plan()
    demands, silent = demand.demands(snapshot, found), demand.demands(snapshot, gated)
    situation = Situation(
        demands=(*demands.values(), *silent.values()),
        groups=offers.groups(snapshot),
        rooms=supply.rooms(snapshot, with_residents=demand.looks_at_others(snapshot.indexed)),
        asked=supply.asked(snapshot),
        limits=offers.limits(snapshot),
        namespaces=snapshot.namespaces,
    )
    gang_shapes = {pod.shape for gang in together for pod in gang.pods}
    situation = attachments.limited(situation, snapshot, {like.shape for like in (*found, *gated)} | gang_shapes)
    pods = {made: tuple(found[like]) for like, made in demands.items()}
    pods |= {made: tuple(gated[like]) for like, made in silent.items()}
    settled = colocation.place(snapshot, situation, pods, policy=policy, together=together)
    rationed = settled.rationed
    plan = Plan(
        launches=_launches(snapshot, rationed),
        unserved=tuple(_unserved(settled)),
        needed=frozenset(landing.room for landing in rationed.placed.landings),
        landed=_landed(rationed, {made: like for like, made in demands.items()}),
        openings=settled.openings,
        wake_at=settled.wake_at,
    )
    return _with_retries(plan, snapshot, situation, policy)


def _with_retries(plan: Plan, snapshot: Snapshot, situation: Situation, policy: Policy) -> Plan:
    """Add nodes for pods that only old lessons refuse, once nothing else is launched that limits would count."""
    rationed = None
    if plan.unserved and not plan.launches:
        rationed = allocatable_retry.choose(snapshot, situation, plan.unserved, policy)
    if rationed is None:
        return plan
    launches = _launches(snapshot, rationed)
    helped = {pod.meta.uid for launch in launches for pod in launch.pods}
    left = [
        dataclasses.replace(each, pods=tuple(pod for pod in each.pods if pod.meta.uid not in helped))
        for each in plan.unserved
    ]
    return dataclasses.replace(
        plan,
        launches=launches,
        retries=frozenset(launch.key for launch in launches),
        unserved=tuple(each for each in left if each.pods),
    )


def _unserved(settled: colocation.Settled) -> Iterator[Unserved]:
    rationed = settled.rationed
    for each in rationed.placed.unplaced:
        yield Unserved(pods=rationed.pods[each.demand][-each.count :], rejections=each.rejections)
    for held in rationed.held:
        yield Unserved(pods=held.pods, rejections=held.rejections)
    for refused in settled.refused:
        yield Unserved(pods=refused.pods, rejections=refused.rejections)


def _landed(rationed: scope_targets.Rationed, likes: dict[Demand, Waiting]) -> Landed:
    """Return where there is room for whom. Pods behind a gate teach nothing: nobody looks at them yet."""
    rooms: dict[Waiting, set[str]] = {like: set() for like in likes.values()}
    for landing in rationed.placed.landings:
        for share in landing.shares:
            like = likes.get(rationed.origins.get(share.demand, share.demand))
            if like is not None:
                rooms[like].add(landing.room)
    return {like: frozenset(found) for like, found in rooms.items()}


def _launches(snapshot: Snapshot, rationed: scope_targets.Rationed) -> tuple[Launch, ...]:
    groups = {group.key: group for group in snapshot.groups}
    pods = _waiting(rationed.placed, rationed.pods)
    return tuple(
        Launch(
            key=key,
            group=groups[key].name,
            before=offers.size(groups[key]),
            after=offers.size(groups[key]) + nodes,
            maximum=groups[key].maximum,
            pods=tuple(pods[key]),
        )
        for key, nodes in sorted(rationed.placed.new_nodes().items())
    )


def _waiting(placed: Placement, pods: scope_targets.Pods) -> dict[NodeGroupKey, list[objects.Pod]]:
    """Share out who waits for which group; pods of one demand are alike: the first have room, the last get none."""
    shares = [(each.key, share.demand, share.count * each.nodes) for each in placed.launches for share in each.shares]
    others = Counter({each.demand: each.count for each in placed.unplaced})
    for _, made, count in shares:
        others[made] += count
    first = {made: max(0, len(pods[made]) - others[made]) for _, made, _ in shares}
    waiting = defaultdict[NodeGroupKey, list[objects.Pod]](list)
    for key, made, count in shares:
        waiting[key] += pods[made][first[made] : first[made] + count]
        first[made] += count
    return waiting
