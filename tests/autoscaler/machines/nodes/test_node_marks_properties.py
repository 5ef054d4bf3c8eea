"""Whatever Machines, health, guests and other people do to a node: guests keep their labels, and everything ends."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.machines import NodeMode
from autoscaler.kube import owned_marks
from autoscaler.machines.nodes import node_marks
from autoscaler.machines.nodes.claims import Claim, GroupType
from autoscaler.machines.nodes.node_labels import SETTLE_SECONDS, Situation
from autoscaler.simulation.cluster import merging
from tests.autoscaler.machines.node_builders import NOW, decoded, node_manifest, taint

GROUPS, TYPES = ("general", "other"), ("medium", "large")
THEIRS = {"kubernetes.io/hostname": "a"}
THEIR_TAINTS = [taint("node.kubernetes.io/unreachable", effect="NoExecute", ago=30), taint("dedicated", "x")]
PAIRS = st.builds(GroupType, st.sampled_from(GROUPS), st.sampled_from(TYPES))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What is true for a while."""

    claim: Claim | None
    is_healthy: bool
    offered: frozenset[GroupType]
    arriving: frozenset[GroupType]
    """Types of which a guest tries to come."""
    staying: frozenset[GroupType]
    """Types whose guests do not end."""
    seconds: float


def claims() -> st.SearchStrategy[Claim]:
    return st.builds(
        lambda group, types, mode, has_taint: Claim(
            group=group, type=types[0], types=types, mode=mode, taint=has_taint
        ),
        st.sampled_from(GROUPS),
        st.sampled_from([("medium",), ("large",), ("medium", "large")]),
        st.sampled_from(NodeMode),
        st.booleans(),
    )


TURNS = st.lists(
    st.builds(
        Turn,
        claim=st.none() | claims(),
        is_healthy=st.booleans(),
        offered=st.frozensets(PAIRS),
        arriving=st.frozensets(PAIRS),
        staying=st.frozensets(PAIRS),
        seconds=st.sampled_from([0.0, SETTLE_SECONDS]),
    ),
    max_size=12,
)


class World:
    """A node, its guests, and the patches that are applied to it."""

    def __init__(self) -> None:
        self.manifest: Manifest = node_manifest(labels=THEIRS, taints=THEIR_TAINTS)
        self.guests: frozenset[GroupType] = frozenset()
        self.now = NOW

    @property
    def labels(self) -> dict[str, Any]:
        return dict(self.manifest["metadata"].get("labels") or {})

    @property
    def taints(self) -> list[Manifest]:
        return list(self.manifest["spec"].get("taints") or ())

    @property
    def is_closed(self) -> bool:
        return any(each["key"] == keys.MACHINE_CLOSED for each in self.taints)

    def may_come(self, guest: GroupType) -> bool:
        """Tell whether the scheduler would put a guest here."""
        has_labels = self.labels.get(keys.machine_label(guest.type)) == guest.group and keys.NODE_POOL in self.labels
        return has_labels and not self.is_closed

    def step(self, turn: Turn) -> bool:
        """Decide and write once; tell whether anything was written."""
        claim = turn.claim
        marks = node_marks.decide(
            Situation(
                node=decoded(self.manifest),
                claim=claim,
                types=claim.types if claim else (),
                is_healthy=turn.is_healthy,
                needed=self.guests,
                offered=turn.offered,
            ),
            self.now,
        )
        if marks.patch is None:
            return False
        self.manifest = merging.merge(self.manifest, marks.patch)
        return True

    def check(self) -> None:
        """See what must hold after every write."""
        for guest in self.guests:
            assert self.labels.get(keys.machine_label(guest.type)) == guest.group
            assert self.labels.get(keys.NODE_POOL) == keys.NODE_POOL_READY
        assert THEIRS.items() <= self.labels.items()
        assert [each for each in self.taints if each in THEIR_TAINTS] == THEIR_TAINTS


def run(world: World, turns: list[Turn]) -> None:
    for turn in turns:
        world.guests &= turn.staying
        world.now += turn.seconds
        world.step(turn)
        world.check()
        world.guests |= {each for each in turn.arriving if world.may_come(each)}


@pytest.mark.accept("M6", part="marks of a node")
@given(TURNS)
def test_running_guests_keep_their_labels_and_others_keep_what_is_theirs(turns: list[Turn]) -> None:
    run(World(), turns)


@pytest.mark.accept("M12", part="marks of a node")
@given(TURNS, st.frozensets(PAIRS))
def test_every_mark_is_removed_in_the_end(turns: list[Turn], offered: frozenset[GroupType]) -> None:
    world = World()
    run(world, turns)
    gone = Turn(
        claim=None, is_healthy=True, offered=offered, arriving=frozenset(), staying=frozenset(), seconds=SETTLE_SECONDS
    )
    run(world, [gone] * 2)
    assert owned_marks.without({"kind": "Node", **world.manifest}) == {}
    assert not world.step(gone)


@pytest.mark.accept("M13", part="marks of a node")
@given(turns=TURNS, claim=claims(), is_healthy=st.booleans())
def test_what_stays_as_it_is_is_soon_written_no_more(*, turns: list[Turn], claim: Claim, is_healthy: bool) -> None:
    world = World()
    run(world, turns)
    offered = frozenset(GroupType(claim.group, each) for each in claim.types)
    last = Turn(
        claim=claim,
        is_healthy=is_healthy,
        offered=offered,
        arriving=frozenset(),
        staying=world.guests,
        seconds=SETTLE_SECONDS,
    )
    run(world, [last] * 2)
    assert not world.step(last)
    takes_guests = is_healthy and claim.mode is NodeMode.READY
    kept = {keys.machine_label(each.type) for each in world.guests}
    want = {keys.machine_label(each) for each in claim.types if takes_guests} | kept
    assert world.is_closed or {key for key in world.labels if key.startswith(keys.machine_label(""))} == want
