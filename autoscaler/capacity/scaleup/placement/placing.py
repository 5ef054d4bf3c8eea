"""Where waiting pods go: on nodes that are there, on nodes already asked for, on new nodes, or nowhere with a reason.

Pure: no I/O, no clock, no dice; the same situation gives the same placement, in whatever order its parts come. Every
pod of every demand is in the answer. It must not look at budgets, scopes or latencies: who asks has turned them into
limits, pools and counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.capacity.scaleup.placement import (
    choosing,
    demand_rows,
    hosts,
    near,
    packing,
    rejecting,
    shortage,
    supply_rows,
    trimming,
    zones,
)

COMPARED: Final = 24
"""Where so many kinds of pods wait at most, two ways to fill nodes of one kind are compared as a whole."""
SHARES: Final = (1.0, 0.75, 0.0)
"""Where instances are scarce: the part of those left that all that waits may fill by estimate, 0 for the fewest."""


def place(situation: model.Situation, policy: model.Policy | None = None) -> model.Placement:
    """Place all demands; where limits on instances bite, sparing plans are made too, and the best counts."""
    policy, known = policy or model.Policy(), _Known.of(situation)
    best = _planned(known, policy)
    for share in SHARES:
        if not shortage.is_short(known.field, known.waiting, best.packed, best.chooser.held_back):
            break
        plan = _planned(known, policy, share)
        best = min(best, plan, key=lambda each: (each.left, *shortage.cost(known.field, each.packed), each.nodes))
        if not plan.chooser.had_enough:  # nor has it with a smaller share: the plan would be the same
            break
    return _result(known, best)


def _planned(known: "_Known", policy: model.Policy, share: float | None = None) -> "_Attempt":
    """Place all demands; what zones turn out to lack leads to another attempt, a few at most, and the best counts."""
    learnt = zones.Learnt()
    best: _Attempt | None = None
    for _ in range(2 * len(known.field.zones) + 1):
        attempt = _Attempt.make(known, choosing.Chooser(known.field, policy, share=share), learnt)
        before = best.left if best else None
        best = attempt if best is None or attempt.left < best.left else best
        if not attempt.is_worth_another or (before is not None and attempt.left >= before and not attempt.can_move):
            break
    assert best is not None  # noqa: S101 (the range is never empty)
    if len(known.waiting) <= COMPARED and best.kinds == 1:
        plain = _Attempt.make(known, choosing.Chooser(known.field, policy, share=share), learnt, may_deal=False)
        best = min(best, plain, key=lambda attempt: (attempt.left, attempt.kinds, attempt.nodes))
    return best


def why_not(situation: model.Situation, demand: model.Demand) -> tuple[model.Rejection, ...]:
    """Tell why groups do not take a demand even if it were alone; groups that would are not named."""
    alone = model.Situation(
        demands=(demand,), groups=situation.groups, limits=situation.limits, namespaces=situation.namespaces
    )
    known = _Known.of(alone)
    chooser = choosing.Chooser(known.field, model.Policy())
    return rejecting.Explainer(known.field, chooser, together=known.together).rejections(known.waiting[0])


class _Known(NamedTuple):
    """The situation, made ready."""

    field: supply_rows.SupplyRows
    waiting: list[demand_rows.DemandRow]
    census: zones.Census
    together: list[hosts.Set]

    @classmethod
    def of(cls, situation: model.Situation) -> "_Known":
        field = supply_rows.SupplyRows(situation)
        waiting = near.narrow(field, demand_rows.read(field))
        return cls(field, waiting, zones.Census(field), hosts.sets(field, waiting))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One division into zones, packed and made valid."""

    chooser: choosing.Chooser
    packed: packing.Packed
    kinds: int
    """How many kinds of new nodes there are."""
    nodes: int
    """How many new nodes."""
    left: int
    """How many pods found no place."""
    is_worth_another: bool
    """Whether it taught something that another attempt may use."""
    can_move: bool
    """Whether rows that stay together have a zone that was not tried."""

    @classmethod
    def make(
        cls, known: _Known, chooser: choosing.Chooser, learnt: zones.Learnt, *, may_deal: bool = True
    ) -> "_Attempt":
        field, waiting, census, together = known
        division = zones.divide(field, waiting, census=census, open_groups=chooser.open, learnt=learnt)
        gathered = hosts.gather(field, division.portions, together)
        packed = packing.pack(field, gathered.portions, chooser, may_deal=may_deal)
        hosts.scatter(packed, gathered.sets)
        taught, can_move = _learn(division, packed, field, learnt), _learn_of_gangs(division, learnt)
        if division.options:
            trimming.trim(field, packed, census)
        wanted = sum(row.demand.count for row in waiting)
        return cls(
            chooser=chooser,
            packed=packed,
            kinds=len({field.family_of[number] for number, _, _ in packed.groups}),
            nodes=sum(nodes for _, nodes, _ in packed.groups),
            left=wanted - sum(count for *_, count in trimming.placed(field, packed)),
            is_worth_another=taught or can_move,
            can_move=can_move,
        )


