"""Which nodes take no more pods, and which of their pods should leave. Pure; outdated ones are `renewing`'s."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.capacity import closing, ephemeral, leaving, lives
from autoscaler.capacity.marks import Draining
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A node that should become empty."""

    node: objects.Key
    reason: Draining
    may_end: bool = False
    """Leave pods alone that end by themselves."""
    only: frozenset[str] | None = None
    """Leave all pods alone but those of these UIDs; None: none."""


def choose(snapshot: Snapshot) -> tuple[Drain, ...]:
    """Choose the nodes: those that the provider takes, of pools that leave, of used budgets, and spent ones."""
    return (*_interrupted(snapshot), *_emptied(snapshot), *_closed(snapshot), *_used(snapshot))


def _interrupted(snapshot: Snapshot) -> Iterator[Drain]:
    for node in snapshot.nodes.values() if snapshot.doomed else ():
        if lives.instance_id(node.provider_id) in snapshot.doomed:
            yield Drain(node=node.meta.key, reason=Draining.INTERRUPTED)


def _emptied(snapshot: Snapshot) -> Iterator[Drain]:
    for each in leaving.emptied(snapshot):
        yield Drain(node=each.node, reason=Draining.EMPTIED, only=each.asked)


def _closed(snapshot: Snapshot) -> Iterator[Drain]:
    for node in closing.closed(snapshot):
        yield Drain(node=node, reason=Draining.CLOSED, only=frozenset())


def _used(snapshot: Snapshot) -> Iterator[Drain]:
    """Yield the spent instances that something keeps which could be anywhere."""
    for node, pods in ephemeral.leftovers(snapshot).items():
        yield Drain(node=node, reason=Draining.USED, only=pods)
