"""Which Instance objects there should be, and what each should say. Pure: what is seen in, writes as data out.

Every instance of a node group has one object, named after its pool and the lowest number that was free; the object of
an instance that is gone serves the next one. An instance that nobody recorded, because somebody died between asking
for it and writing that down, is found here like any other. Instances that are only just asked for have no object yet.

Kept here: an instance has at most one life in the books. An object is used again only once its last instance is not
listed any more, so that nobody takes that one for a new one; an instance that is about to go is taken up only if it
began after the listing before; and where two objects have the same instance, all but the lowest number count nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from autoscaler.api import names, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.instances import Instance, InstanceStatus, Phase
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import work
from autoscaler.capacity.records import accounting, instance_status
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import objects

DELETES_MAX: Final = 20
"""So many objects are deleted in one cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that the books are kept from."""

    snapshot: Snapshot
    """Its groups must be a whole listing, and its pods and nodes in step with the cluster."""
    instances: tuple[objects.Custom[Instance], ...]
    """All that may have to say something else; where an instance has none, all of its pool that have no life."""
    taken: Mapping[str, Collection[int]] = field(default_factory=dict)
    """By pool: the numbers of objects that have a life, of those that are not among these."""
    lives: Mapping[cloud.InstanceId, cloud.InstanceTimes] = field(default_factory=dict)
    asked: frozenset[cloud.InstanceId] = frozenset()
    """Instances whose lives the cloud was asked for and has answered; those without a life it has forgotten."""
    ends: Mapping[cloud.InstanceId, float] = field(default_factory=dict)
    """When node groups say that they ended instances."""
    accounts: frozenset[str] | None = None
    """Those that were asked at all, by name: what others have, nobody told. None: all."""
    listed_before: float | None = None
    """When the groups were listed before this listing. None: nobody knows."""
    unwatched_since: float | None = None
    """Since when nobody watched the cluster until just now. None: somebody did all along."""
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """An object to make. That it exists already is no failure."""

    name: str
    pool: str
    number: int

    def manifest(self) -> Manifest:
        return {
            "apiVersion": version.GROUP_VERSION,
            "kind": "Instance",
            "metadata": {"name": self.name},
            "spec": {"pool": self.pool, "number": self.number},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A status to write, as a whole and only onto the very version it was made from."""

    name: str
    pool: str
    uid: str
    resource_version: int
    before: InstanceStatus
    after: InstanceStatus
    samples: tuple[instance_status.Sample, ...] = ()
    """Durations to add to the scopes' means, once this is written."""

    @property
    def is_time_alone(self) -> bool:
        """Whether it does nothing but forget months that are too long ago."""
        return self.after.model_copy(update={"months": self.before.months}) == self.before

    def patch(self) -> Manifest:
        """Return the merge patch of the status that turns what was read into what should be."""
        return merge_patch(_plain(self.before), _plain(self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """An object whose last life ended so long ago that nothing of it is kept."""

    name: str
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An instance of which the cloud should be asked when it began and ended."""

    instance: cloud.InstanceId
    group: NodeGroupKey | None
    """The node group that has it or had it; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write, in any order, and what to ask."""

    creates: tuple[Create, ...] = ()
    changes: tuple[Change, ...] = ()
    questions: tuple[Question, ...] = ()
    deletes: tuple[Delete, ...] = ()


def decide(sight: Sight) -> Plan:
    """Say what to write so that the objects tell what is seen; nothing if they do."""
    books = _Books(sight)
    living = [one for one in books.instances if one.resource.status.phase in accounting.LIVING]
    continued = tuple(_continue(books, living))
    ending = frozenset(each.name for each in continued if each.after.phase is Phase.TERMINATED)
    begun, creates = _adopt(books, ending)
    changes = (*continued, *begun)
    return Plan(
        creates=tuple(creates),
        changes=tuple(sorted((each for each in changes if each.before != each.after), key=lambda each: each.name)),
        questions=tuple(sorted(books.questions, key=lambda each: each.instance)),
        deletes=tuple(_forgotten(books, frozenset(each.name for each in changes)))[:DELETES_MAX],
    )


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Manifest:
    """Return the smallest merge patch that makes the one the other; what is gone is null."""
    made: Manifest = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            inner = merge_patch(old, value)
            made.update({key: inner} if inner else {})
        elif key not in before or old != value:
            made[key] = value
    return made


def instance_id(provider_id: str) -> cloud.InstanceId:
    """Return the part of a provider's name by which the cloud is asked."""
    return cloud.InstanceId(provider_id.rsplit("/", 1)[-1])


class _Listed(NamedTuple):
    """An instance and its group."""

    instance: cloud.Instance
    group: cloud.NodeGroup

    @property
    def is_leaving(self) -> bool:
        return self.instance.lifecycle is cloud.Lifecycle.LEAVING


class _Books:
    """What is seen, by the keys that it is looked up by; and what turns out to be asked."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.moment = instance_status.Moment(now=sight.snapshot.now, unwatched_since=sight.unwatched_since)
        self.instances = sorted(sight.instances, key=lambda one: (one.resource.spec.pool, one.resource.spec.number))
        self.listed = {
            one.provider_id: _Listed(one, group) for group in sight.snapshot.groups for one in group.instances
        }
        self.questions: set[Question] = set()

    def body(self, provider_id: str, node_name: str | None) -> instance_status.Body:
        """Return what is seen of an instance; its pods also where its node is gone."""
        snapshot = self.sight.snapshot
        node = snapshot.by_provider.get(provider_id)
        pods = snapshot.indexed.by_node.get(node.meta.key.name if node is not None else node_name or "", ())
        namespaces = {pod.meta.key.namespace for pod in pods}
        scopes = {name: demand.scope_of(snapshot, name) for name in namespaces}
        listed = self.listed.get(provider_id)
        return instance_status.Body(
            provider_id=provider_id,
            is_leaving=listed is not None and listed.is_leaving,
            node=node,
            is_finished=node is None or listed is None or self._is_finished(listed.group, node, pods),
            pods=pods,
            scopes={name: scope for name, scope in scopes.items() if scope},
        )

    def _is_finished(self, group: cloud.NodeGroup, node: objects.Node, pods: Iterable[objects.Pod]) -> bool:
        is_new = unfinished.is_young(self.sight.snapshot, group, node) and not any(map(work.is_work, pods))
        return unfinished.lacks(node, group, unfinished.listed(self.sight.snapshot), is_new=is_new) is None

    def end(self, pool: str, provider_id: str, status: InstanceStatus) -> instance_status.End | None:
        """Return when a life ended; None while it lasts, or nobody could tell yet."""
        name, sight = instance_id(provider_id), self.sight
        told, listed = sight.lives.get(name), self.listed.get(provider_id)
        if told is not None and told.is_over:
            if told.ended_at is not None:
                return instance_status.End(at=told.ended_at, reason=instance_status.EndReason.STATE_TRANSITION)
            return self._end_by_others(name, is_listed=listed is not None)
        if listed is None and told is None and name in sight.asked and self._is_told_of(pool):
            return self._end_by_others(name, is_listed=False)
        if listed is None or listed.is_leaving:
            self.questions.add(Question(instance=name, group=_group(pool, status)))
        return None

    def _is_told_of(self, pool: str) -> bool:
        """Tell whether the account of a pool was asked; one that cannot be used may still have its instances."""
        spec, accounts = self.sight.snapshot.pools.get(pool), self.sight.accounts
        return spec is None or accounts is None or spec.provider_account in accounts

    def _end_by_others(self, name: cloud.InstanceId, *, is_listed: bool) -> instance_status.End:
        sight, now = self.sight, self.moment.now
        if name in sight.ends:
            return instance_status.End(at=sight.ends[name], reason=instance_status.EndReason.SCALING_ACTIVITY)
        seen = (now,) if is_listed else (sight.listed_before, sight.unwatched_since, now)
        at = min(now, next(each for each in seen if each is not None))
        return instance_status.End(at=at, reason=instance_status.EndReason.LAST_SEEN)

    def hourly_micros(self, pool: str, instance_type: str | None) -> int | None:
        spec = self.sight.snapshot.pools.get(pool)
        if spec is None or instance_type is None:
            return None
        return self.sight.prices.hourly_micros.get((instance_type, spec.specifications.capacity_type))


# Lives that are in the books


def _continue(books: _Books, living: Iterable[objects.Custom[Instance]]) -> Iterator[Change]:
    taken: set[str] = set()
    for one in living:
        status = one.resource.status
        if status.provider_id is None or status.provider_id in taken:
            yield _change(one, instance_status.Outcome(status=instance_status.void(status, books.moment)))
        else:
            taken.add(status.provider_id)
            yield _change(one, _next(books, one.resource.spec.pool, status.provider_id, status))


def _next(books: _Books, pool: str, provider_id: str, status: InstanceStatus) -> instance_status.Outcome:
    body = books.body(provider_id, status.node_name)
    over = books.end(pool, provider_id, status)
    if over is None:
        return instance_status.go_on(status, body, books.moment)
    price = books.hourly_micros(pool, status.instance_type)
    return instance_status.end(status, body, books.moment, end=over, hourly_micros=price)


def _forgotten(books: _Books, begun: frozenset[str]) -> Iterator[Delete]:
    """Yield objects whose last life ended more than as many whole months ago as are kept."""
    for one in books.instances:
        status = one.resource.status
        ended_at = instance_status.ended_at(status)
        if status.phase is Phase.TERMINATED and ended_at is not None and status.provider_id not in books.listed:
            age = accounting.age_in_months(accounting.month_of(ended_at), books.moment.now)
            if age > accounting.MONTHS_KEPT and one.meta.key.name not in begun and one.meta.deleted_at is None:
                meta = one.meta
                yield Delete(name=meta.key.name, uid=meta.uid, resource_version=meta.resource_version)


def _group(pool: str, status: InstanceStatus) -> NodeGroupKey | None:
    if status.zone is None or status.instance_type is None:
        return None
    return NodeGroupKey(pool=pool, zone=status.zone, instance_type=status.instance_type)


def _change(one: objects.Custom[Instance], outcome: instance_status.Outcome) -> Change:
    return Change(
        name=one.meta.key.name,
        pool=one.resource.spec.pool,
        uid=one.meta.uid,
        resource_version=one.meta.resource_version,
        before=one.resource.status,
        after=outcome.status,
        samples=outcome.samples,
    )


# Instances that are not in the books


class _Found(NamedTuple):
    """An instance without an object; sorts by when it began."""

    created_at: float
    provider_id: str


def _adopt(books: _Books, ending: frozenset[str]) -> tuple[list[Change], list[Create]]:
    """Give every instance that has none an object of its pool: the lowest number that is free.

    Where that is one whose life only ends now, the instance waits until this is written.
    """
    changes, creates = [], []
    for pool, found in sorted(_unrecorded(books).items()):
        numbered = {one.resource.spec.number: one for one in books.instances if one.resource.spec.pool == pool}
        numbers = _free_numbers(books, pool, numbered, ending)
        for each, number in zip(sorted(found), numbers, strict=False):
            one = numbered.get(number)
            if one is None:
                creates.append(Create(name=names.instance(pool, number), pool=pool, number=number))
            elif one.meta.key.name not in ending:
                changes.append(_begin(books, one, each))
    return changes, creates


def _unrecorded(books: _Books) -> dict[str, list[_Found]]:
    recorded = {one.resource.status.provider_id for one in books.instances if one.resource.status.phase is not None}
    found: dict[str, list[_Found]] = defaultdict(list)
    for provider_id, listed in books.listed.items():
        began = _began(books, listed) if provider_id not in recorded else None
        if began is not None:
            found[listed.group.key.pool].append(_Found(began, provider_id))
    return found


def _began(books: _Books, listed: _Listed) -> float | None:
    """Return when an instance began; None if it is not known yet, or the instance is none of ours to take up."""
    sight, one = books.sight, listed.instance
    told = sight.lives.get(one.id)
    if told is None and one.id not in sight.asked:
        books.questions.add(Question(instance=one.id, group=listed.group.key))
        return None
    if listed.is_leaving or (told is not None and told.is_over):
        is_new = told is not None and sight.listed_before is not None and told.launched_at > sight.listed_before
        return told.launched_at if told is not None and is_new else None
    if told is not None:
        return told.launched_at
    node = sight.snapshot.by_provider.get(one.provider_id)
    return node.meta.created_at if node is not None else books.moment.now


def _free_numbers(
    books: _Books, pool: str, numbered: Mapping[int, objects.Custom[Instance]], ending: frozenset[str]
) -> Iterator[int]:
    taken = books.sight.taken.get(pool, ())
    for number in range(1, names.INSTANCE_NUMBER_MAX + 1):
        one = numbered.get(number)
        if _is_free(books, one, ending) if one is not None else number not in taken:
            yield number


def _is_free(books: _Books, one: objects.Custom[Instance], ending: frozenset[str]) -> bool:
    status = one.resource.status
    if one.meta.deleted_at is not None:
        return False
    if status.phase in accounting.LIVING and one.meta.key.name not in ending:
        return False
    return status.phase is None or status.provider_id not in books.listed


def _begin(books: _Books, one: objects.Custom[Instance], found: _Found) -> Change:
    """Begin a life, and bring it up to date in the same write."""
    listed = books.listed[found.provider_id]
    fresh = instance_status.begin(
        one.resource.status,
        registered_at=one.meta.created_at,
        created_at=found.created_at,
        of=InstanceStatus(
            phase=Phase.LAUNCHING,
            provider_id=found.provider_id,
            zone=listed.instance.zone,
            instance_type=listed.group.key.instance_type,
        ),
    )
    return _change(one, _next(books, one.resource.spec.pool, found.provider_id, fresh))


def _plain(status: InstanceStatus) -> Mapping[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