def _learn(
    division: zones.Division, packed: packing.Packed, field: supply_rows.SupplyRows, learnt: zones.Learnt
) -> bool:
    """Note what found no room in its zone; tell whether another division may do better."""
    news = False
    in_gang = {number for _, members in division.gangs.values() for number in members}
    done: dict[tuple[int, str], int] = {}
    for zone, _, portion, count in trimming.placed(field, packed) if division.options else ():
        done[portion.row.number, zone] = done.get((portion.row.number, zone), 0) + count
    for portion in division.portions:
        if portion.left and portion.zone and portion.row.number not in in_gang:
            key = (portion.row.number, portion.zone)
            cap = done.get(key, 0)
            if cap < learnt.caps.get(key, portion.row.demand.count):
                learnt.caps[key] = cap
                news = news or len(division.options[portion.row.number]) > 1
    return news


def _learn_of_gangs(division: zones.Division, learnt: zones.Learnt) -> bool:
    """Note how many pods of rows that stay together found no room in their zone; tell whether that is news."""
    news = False
    for name, (zone, members) in division.gangs.items():
        left = sum(portion.left for portion in division.portions if portion.row.number in members)
        if left and zone not in learnt.left.get(name, {}):
            learnt.left.setdefault(name, {})[zone] = left
            news = True
    return news


def _result(known: _Known, attempt: _Attempt) -> model.Placement:
    field, waiting, census, together = known
    chooser, packed = attempt.chooser, attempt.packed
    placed: dict[int, int] = {}
    for _, _, portion, count in trimming.placed(field, packed):
        placed[portion.row.number] = placed.get(portion.row.number, 0) + count
    missing = {row: count for row in waiting if (count := row.demand.count - placed.get(row.number, 0))}
    unplaced: Iterable[model.Unplaced] = ()
    if missing:
        explainer = rejecting.Explainer(field, chooser, trimming.counted(field, packed, census), together=together)
        unplaced = (
            model.Unplaced(demand=row.demand, count=count, rejections=explainer.rejections(row))
            for row, count in missing.items()
        )
    return model.Placement(
        landings=tuple(
            model.Landing(room=field.rooms[number].name, shares=_shares(content))
            for number, content in sorted(packed.rooms.items())
            if content
        ),
        expected=_fillings([asked.key for asked in field.asked], packed.asked),
        launches=_fillings([group.key for group in field.groups], packed.groups),
        unplaced=tuple(unplaced),
    )


def _fillings(
    keys: list[NodeGroupKey], entries: Iterable[tuple[int, int, packing.Content]]
) -> tuple[model.Filling, ...]:
    return tuple(
        model.Filling(key=keys[number], nodes=nodes, shares=_shares(content)) for number, nodes, content in entries
    )


def _shares(content: packing.Content) -> tuple[model.Share, ...]:
    """Return the content of a node; portions of one demand on one node are one share."""
    counts: dict[int, tuple[model.Demand, int]] = {}
    for portion, count in content:
        _, before = counts.get(portion.row.number, (portion.row.demand, 0))
        counts[portion.row.number] = (portion.row.demand, before + count)
    return tuple(model.Share(demand=demand, count=count) for demand, count in counts.values())
