"""What nodes of an instance type really offer, where that is not what the type promises. Pure.

It is learned per instance type, of all groups whose tags promise the same of it: the least of the nodes that are ready
and finished counts, a device only once it has appeared, and only of nodes that have lost none. It belongs to the launch
templates that it was seen of: nodes of another one teach nothing, and a new template is a new beginning.

It is kept in the pools' status, so that a type whose nodes are all gone is not planned from the catalogue again by
whoever leads next. But nobody shows it then: for pods that it refuses and the catalogue would take, one node is tried
again (`allocatable_retry`), ever more seldom.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from autoscaler import backoff, clock
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes import group_nodes, remembered
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.snapshot import Learned, NodeKind, Snapshot
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, shapes

RETRY: Final = backoff.Backoff(first_seconds=600.0, longest_seconds=86_400.0)
"""How long after no node shows it any more, or after the last try."""
Known = Mapping[NodeKind, Learned]


def template_hash(group: cloud.NodeGroup) -> str | None:
    """Name what a group's next node is made from: a numbered version of its template, which never changes, and tags."""
    if group.template is None or not group.template.version.isdecimal():
        return None
    return _template_hash(group.name, group.key.instance_type, group.template, group.node)


@remembered.RememberedEqual
def _template_hash(
    _name: cloud.GroupName, instance_type: str, template: cloud.TemplateRef, node: cloud.NodeTemplate
) -> str:
    taints = [taint.model_dump(mode="json") for taint in node.taints]
    said = [
        instance_type,
        template.id,
        template.version,
        sorted(node.labels.items()),
        taints,
        sorted(node.resources.items()),
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def kind_of(group: cloud.NodeGroup) -> NodeKind:
    """Name the nodes that offer the same: those of one instance type of which tags promise the same."""
    return (group.key.instance_type, tuple(sorted(group.node.resources.items())))


def recall(known: Known, pools: Iterable[InstancePool], groups: Collection[cloud.NodeGroup], now: float) -> Known:
    """Forget what is of other templates, and add what pools wrote down about kinds of which nothing is known."""
    hashes = _hashes(groups)
    recalled = {kind: left for kind, each in known.items() if (left := _current(each, hashes)).templates}
    unknown = {group.name: group for group in groups if kind_of(group) not in recalled}
    for pool in pools if unknown else ():
        for written in pool.status.node_groups:
            group = unknown.get(cloud.GroupName(written.name))
            if group is not None and written.learned and written.template_hash == hashes[group.name]:
                before = recalled.get(kind_of(group))
                retry_at = written.retry_at.timestamp() if written.retry_at is not None else None
                found = Learned(
                    amounts=shapes.amounts(written.learned),
                    templates={group.name: written.template_hash},
                    retry_at=retry_at,
                    retries=written.retries or 0,
                    is_tried=bool(written.retries) and retry_at is not None and now < retry_at,
                )
                recalled[kind_of(group)] = _merged(before, found) if before is not None else found
    return known if recalled == known else recalled


def learn(known: Known, snapshot: Snapshot) -> Known:
    """Return what nodes of each kind offer: the least of those that are there, or what others offered before."""
    were_ready, listed = snapshot.records.were_ready, unfinished.listed(snapshot)
    shown = _shown(snapshot.groups, snapshot.by_provider, snapshot.outdated, were_ready, listed)
    learned = {
        kind: each if each.retry_at is not None else _retried(each, each.retries, snapshot.now)
        for kind, each in known.items()
    }
    for kind, found in shown.items():
        before = known.get(kind)
        is_less = before is not None and before.retries and not _is_whole(snapshot, kind, found.amounts)
        learned[kind] = dataclasses.replace(found, retries=before.retries) if before and is_less else found
    return known if learned == known else learned


def tried(known: Known, snapshot: Snapshot, keys: Collection[NodeGroupKey]) -> Known:
    """Note that these groups get a node to see whether it offers more."""
    kinds = {kind_of(group) for group in snapshot.groups if group.key in keys} if keys else set[NodeKind]()
    trying = {kind: _retried(known[kind], known[kind].retries + 1, snapshot.now) for kind in kinds if kind in known}
    return {**known, **{kind: dataclasses.replace(each, is_tried=True) for kind, each in trying.items()}}


def offered(snapshot: Snapshot, group: cloud.NodeGroup, *, whole: bool = False) -> dict[str, int] | None:
    """Return what a group's next node offers; None if nobody knows its type.

    `whole`: what it would offer if what was seen of nodes that are gone was not the type's fault.
    """
    kind, learned = snapshot.types.get(group.key.instance_type), snapshot.learned.get(kind_of(group))
    amounts = learned.amounts if learned is not None else {}
    return _offered((group.name, whole), kind, group.node, amounts) if kind is not None else None


@remembered.RememberedEqual
def _offered(
    named: tuple[cloud.GroupName, bool],
    kind: catalogue.InstanceType,
    node: cloud.NodeTemplate,
    learned: Mapping[str, int],
) -> dict[str, int]:
    expected = catalogue.expected(kind, node)
    if named[1]:
        return {**expected, **{name: max(amount, expected.get(name, 0)) for name, amount in learned.items()}}
    return {**expected, **learned}


def next_retry(known: Known, now: float) -> float | None:
    """Return when the next kind may be tried again."""
    return min((each.retry_at for each in known.values() if each.retry_at and each.retry_at > now), default=None)


def written(snapshot: Snapshot, group: cloud.NodeGroup) -> Manifest:
    """Return what a group's status should say for whoever begins anew, but for the amounts."""
    learned = snapshot.learned.get(kind_of(group))
    told = learned.templates.get(group.name) if learned is not None else None
    if learned is None or told is None:
        return {}
    retry = {} if learned.retry_at is None else {"retryAt": clock.to_rfc3339(learned.retry_at)}
    return {"templateHash": told, **retry, **({"retries": learned.retries} if learned.retries else {})}


def _current(each: Learned, hashes: Mapping[cloud.GroupName, str | None]) -> Learned:
    """Return it with the templates that are still in use."""
    left = {name: told for name, told in each.templates.items() if name in hashes and hashes[name] == told}
    return each if len(left) == len(each.templates) else dataclasses.replace(each, templates=left)


def _merged(one: Learned, other: Learned) -> Learned:
    """Join what two groups of a kind wrote down; what may not be tried yet by one is not tried."""
    waits = [each.retry_at for each in (one, other) if each.retry_at is not None]
    return Learned(
        amounts=_least([one.amounts, other.amounts]),
        templates={**one.templates, **other.templates},
        retry_at=max(waits, default=None),
        retries=max(one.retries, other.retries),
        is_tried=one.is_tried or other.is_tried,
    )


def _retried(before: Learned, retries: int, now: float) -> Learned:
    """Return what is known of a kind that no healthy node shows, after so many tries."""
    return dataclasses.replace(before, retry_at=float(int(now + RETRY.pause(retries + 1))), retries=retries)


def _is_whole(snapshot: Snapshot, kind: NodeKind, amounts: Mapping[str, int]) -> bool:
    """Tell whether nodes offer all that was expected of them."""
    there = snapshot.types.get(kind[0])
    expected = catalogue.expected(there, cloud.NodeTemplate(resources=dict(kind[1]))) if there is not None else {}
    return all(amounts.get(name, 0) >= amount for name, amount in expected.items())


@remembered.Remembered
def _hashes(groups: Iterable[cloud.NodeGroup]) -> dict[cloud.GroupName, str | None]:
    return {group.name: template_hash(group) for group in groups}


class _Offers(NamedTuple):
    """What ready nodes of a group offer, each different amount once."""

    finished: tuple[Mapping[str, int], ...]
    others: tuple[tuple[str, Mapping[str, int]], ...]
    """Of nodes that lack something, by the ids that their instances have: they count if they were finished once."""


@remembered.Remembered
def _shown(
    groups: tuple[cloud.NodeGroup, ...],
    nodes: Mapping[str, objects.Node],
    outdated: Collection[cloud.InstanceId],
    were_ready: Collection[str],
    listed: unfinished.Listed,
) -> dict[NodeKind, Learned]:
    """Return the least that healthy nodes of each kind offer, of those that are not outdated."""
    there: dict[NodeKind, list[Mapping[str, int]]] = {}
    templates: dict[NodeKind, dict[cloud.GroupName, str | None]] = {}
    hashes, offers = _hashes(groups), _offers(groups, nodes, outdated, listed)
    for group in groups:
        finished, others = offers[group.name]
        found = [*finished, *(amounts for provider_id, amounts in others if provider_id in were_ready)]
        if found:
            there.setdefault(kind_of(group), []).extend(found)
            templates.setdefault(kind_of(group), {})[group.name] = hashes[group.name]
    return {kind: Learned(amounts=_least(found), templates=templates[kind]) for kind, found in there.items()}


@group_nodes.ByGroup
def _offers(
    there: group_nodes.GroupNodes, outdated: Collection[cloud.InstanceId], listed: unfinished.Listed
) -> _Offers:
    finished: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
    others = []
    for one, node in zip(there.group.instances, there.nodes, strict=True):
        if one.id in outdated or node is None or not node.ready:
            continue
        amounts = {name: 0 if name in node.lost else amount for name, amount in node.allocatable.items()}
        if unfinished.lacks(node, there.group, listed, is_new=True) is None:
            finished[tuple(sorted(amounts.items()))] = amounts
        else:
            others.append((one.provider_id, amounts))
    return _Offers(finished=tuple(finished.values()), others=tuple(others))


def _least(offered: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the least of what all have; of a device, of those that have any just now."""
    least = {}
    for name in set.intersection(*(set(each) for each in offered)):
        amounts = [each[name] for each in offered if each[name] or "/" not in name]
        if amounts:
            least[name] = min(amounts)
    return least
