"""Which zone takes a whole gang, if any does. Pure.

The zone comes first where others of the same owner have been; then zones are compared by the order of the scope's
pools, then by how many new instances they take; equals by name. So a gang stays where instances were started for it,
and moves as a whole when that zone cannot take it any more. Gangs are asked one after the other, each with what those
before it leave. Other pods are not looked at here.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import work
from autoscaler.capacity.model import Demand, Group, Limit, Placement, Policy, Reason, Rejection, Situation
from autoscaler.capacity.scaleup import demand, placement
from autoscaler.capacity.scaleup.colocation.gangs import Gang
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

Pods = Mapping[Demand, tuple[objects.Pod, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """A gang, the zone that takes it, and what it asks of that zone."""

    gang: Gang
    zone: str
    pods: Pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A gang that no zone takes, and why."""

    pods: tuple[objects.Pod, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Gangs that one zone takes, and those that none does."""

    chosen: tuple[Chosen, ...] = ()
    refused: tuple[Refused, ...] = ()


def choose(snapshot: Snapshot, situation: Situation, policy: Policy, together: Iterable[Gang]) -> Choice:
    """Choose a zone for each gang, in their order; a gang that no zone takes whole leaves room to the next."""
    all_gangs = list(together)
    if not all_gangs:
        return Choice()
    chooser = _Chooser(snapshot, situation, policy)
    outcomes = [chooser.choose(gang) for gang in all_gangs]
    return Choice(
        chosen=tuple(each for each in outcomes if isinstance(each, Chosen)),
        refused=tuple(each for each in outcomes if isinstance(each, Refused)),
    )


def told(gang: Gang, most: int, rejections: Iterable[Rejection]) -> tuple[Rejection, ...]:
    """Say why no zone takes a gang: the most pods that one takes, and what speaks against each group."""
    groups: dict[Rejection, set[NodeGroupKey]] = {}
    for each in rejections:
        groups.setdefault(dataclasses.replace(each, groups=()), set()).update(each.groups)
    whole = Rejection(reason=Reason.NO_ZONE, what=gang.name, wanted=len(gang.pods), available=most)
    if len(groups) > 1:  # zones without node groups have nothing to say where others do
        groups = {why: named for why, named in groups.items() if why.reason is not Reason.NO_GROUPS}
    return (whole, *(dataclasses.replace(why, groups=tuple(sorted(named))) for why, named in groups.items()))


@dataclass(slots=True, kw_only=True)
class _Zone:
    """What there is in a zone, and who was promised room there."""

    situation: Situation
    promised: tuple[Demand, ...] = ()
    launched: Mapping[NodeGroupKey, int] = dataclasses.field(default_factory=dict)


class _Chooser:
    """Remembers what was promised to whom."""

    def __init__(self, snapshot: Snapshot, situation: Situation, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._groups = {group.key: group for group in situation.groups}
        self._limits = situation.limits
        self._zones = _zones(situation)
        self._labels = demand.labels_read(snapshot.indexed)

    def choose(self, gang: Gang) -> Chosen | Refused:
        """Choose the zone that takes a gang best, or tell why none does."""
        asked = self._asked(gang)
        tried = {name: self._try(name, asked) for name in self._zones}
        fitting = {name: placed for name, placed in tried.items() if not placed.unplaced}
        if not fitting:
            return Refused(pods=gang.pods, rejections=_why(gang, asked, tried.values()))
        best = min(fitting, key=lambda name: (name != gang.last_zone, *self._cost(name, asked, fitting[name]), name))
        zone = self._zones[best]
        zone.promised, zone.launched = self._together(zone.promised, asked), fitting[best].new_nodes()
        pinned = {dataclasses.replace(each, zones=frozenset({best})): pods for each, pods in asked.items()}
        return Chosen(gang=gang, zone=best, pods=pinned)

    def _together(self, promised: Iterable[Demand], asked: Iterable[Demand]) -> tuple[Demand, ...]:
        """Add demands to those that are alike, so that many gangs of one kind are placed as quickly as one."""
        found: dict[object, Demand] = {}
        for each in (*promised, *asked):
            labels = frozenset((key, value) for key, value in each.labels.items() if key in self._labels)
            where = (each.pools, each.zones, frozenset(each.missed), each.avoid)
            kind = (each.shape, each.namespace, labels, where, each.is_endless)
            known = found.get(kind)
            found[kind] = each if known is None else dataclasses.replace(known, count=known.count + each.count)
        return tuple(found.values())

    def _asked(self, gang: Gang) -> Pods:
        """Return what a gang asks for. For pods of low priority no instance is started, as for any such pod."""
        found = demand.alike(gang.pods, self._labels)
        asked = {made: tuple(found[like]) for like, made in demand.demands(self._snapshot, found).items()}
        lowest = min(pod.priority for pod in gang.pods)
        if lowest >= work.PRIORITY_CUTOFF:
            return asked
        why = Rejection(reason=Reason.LOW_PRIORITY, wanted=lowest, available=work.PRIORITY_CUTOFF)
        return {
            dataclasses.replace(each, missed=dict.fromkeys(self._groups, why)): pods for each, pods in asked.items()
        }

    def _try(self, name: str, asked: Pods) -> Placement:
        """Place what a gang asks for in a zone, with all that was promised there."""
        elsewhere = [zone.launched for other, zone in self._zones.items() if other != name]
        return placement.place(
            dataclasses.replace(
                self._zones[name].situation,
                demands=(*self._zones[name].promised, *asked),
                limits=tuple(self._left(limit, elsewhere) for limit in self._limits),
            ),
            self._policy,
        )

    def _cost(self, name: str, asked: Pods, placed: Placement) -> tuple[int, int]:
        """Return how far down the order of pools a gang must go in a zone, and how many instances it needs."""
        instances = sum(placed.new_nodes().values()) - sum(self._zones[name].launched.values())
        return _last_tier(asked, placed), instances

    def _left(self, limit: Limit, launched: Iterable[Mapping[NodeGroupKey, int]]) -> Limit:
        """Return what instances in other zones leave of a limit."""
        taken = [(self._groups[key], nodes) for each in launched for key, nodes in each.items()]
        counted = [(group, nodes) for group, nodes in taken if limit.pool in {"", group.key.pool}]
        return limit.with_more(sum(limit.takes(_cpu_millis(group)) * nodes for group, nodes in counted))


def _last_tier(asked: Pods, placed: Placement) -> int:
    """Return how far down the order of its pools a gang must go for new instances; -1 if it needs none."""
    tiers = [
        number
        for launch in placed.launches
        for share in launch.shares
        if share.demand in asked
        for number, pools in enumerate(share.demand.pools or ())
        if launch.key.pool in pools
    ]
    return max(tiers, default=-1)


def _zones(situation: Situation) -> dict[str, _Zone]:
    """Cut the situation into zones, by name; what no selector could name is in none."""
    names = {group.key.zone for group in situation.groups} | {one.key.zone for one in situation.asked}
    names |= {zone for room in situation.rooms if (zone := room.labels.get(keys.ZONE))}
    return {
        name: _Zone(
            situation=Situation(
                demands=(),
                groups=tuple(group for group in situation.groups if group.key.zone == name),
                rooms=tuple(room for room in situation.rooms if room.labels.get(keys.ZONE) == name),
                asked=tuple(one for one in situation.asked if one.key.zone == name),
                namespaces=situation.namespaces,
            )
        )
        for name in sorted(names)
    }


def _cpu_millis(group: Group) -> int:
    return (group.template.capacity or group.template.allocatable).get("cpu", 0)


def _why(gang: Gang, asked: Pods, tried: Iterable[Placement]) -> tuple[Rejection, ...]:
    """Say why no zone takes a gang, with the most that one takes."""
    missing = [[each for each in placed.unplaced if each.demand in asked] for placed in tried]
    most = max((len(gang.pods) - sum(each.count for each in one) for one in missing), default=0)
    return told(gang, most, [why for one in missing for each in one for why in each.rejections])
