"""Rules between pods, read once per shape: who must not share a host or a zone, who spreads, who stays together.

A rule is a selector of pods at one level. A pod *holds* a rule if its own spec says it, and *matches* a rule if its
labels are selected by it; what may stand where follows from how many match and who holds. Taken so, the answer does
not depend on the order in which pods are bound.

On hosts a spread means: where a pod holds it, at most maxSkew pods match. An empty host may always appear and would
make the minimum zero, so no more is safe to plan with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from autoscaler.api import keys
from autoscaler.kube import selecting, shapes, wire

UNBOUND: Final = 1 << 60
"""A limit that nothing reaches."""
_ZONES: Final = frozenset({keys.ZONE, keys.ZONE_BETA})
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class Level(Enum):
    """What a rule is about."""

    HOST = auto()
    """Pods that match share a host with one that holds it only up to the holder's limit."""
    ZONE = auto()
    """The same for a zone."""
    SPREAD = auto()
    """Pods that match are spread over zones."""
    COMPANY = auto()
    """A pod that holds it goes to a zone where one matches."""
    TOGETHER = auto()
    """A pod that holds it goes where one matches: to its host, or to a node that has a label in common with it."""


class Spread(NamedTuple):
    """A zone spread that a pod holds."""

    rule: int
    max_skew: int
    min_domains: int
    counts_itself: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which pods a rule speaks of."""

    level: Level
    selector: wire.LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: wire.LabelSelector | None = None
    holder: shapes.Shape
    """One of those that hold it: a spread looks only at nodes that its holders select."""
    honours_taints: bool = False
    honours_affinity: bool = True
    key: str = ""
    """The label that nodes have in common, where pods go together."""


class Bounds(NamedTuple):
    """What a pod asks of its host, or of its zone."""

    matching: tuple[tuple[int, int], ...] = ()
    """Rules that it matches, with its own limit where it holds them too."""
    holding: tuple[tuple[int, int], ...] = ()
    """Rules that it holds and does not match, with its limit."""


NOTHING: Final = Bounds()
"""Of those that no rule of a level touches; always this one object."""


class Own(NamedTuple):
    """What a shape itself says."""

    limits: Mapping[int, int]
    """At most so many may match where it is, by rule of host or zone."""
    spreads: tuple[tuple[int, int, int], ...] = ()
    company: tuple[int, ...] = ()
    together: tuple[int, ...] = ()
    unsupported: str = ""


class PodRules(NamedTuple):
    """How a pod stands to all rules."""

    host: Bounds = NOTHING
    zone: Bounds = NOTHING
    spreads: tuple[Spread, ...] = ()
    counted: tuple[int, ...] = ()
    """Zone spreads that it matches, held or not."""
    company: tuple[int, ...] = ()
    """Rules of company that it holds."""
    wanted: tuple[int, ...] = ()
    """Rules of company that it matches."""
    together: tuple[int, ...] = ()
    """Rules of sharing a host that it holds."""
    near: tuple[int, ...] = ()
    """The same for other labels."""
    matched: frozenset[int] = frozenset()
    """Such rules that it matches; its host counts them."""
    unsupported: str = ""

    @property
    def is_zonal(self) -> bool:
        touched = self.spreads or self.counted or self.company or self.wanted
        return self.zone is not NOTHING or bool(touched)


class Book:
    """All rules, and how pods stand to them. First read every shape, then ask."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.rules: list[Rule] = []
        self._namespaces = namespaces
        self._known: dict[bytes, int] = {}
        self._own: dict[tuple[shapes.Shape, bool], Own] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._unlabelled: list[int] = []
        self._keys: list[str] = []
        """The labels that any rule looks at: pods that differ in others only are alike."""
        self._matches: dict[tuple[str | None, ...], frozenset[int]] = {}
        self._pod_rules_of: dict[tuple[int, frozenset[int], tuple[int, ...]], PodRules] = {}
        self._ports: dict[tuple[str, int], int] = {}

    @property
    def keys(self) -> frozenset[str]:
        """Return the labels that any rule looks at."""
        return frozenset(self._keys)

    def read(self, shape: shapes.Shape, *, is_resident: bool = False) -> None:
        """Note the rules that a shape holds; of a resident only those that keep others away."""
        if not (shape.affinity or shape.spread or shape.host_ports or shape.resource_claims):
            return
        if (shape, is_resident) not in self._own:
            self._own[shape, is_resident] = self._read(shape, is_resident=is_resident)

    def pod_rules(
        self, shape: shapes.Shape, namespace: str, labels: Mapping[str, str], *, is_resident: bool = False
    ) -> PodRules:
        """Tell how a pod stands to all rules; the same object for all that stand alike."""
        own = self._own.get((shape, is_resident))
        matched = self._matching(namespace, labels) if self.rules else frozenset()
        if own is None and not matched:
            return _UNTOUCHED
        ports = tuple(self._own_ports(shape)) if shape.host_ports else ()
        key = (id(own), matched, ports)
        known = self._pod_rules_of.get(key)
        if known is None:
            known = self._pod_rules_of[key] = self._standing(own or Own({}), matched, ports)
        return known

    def _standing(self, own: Own, matched: frozenset[int], ports: Sequence[int]) -> PodRules:
        by_level: dict[Level, list[int]] = {level: [] for level in Level}
        for rule in sorted(matched):
            by_level[self.rules[rule].level].append(rule)
        return PodRules(
            host=self._bounds(Level.HOST, own.limits, [*by_level[Level.HOST], *by_level[Level.TOGETHER], *ports]),
            zone=self._bounds(Level.ZONE, own.limits, by_level[Level.ZONE]),
            spreads=tuple(Spread(rule, skew, least, rule in matched) for rule, skew, least in own.spreads),
            counted=tuple(by_level[Level.SPREAD]),
            company=own.company,
            wanted=tuple(by_level[Level.COMPANY]),
            together=tuple(rule for rule in own.together if self.rules[rule].key == keys.HOSTNAME),
            near=tuple(rule for rule in own.together if self.rules[rule].key != keys.HOSTNAME),
            matched=frozenset(by_level[Level.TOGETHER]),
            unsupported=own.unsupported,
        )

    def _bounds(self, level: Level, limits: Mapping[int, int], matched: Sequence[int]) -> Bounds:
        holding = tuple(
            (rule, limit) for rule, limit in limits.items() if rule not in matched and self.rules[rule].level is level
        )
        if not matched and not holding:
            return NOTHING
        return Bounds(tuple((rule, self._limit(rule, limits, matched)) for rule in matched), holding)

    def _limit(self, rule: int, limits: Mapping[int, int], matched: Sequence[int]) -> int:
        """A pod that must be alone among those it matches counts itself: the limit 0 is 1 then."""
        limit = limits.get(rule, UNBOUND)
        return max(limit, 1) if rule in matched else limit

    def _own_ports(self, shape: shapes.Shape) -> list[int]:
        return [self._ports[protocol, port] for _, protocol, port in shape.host_ports]

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> frozenset[int]:
        key = (namespace, *map(labels.get, self._keys))
        known = self._matches.get(key)
        if known is None:
            asked = [rule for label in labels.items() for rule in self._by_label.get(label, ())]
            known = self._matches[key] = frozenset(
                rule for rule in (*asked, *self._unlabelled) if self._selects(self.rules[rule], namespace, labels)
            )
        return known

    def _selects(self, rule: Rule, namespace: str, labels: Mapping[str, str]) -> bool:
        if namespace not in rule.namespaces and not selecting.labels_match(
            rule.namespace_selector, self._namespaces.get(namespace, {})
        ):
            return False
        return selecting.labels_match(rule.selector, labels)

    def _read(self, shape: shapes.Shape, *, is_resident: bool) -> Own:
        draft = _Draft(shape=shape, book=self)
        affinity = shape.affinity
        draft.keep_apart(affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ())
        draft.keep_ports()
        if not is_resident:
            draft.keep_company(affinity.pod_affinity.required if affinity and affinity.pod_affinity else ())
            draft.spread_out()
            if shape.resource_claims:
                draft.unsupported.append("devices by resource claim")
        return Own(
            dict(sorted(draft.limits.items())),
            tuple(draft.spreads),
            tuple(draft.company),
            tuple(draft.together),
            "; ".join(sorted(set(draft.unsupported))),
        )

    def note(self, rule: Rule, identity: object) -> int:
        """Return the number of a rule, the same for the same rule."""
        encoded = _ENCODER.encode((rule.level.value, identity))
        known = self._known.get(encoded)
        if known is None:
            known = self._known[encoded] = len(self.rules)
            self.rules.append(rule)
            self._keys += sorted(_keys_of(rule.selector).difference(self._keys))
            first = min(rule.selector.match_labels.items(), default=None) if rule.selector else None
            (self._unlabelled if first is None else self._by_label.setdefault(first, [])).append(known)
        return known

    def note_port(self, shape: shapes.Shape, protocol: str, port: int) -> int:
        """Return the rule that a port of the host is used once; addresses are taken to overlap."""
        known = self._ports.get((protocol, port))
        if known is None:
            known = self._ports[protocol, port] = len(self.rules)
            nobody = Rule(level=Level.HOST, selector=None, namespaces=frozenset(), holder=shape)
            self.rules.append(nobody)
        return known


