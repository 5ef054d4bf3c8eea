"""Why a demand does not go to a node group, for every group, with the numbers compared. Explains; decides nothing."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.capacity.scaleup.placement import choosing, demand_rows, hosts, index, supply_rows, trimming
from autoscaler.kube import selecting


class Explainer:
    """Explains for one situation, after all was placed."""

    def __init__(
        self,
        field: supply_rows.SupplyRows,
        chooser: choosing.Chooser,
        spreads: Mapping[int, trimming.Counted] | None = None,
        *,
        together: Iterable[hosts.Set] = (),
    ) -> None:
        """Prepare; `spreads` is what matches each zone spread in the end, without it zone rules are left aside."""
        self._together = {row.number: each for each in together for row in each.rows}
        self._field = field
        self._spreads = spreads
        self._refused = _merged(
            (number, group.refused) for number, group in enumerate(field.groups) if group.refused is not None
        )
        self._closed = {
            is_endless: _merged(
                (number, why)
                for number in range(len(field.groups))
                if (why := chooser.why_closed(number, is_endless=is_endless)) is not None
            )
            for is_endless in {demand.is_endless for demand in field.situation.demands}
        }
        self._keys: dict[int, tuple[NodeGroupKey, ...]] = {}

    def rejections(self, row: demand_rows.DemandRow) -> tuple[model.Rejection, ...]:
        """Tell for every group why it takes no more of a row; groups that would are not named."""
        if row.pod_rules.unsupported:
            return (model.Rejection(reason=model.Reason.UNSUPPORTED, what=row.pod_rules.unsupported),)
        if row.demand.refused is not None:
            return (row.demand.refused,)
        if not self._field.groups:
            return (model.Rejection(reason=model.Reason.NO_GROUPS),)
        told: dict[model.Rejection, int] = {}
        left = self._field.group_index.all
        for groups, why in self._said(row):
            new = groups & left
            if new:
                told[why] = told.get(why, 0) | new
                left &= ~new
        for number in index.bits(left) if self._spreads is not None else ():
            why = _by_zone(self._field, row, number, self._spreads or {})
            told[why] = told.get(why, 0) | 1 << number
        named = [dataclasses.replace(why, groups=self._named(groups)) for why, groups in told.items()]
        whole = self._together.get(row.number)
        if whole is not None and whole.count > 1:
            named.insert(0, model.Rejection(reason=model.Reason.NO_HOST, wanted=whole.count))
        return tuple(named)

    def _said(self, row: demand_rows.DemandRow) -> Iterator[tuple[int, model.Rejection]]:
        """Yield all that speaks against groups, in the order of the reasons."""
        yield from _by_pool(self._field, row.demand, self._refused)
        yield from _by_node(self._field, row.demand)
        whole = self._together.get(row.number)
        yield from _by_size(self._field, row.amounts if whole is None else whole.amounts)
        for key in sorted({self._field.book.rules[rule].key for rule in row.pod_rules.near}):
            unknown = self._field.group_index.with_value(key).get(None, 0)
            yield unknown, model.Rejection(reason=model.Reason.NO_LABEL, what=key)
            yield ~row.kind, model.Rejection(reason=model.Reason.LABEL_AFFINITY, what=key)
        if row.pod_rules.together and whole is None:
            yield self._field.group_index.all, model.Rejection(reason=model.Reason.HOST_AFFINITY)
        yield from self._closed[row.demand.is_endless]

    def _named(self, groups: int) -> tuple[NodeGroupKey, ...]:
        known = self._keys.get(groups)
        if known is None:
            known = self._keys[groups] = tuple(self._field.groups[number].key for number in index.bits(groups))
        return known


def _merged(said: Iterable[tuple[int, model.Rejection]]) -> list[tuple[int, model.Rejection]]:
    found: dict[model.Rejection, int] = {}
    for number, why in said:
        found[why] = found.get(why, 0) | 1 << number
    return [(groups, why) for why, groups in found.items()]


def _by_pool(
    field: supply_rows.SupplyRows, demand: model.Demand, refused: Iterable[tuple[int, model.Rejection]]
) -> Iterator[tuple[int, model.Rejection]]:
    """Yield groups that a demand may not use, or that take nothing, or not this."""
    if demand.pools is not None:
        allowed = frozenset[str]().union(*demand.pools)
        outside = supply_rows.mask(pool not in allowed for pool, _ in field.places)
        yield outside, model.Rejection(reason=model.Reason.NOT_ALLOWED)
    yield from refused
    for number, group in enumerate(field.groups) if demand.missed else ():
        if group.key in demand.missed:
            yield 1 << number, demand.missed[group.key]


def _by_node(field: supply_rows.SupplyRows, demand: model.Demand) -> Iterator[tuple[int, model.Rejection]]:
    """Yield groups whose nodes a demand does not select or tolerate."""
    reason, shape, nodes = model.Reason, demand.shape, field.group_index
    for key, value in sorted(shape.node_selector.items()):
        yield ~nodes.selected({key: value}), model.Rejection(reason=reason.SELECTOR, what=f"{key}={value}")
    yield ~nodes.eligible(shape), model.Rejection(reason=reason.AFFINITY)
    for taints, groups in nodes.tainted().items():
        taint = selecting.untolerated(taints, shape.tolerations)
        if taint is not None:
            what = f"{taint.key}={taint.value}:{taint.effect}"
            yield groups, model.Rejection(reason=reason.TAINT, what=what)
    if shape.host_ports:
        used = supply_rows.using_ports(shape, [group.template for group in field.groups])
        ports = ", ".join(sorted({str(port) for _, _, port in shape.host_ports}))
        yield used, model.Rejection(reason=reason.HOST_PORT, what=ports)
    if demand.hosts is not None:
        yield nodes.all, model.Rejection(reason=reason.VOLUME_NODE, what=", ".join(sorted(demand.hosts)))
    if demand.zones is not None:
        outside = supply_rows.mask(zone not in demand.zones for zone in field.group_zones)
        yield outside, model.Rejection(reason=reason.VOLUME_ZONE, what=", ".join(sorted(demand.zones)))


def _by_size(field: supply_rows.SupplyRows, amounts: supply_rows.Amounts) -> Iterator[tuple[int, model.Rejection]]:
    for resource, amount in amounts:
        small = field.group_index.all & ~field.groups_with([(resource, amount)])
        for family in field.families if small else ():
            if family.groups & small:
                has = family.allocatable[resource]
                why = model.Rejection(
                    reason=model.Reason.INSUFFICIENT,
                    what=field.resources[resource],
                    wanted=amount,
                    available=has,
                )
                yield family.groups, why


def _by_zone(
    field: supply_rows.SupplyRows, row: demand_rows.DemandRow, number: int, spreads: Mapping[int, trimming.Counted]
) -> model.Rejection:
    """Say which zone rule it was, as the group itself has room."""
    zone, pod_rules = field.group_zones[number], row.pod_rules
    for spread in pod_rules.spreads:
        counted = spreads[spread.rule]
        floor = min((counted.all.get(domain, 0) for domain in {*counted.domains, zone}), default=0)
        skew = counted.all.get(zone, 0) + int(spread.counts_itself) - floor
        if skew > spread.max_skew or not (pod_rules.company or pod_rules.zone.matching or pod_rules.zone.holding):
            return model.Rejection(reason=model.Reason.ZONE_SPREAD, what=zone, wanted=skew, available=spread.max_skew)
    if pod_rules.company:
        return model.Rejection(reason=model.Reason.ZONE_AFFINITY, what=zone)
    return model.Rejection(reason=model.Reason.ZONE_ANTI_AFFINITY, what=zone)
