"""Whether a placement may stand, judged from Kubernetes' documented rules alone.

It shares no code with placement: every node is written out, every pod is looked at. `violations` returns all that is
wrong, in words; an empty list means that the pods can be bound as planned.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autoscaler.capacity import model
from autoscaler.kube import wire
from tests.autoscaler.capacity import binding, documented

OTHER_KEY = "rack"
"""A label of nodes that is neither host nor zone, as tests use it."""


def violations(situation: model.Situation, placement: model.Placement) -> list[str]:
    """Return what is wrong with a placement."""
    nodes = list(_nodes(situation, placement))
    return [
        *_bounds(situation, placement),
        *_accounts(situation, placement),
        *itertools.chain.from_iterable(_own(node) for node in nodes),
        *itertools.chain.from_iterable(_host(situation, node) for node in nodes),
        *_host_spread(nodes),
        *_zone_neighbours(situation, nodes),
        *_company(situation, _merged(nodes, by=lambda node: node.name), documented.HOST_KEY),
        *_company(situation, _merged(nodes, by=lambda node: node.labels.get(OTHER_KEY, "")), OTHER_KEY),
        *binding.zone_spread(nodes),
    ]


def _nodes(situation: model.Situation, placement: model.Placement) -> Iterator[documented.Node]:
    landed = {landing.room: landing for landing in placement.landings}
    for room in situation.rooms:
        there = [
            documented.Pods(namespace=r.namespace, labels=r.labels, shape=r.shape, count=r.count)
            for r in room.residents
        ]
        shares = landed[room.name].shares if room.name in landed else ()
        yield documented.Node(
            name=room.name,
            labels=room.labels,
            taints=room.taints,
            free=room.free,
            zone=_zone(room.labels),
            is_room=True,
            pods=[*there, *map(_pods, shares)],
        )
    asked = {one.key: one for one in situation.asked}
    used: Counter[Any] = Counter()
    for number, filling in enumerate(placement.expected):
        used[filling.key] += filling.nodes
        yield from _fresh(f"asked-{number}", filling, asked[filling.key].template)
    for one in situation.asked:
        empty = model.Filling(key=one.key, nodes=one.nodes - used[one.key], shares=())
        yield from _fresh("asked-empty", empty, one.template)
    groups = {group.key: group for group in situation.groups}
    for number, filling in enumerate(placement.launches):
        yield from _fresh(f"new-{number}", filling, groups[filling.key].template)


def _fresh(name: str, filling: model.Filling, template: model.Template) -> Iterator[documented.Node]:
    for number in range(filling.nodes):
        yield documented.Node(
            name=f"{name}-{number}",
            labels=template.labels,
            taints=template.taints,
            free=template.allocatable,
            zone=_zone(template.labels),
            key=filling.key,
            pods=[_pods(share) for share in filling.shares],
        )


def _pods(share: model.Share) -> documented.Pods:
    demand, shape = share.demand, share.demand.shape
    own = bool(shape.namespace)
    return documented.Pods(
        namespace=shape.namespace if own else demand.namespace,
        labels=shape.labels if own else demand.labels,
        shape=shape,
        count=share.count,
        demand=demand,
    )


def _zone(labels: Mapping[str, str]) -> str:
    return labels.get(documented.ZONE_KEYS[0]) or labels.get(documented.ZONE_KEYS[1]) or ""


def _bounds(situation: model.Situation, placement: model.Placement) -> Iterator[str]:
    groups = {group.key: group for group in situation.groups}
    for key, nodes in placement.new_nodes().items():
        if groups[key].refused is not None or nodes > groups[key].more:
            yield f"{key} gets {nodes} nodes of {groups[key].more}, refused: {groups[key].refused}"
    asked = {one.key: one.nodes for one in situation.asked}
    used: Counter[Any] = Counter()
    for filling in placement.expected:
        used[filling.key] += filling.nodes
    yield from (
        f"{key}: {n} nodes filled of {asked.get(key, 0)} asked for" for key, n in used.items() if n > asked[key]
    )
    for limit in situation.limits:
        new = {k: n for k, n in placement.new_nodes().items() if limit.pool in ("", k.pool)}
        cpu = sum(
            n * (groups[k].template.capacity or groups[k].template.allocatable).get("cpu", 0) for k, n in new.items()
        )
        taken = cpu if limit.kind is model.LimitKind.CLUSTER_CPU else limit.each * sum(new.values())
        if taken > max(0, limit.most - limit.used - limit.expected):
            yield f"{limit}: {taken} taken"


def _accounts(situation: model.Situation, placement: model.Placement) -> Iterator[str]:
    seen: Counter[int] = Counter()
    for landing in placement.landings:
        for share in landing.shares:
            seen[id(share.demand)] += share.count
    for filling in (*placement.expected, *placement.launches):
        for share in filling.shares:
            seen[id(share.demand)] += share.count * filling.nodes
        if filling.nodes < 1 or not filling.shares or any(share.count < 1 for share in filling.shares):
            yield f"an empty filling: {filling}"
    keys = {group.key for group in situation.groups}
    for unplaced in placement.unplaced:
        seen[id(unplaced.demand)] += unplaced.count
        named = [key for rejection in unplaced.rejections for key in rejection.groups]
        everywhere = any(not rejection.groups for rejection in unplaced.rejections)
        if unplaced.count < 1 or not (everywhere or (set(named) == keys and len(named) == len(keys))):
            yield f"not every group has one reason: {unplaced}"
    for demand in situation.demands:
        if seen[id(demand)] != demand.count:
            yield f"{seen[id(demand)]} of {demand.count} pods are accounted for: {demand}"


def _own(node: documented.Node) -> Iterator[str]:
    """Resources, selectors, taints, and what the demand itself rules out."""
    used: Counter[str] = Counter()
    for pods in node.new:
        used["pods"] += pods.count
        for name, amount in pods.shape.requests.items():
            used[name] += amount * pods.count
        if not documented.selects(pods.shape, node):
            yield f"{node.name} is not selected by {pods.shape}"
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not documented.tolerated(pods.shape.tolerations, taint):
                yield f"{node.name} has {taint}, which is not tolerated"
        if pods.shape.resource_claims:
            yield "resource claims are not planned for"
        if not _is_allowed(pods.demand, node):
            yield f"{node.name} cannot take {pods.demand}"
    for name, amount in used.items():
        if amount > max(node.free.get(name, 0), 0):
            yield f"{node.name}: {amount} of {node.free.get(name, 0)} {name}"


def _is_allowed(demand: model.Demand | None, node: documented.Node) -> bool:
    if demand is None:
        return True
    if demand.zones is not None and node.zone not in demand.zones:
        return False
    if node.name in demand.avoid or node.key in demand.missed:
        return False
    is_new = node.key is not None and node.name.startswith("new")
    return not is_new or demand.pools is None or any(node.key.pool in tier for tier in demand.pools)


def _apart(pods: documented.Pods, *topology: str) -> list[wire.PodTerm]:
    affinity = pods.shape.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    return [term for term in terms if term.topology_key in topology]


def _together(pods: documented.Pods, *topology: str) -> list[wire.PodTerm]:
    affinity = pods.shape.affinity
    terms = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    return [term for term in terms if term.topology_key in topology]


def _collides(situation: model.Situation, pods: list[documented.Pods], *topology: str) -> Iterator[str]:
    """Anti-affinity holds in both directions, whoever came first; two pods that are both there already are let be."""
    for holder in pods:
        for term in _apart(holder, *topology):
            for other in pods:
                if holder.demand is None and other.demand is None:
                    continue
                if holder is other and holder.count < 2:
                    continue
                if documented.term_covers(situation, term, holder, other):
                    yield f"{other.labels} must not be near {holder.labels}: {term}"


def _host(situation: model.Situation, node: documented.Node) -> Iterator[str]:
    yield from (f"{node.name}: {said}" for said in _collides(situation, node.pods, documented.HOST_KEY))
    ports: Counter[Any] = Counter()
    for pods in node.pods:
        for _, protocol, port in pods.shape.host_ports:
            ports[protocol, port] += pods.count
    if node.new and any(n > 1 for port, n in ports.items() if any(port in _ports(p) for p in node.new)):
        yield f"{node.name}: a port is used twice"


def _ports(pods: documented.Pods) -> list[tuple[str, int]]:
    return [(protocol, port) for _, protocol, port in pods.shape.host_ports]


def _host_spread(nodes: list[documented.Node]) -> Iterator[str]:
    """On hosts the end state must hold by itself: no order of binding is relied on."""
    lowest: dict[bytes, int] = {}
    for node in nodes:
        for holder in node.new:
            for spread in documented.hard_spreads(holder, documented.HOST_KEY):
                here = sum(pods.count for pods in node.pods if documented.spread_counts(spread, holder, pods))
                if here <= spread.max_skew:
                    continue
                identity = documented.identity(spread, holder)
                if identity not in lowest:
                    lowest[identity] = min(
                        sum(pods.count for pods in one.pods if documented.spread_counts(spread, holder, pods))
                        for one in nodes
                        if documented.looks_at(spread, holder, one)
                    )
                if here - lowest[identity] > spread.max_skew:
                    yield f"{node.name}: {here} pods against {lowest[identity]}, skew {spread.max_skew}"


def _zone_neighbours(situation: model.Situation, nodes: list[documented.Node]) -> Iterator[str]:
    merged = _merged(nodes)
    for zone, pods in merged.items():
        if zone:
            yield from (f"{zone}: {said}" for said in _collides(situation, pods, *documented.ZONE_KEYS))
    yield from _company(situation, merged, *documented.ZONE_KEYS)


def _company(situation: model.Situation, merged: dict[str, list[documented.Pods]], *topology: str) -> Iterator[str]:
    for zone, pods in merged.items():
        for holder in pods:
            for term in _together(holder, *topology) if holder.demand is not None else ():
                near = pods if zone else ()
                if not any(documented.term_covers(situation, term, holder, other) for other in near):
                    yield f"{zone}: {holder.labels} has no company of {term}"
    yield from _scattered(situation, merged, *topology)


def _scattered(situation: model.Situation, merged: dict[str, list[documented.Pods]], *topology: str) -> Iterator[str]:
    """The first pod of a zone must find company that does not need it; where there is none, all are in one zone."""
    everyone = [(zone, pods) for zone, some in merged.items() for pods in some if zone]  # no label, no domain
    for zone, holder in everyone:
        for term in _together(holder, *topology) if holder.demand is not None else ():
            others = [(z, p) for z, p in everyone if documented.term_covers(situation, term, holder, p)]
            free = {z for z, p in others if p.demand is None or term not in _together(p, *topology)}
            if free and zone not in free:
                yield f"{holder.labels} keeps company in {zone}, and its company is in {free}"
            if not free and {z for z, _ in others} != {zone}:
                yield f"{holder.labels} keeps company in {zone} and in { {z for z, _ in others} }"


def _merged(
    nodes: list[documented.Node], by: Callable[[documented.Node], str] = lambda node: node.zone
) -> dict[str, list[documented.Pods]]:
    """Add up the pods of a zone, or of what else: alike if they are of one demand, or of a shape and its labels."""
    found: dict[str, dict[Any, documented.Pods]] = {}
    for node in nodes:
        for pods in node.pods:
            key = (id(pods.demand), id(pods.shape), pods.namespace, tuple(sorted(pods.labels.items())))
            known = found.setdefault(by(node), {}).setdefault(
                key,
                documented.Pods(
                    namespace=pods.namespace, labels=pods.labels, shape=pods.shape, count=0, demand=pods.demand
                ),
            )
            known.count += pods.count
    return {zone: list(pods.values()) for zone, pods in found.items()}