@dataclass(slots=True, kw_only=True)
class _Draft:
    """What a shape says, as it is read."""

    shape: shapes.Shape
    book: Book
    limits: dict[int, int] = field(default_factory=dict)
    spreads: list[tuple[int, int, int]] = field(default_factory=list)
    company: list[int] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    def keep_apart(self, terms: Sequence[wire.PodTerm]) -> None:
        for term in terms:
            if term.topology_key == keys.HOSTNAME:
                self._bound(self._term(Level.HOST, term), 0)
            elif term.topology_key in _ZONES:
                self._bound(self._term(Level.ZONE, term), 0)
            else:
                self.unsupported.append(f"anti-affinity by {term.topology_key}")

    def keep_ports(self) -> None:
        for _, protocol, port in self.shape.host_ports:
            self._bound(self.book.note_port(self.shape, protocol, port), 1)

    def keep_company(self, terms: Sequence[wire.PodTerm]) -> None:
        for term in terms:
            if term.topology_key in _ZONES:
                self.company.append(self._term(Level.COMPANY, term))
            else:
                self.together.append(self._term(Level.TOGETHER, term))

    def spread_out(self) -> None:
        for spread in self.shape.spread:
            if spread.when_unsatisfiable != "DoNotSchedule":
                continue
            if spread.topology_key == keys.HOSTNAME:
                self._bound(self._spread(Level.HOST, spread), spread.max_skew)
            elif spread.topology_key in _ZONES:
                rule = self._spread(Level.SPREAD, spread)
                self.spreads.append((rule, spread.max_skew, spread.min_domains or 1))
            else:
                self.unsupported.append(f"spread by {spread.topology_key}")

    def _bound(self, rule: int, limit: int) -> None:
        self.limits[rule] = min(limit, self.limits.get(rule, limit))

    def _term(self, level: Level, term: wire.PodTerm) -> int:
        selector = _narrowed(term.label_selector, self.shape.labels, term.match_label_keys, term.mismatch_label_keys)
        names = frozenset(term.namespaces)
        if not names and term.namespace_selector is None:
            names = frozenset((self.shape.namespace,))
        rule = Rule(
            level=level,
            selector=selector,
            namespaces=names,
            namespace_selector=term.namespace_selector,
            holder=self.shape,
            key=term.topology_key if level is Level.TOGETHER else "",
        )
        return self.book.note(rule, (selector, sorted(names), term.namespace_selector, rule.key))

    def _spread(self, level: Level, spread: wire.Spread) -> int:
        selector = _narrowed(spread.label_selector, self.shape.labels, spread.match_label_keys, ())
        taints, affinity = spread.node_taints_policy == "Honor", spread.node_affinity_policy == "Honor"
        rule = Rule(
            level=level,
            selector=selector,
            namespaces=frozenset((self.shape.namespace,)),
            holder=self.shape,
            honours_taints=taints,
            honours_affinity=affinity,
        )
        own = self.shape.affinity.node_affinity if self.shape.affinity else None
        where = (self.shape.node_selector, own) if affinity and level is Level.SPREAD else None
        return self.book.note(
            rule, ("spread", selector, self.shape.namespace, where, self.shape.tolerations if taints else None)
        )


