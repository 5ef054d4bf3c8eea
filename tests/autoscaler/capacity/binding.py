"""Whether pods can be bound one after another, as placed, without exceeding the skew of a zone spread."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from autoscaler.kube import wire
from tests.autoscaler.capacity import documented


def zone_spread(nodes: list[documented.Node]) -> Iterator[str]:
    """A spread is looked at when a pod is bound, so an order must exist in which each pod may be bound."""
    rules: dict[bytes, tuple[Rule, wire.Spread, documented.Pods]] = {}
    for node in nodes:
        for pods in node.new:
            for spread in documented.hard_spreads(pods, *documented.ZONE_KEYS):
                plain = msgspec.structs.replace(spread, max_skew=1, min_domains=None)
                rules.setdefault(documented.identity(plain, pods), (Rule(counts={}), spread, pods))
    if rules:
        waiting = _waiting(nodes, rules)
        every = [rule for rule, _, _ in rules.values()]
        if all(_stuck(waiting, every, order) for order in _ORDERS) and not _order_exists(waiting):
            yield "not all pods can be bound without exceeding a zone's skew"


@dataclass(eq=False, kw_only=True)
class Rule:
    """A zone spread, and what it counts."""

    counts: dict[str, int]

    def floor(self, min_domains: int) -> int:
        return min(self.counts.values(), default=0) if len(self.counts) >= min_domains else 0


@dataclass(eq=False, kw_only=True)
class Batch:
    """Pods alike to all zone spreads, in one zone."""

    zone: str
    matched: list[Rule]
    held: list[tuple[Rule, wire.Spread, bool]]
    count: int = 0

    @property
    def level(self) -> int:
        return max((rule.counts[self.zone] - min(rule.counts.values()) for rule in self.matched), default=-1)

    @property
    def disturbs(self) -> int:
        """Count the rules that it moves without holding them."""
        held = [rule for rule, _, _ in self.held]
        return sum(rule not in held for rule in self.matched)

    @property
    def may_bind(self) -> bool:
        return all(
            self.zone in rule.counts
            and rule.counts[self.zone] + int(counts) - rule.floor(spread.min_domains or 1) <= spread.max_skew
            for rule, spread, counts in self.held
        )


def _waiting(
    nodes: list[documented.Node], rules: dict[bytes, tuple[Rule, wire.Spread, documented.Pods]]
) -> list[Batch]:
    """Count residents, and return what is to be bound."""
    found: dict[Any, Batch] = {}
    for node in nodes:
        seen = [told for told in rules.values() if node.zone and documented.looks_at(told[1], told[2], node)]
        for rule, _, _ in seen:
            rule.counts.setdefault(node.zone, 0)
        for pods in node.pods:
            if pods.demand is None:
                for rule, spread, holder in seen:
                    rule.counts[node.zone] += pods.count * documented.spread_counts(spread, holder, pods)
                continue
            labels = tuple(sorted(pods.labels.items()))
            key = (id(pods.shape), pods.namespace, labels, node.zone, tuple(id(told[0]) for told in seen))
            if key not in found:
                matched = [rule for rule, spread, holder in seen if documented.spread_counts(spread, holder, pods)]
                found[key] = Batch(zone=node.zone, matched=matched, held=_held(pods, rules))
            found[key].count += pods.count
    return _alike(found.values())


def _alike(batches: Iterable[Batch]) -> list[Batch]:
    merged: dict[Any, Batch] = {}
    for batch in batches:
        held = tuple((id(rule), spread.max_skew, spread.min_domains, counts) for rule, spread, counts in batch.held)
        key = (batch.zone, tuple(map(id, batch.matched)), held)
        merged.setdefault(key, Batch(zone=batch.zone, matched=batch.matched, held=batch.held)).count += batch.count
    return list(merged.values())


def _held(
    pods: documented.Pods, rules: dict[bytes, tuple[Rule, wire.Spread, documented.Pods]]
) -> list[tuple[Rule, wire.Spread, bool]]:
    found = []
    for spread in documented.hard_spreads(pods, *documented.ZONE_KEYS):
        plain = msgspec.structs.replace(spread, max_skew=1, min_domains=None)
        found.append((rules[documented.identity(plain, pods)][0], spread, documented.spread_counts(spread, pods, pods)))
    return found


def _stuck(batches: list[Batch], rules: list[Rule], order: Callable[[Batch], Any]) -> bool:
    """Bind pods one at a time, those without a spread when nothing else can; tell whether that comes to a halt."""
    before = [dict(rule.counts) for rule in rules]
    left = {batch: batch.count for batch in batches}
    while bound := [batch for batch in batches if left[batch] and batch.held]:
        able = [batch for batch in bound if batch.may_bind]
        able = able or [batch for batch in batches if left[batch] and not batch.held and batch.matched]
        if not able:
            break
        best = min(able, key=order)
        count = 1 if best.matched else left[best]
        left[best] -= count
        for rule in best.matched:
            rule.counts[best.zone] += count
    for rule, counts in zip(rules, before, strict=True):
        rule.counts = counts
    return bool(bound)


def _order_exists(batches: list[Batch]) -> bool:
    """Try every order; where there are too many, none counts as found."""
    if math.prod(batch.count + 1 for batch in batches) > _TRIED_AT_MOST:
        return False
    hopeless: set[tuple[int, ...]] = set()

    def search(left: tuple[int, ...]) -> bool:
        if not any(count and batch.held for count, batch in zip(left, batches, strict=True)):
            return True
        if left in hopeless:
            return False
        for place, batch in enumerate(batches):
            if left[place] and batch.may_bind:
                for rule in batch.matched:
                    rule.counts[batch.zone] += 1
                found = search((*left[:place], left[place] - 1, *left[place + 1 :]))
                for rule in batch.matched:
                    rule.counts[batch.zone] -= 1
                if found:
                    return True
        hopeless.add(left)
        return False

    return search(tuple(batch.count for batch in batches))


_TRIED_AT_MOST = 50_000
_ORDERS: tuple[Callable[[Batch], Any], ...] = (
    lambda batch: (batch.level, batch.disturbs),
    lambda batch: (batch.disturbs, batch.level),
    lambda batch: (bool(batch.matched), batch.disturbs, batch.level),
)
"""What to bind first; each is good for many mixes."""