_UNTOUCHED: Final = PodRules()


def label_keys(all_shapes: Iterable[shapes.Shape]) -> frozenset[str]:
    """Return the labels that rules of these shapes look at: pods that differ in no other are alike to them."""
    book = Book({})
    for shape in all_shapes:
        book.read(shape)
    return book.keys


def _keys_of(selector: wire.LabelSelector | None) -> set[str]:
    if selector is None:
        return set()
    return {*selector.match_labels, *(requirement.key for requirement in selector.match_expressions)}


def _narrowed(
    selector: wire.LabelSelector | None, labels: Mapping[str, str], same: Sequence[str], other: Sequence[str]
) -> wire.LabelSelector | None:
    """Add what a pod's own labels say to a selector, where it names keys for that."""
    if selector is None or not (same or other):
        return selector
    more = [wire.Requirement(key=key, operator="In", values=(labels[key],)) for key in same if key in labels]
    more += [wire.Requirement(key=key, operator="NotIn", values=(labels[key],)) for key in other if key in labels]
    return wire.LabelSelector(
        match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *more)
    )


class Tally:
    """How many pods match each rule on a host or in a zone, and how many those that hold it bear."""

    __slots__ = ("counts", "limits")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.limits: dict[int, int] = {}

    def copy(self) -> "Tally":
        """Return another one that says the same."""
        other = Tally()
        other.counts, other.limits = dict(self.counts), dict(self.limits)
        return other

    def most(self, bounds: Bounds, wanted: int) -> int:
        """Return how many more pods of a kind may come, at most as many as wanted."""
        counts, limits = self.counts, self.limits
        for rule, own in bounds.holding:
            if counts.get(rule, 0) > own:
                return 0
        for rule, own in bounds.matching:
            limit = limits.get(rule, own)
            room = min(limit, own) - counts.get(rule, 0)
            if room < wanted:
                if room <= 0:
                    return 0
                wanted = room
        return wanted

    def add(self, bounds: Bounds, count: int) -> None:
        """Count pods that come."""
        for rule, own in bounds.holding:
            self.limits[rule] = min(own, self.limits.get(rule, own))
        for rule, own in bounds.matching:
            self.counts[rule] = self.counts.get(rule, 0) + count
            if own != UNBOUND:
                self.limits[rule] = min(own, self.limits.get(rule, own))
