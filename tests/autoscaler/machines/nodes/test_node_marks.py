"""What a node carries of ours, step by step: put on, closed first, kept for guests, taken off, and nothing else."""

import dataclasses
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.machines import NodeMode
from autoscaler.machines.nodes import node_marks
from autoscaler.machines.nodes.claims import Claim, GroupType
from autoscaler.machines.nodes.node_labels import SETTLE_SECONDS, Situation
from autoscaler.machines.nodes.node_marks import Change, Marks
from autoscaler.simulation.cluster import merging
from tests.autoscaler.machines.node_builders import (
    GROUP,
    LARGE,
    MEDIUM,
    NOW,
    READY,
    decoded,
    node_manifest,
    taint,
)

pytestmark = pytest.mark.accept("M6", part="marks of a node")
MEDIUM_GUEST = frozenset({GroupType(GROUP, "medium")})
OFFERED = frozenset({GroupType(GROUP, "medium"), GroupType(GROUP, "large"), GroupType("other", "medium")})
OURS = {keys.MACHINE_GROUP: GROUP}
BOTH = [taint(MEDIUM, GROUP), taint(keys.NODE_POOL, "ready")]
THEIRS = {"kubernetes.io/hostname": "a", keys.INSTANCE_POOL: "gpu"}
CLOSED = taint(keys.MACHINE_CLOSED, GROUP, ago=60)
OPEN_NODE: dict[str, Any] = {"labels": {MEDIUM: GROUP, **READY, **THEIRS}, "annotations": OURS}


def claim(type_: str = "medium", *more: str, group: str = GROUP, **changes: Any) -> Claim:
    made = Claim(group=group, type=type_, types=(type_, *more), mode=NodeMode.READY, taint=False)
    return dataclasses.replace(made, **changes)


MAINTENANCE = claim(mode=NodeMode.MAINTENANCE)


class Stood:
    """A node whose marks are decided again and again, as its patches are applied."""

    def __init__(self, **found: Any) -> None:
        self.manifest = node_manifest(**found)

    def look(self, wanted: Claim | None, *, now: float = NOW, **known: Any) -> Marks:
        types = known.pop("types", wanted.types if wanted else ())
        known = {"offered": OFFERED, **known}
        return node_marks.decide(Situation(node=decoded(self.manifest), claim=wanted, types=types, **known), now)

    def step(self, wanted: Claim | None, **known: Any) -> Change | None:
        """Do what is decided, and return what that was."""
        marks = self.look(wanted, **known)
        if marks.patch is not None:
            self.manifest = merging.merge(self.manifest, marks.patch)
        return marks.change

    @property
    def labels(self) -> Manifest:
        return {key: value for key, value in self.manifest["metadata"].get("labels", {}).items() if key not in THEIRS}

    @property
    def annotations(self) -> Manifest:
        return self.manifest["metadata"].get("annotations") or {}

    @property
    def taints(self) -> list[Manifest]:
        return self.manifest["spec"].get("taints") or []

    @property
    def is_closed(self) -> bool:
        return any(each["key"] == keys.MACHINE_CLOSED for each in self.taints)


def test_a_healthy_node_in_mode_ready_gets_annotation_and_labels_in_one_patch() -> None:
    stood = Stood(labels=THEIRS)
    marks = stood.look(claim("medium", "half"))
    want = {"labels": {MEDIUM: GROUP, keys.machine_label("half"): GROUP, **READY}, "annotations": OURS}
    assert marks.patch == {"metadata": want}
    assert (marks.change, marks.is_ready, marks.is_marked) == (Change.OPEN, True, False)


@pytest.mark.accept("M13", part="marks of a node")
@pytest.mark.parametrize("has_taints", [True, False])
def test_a_node_that_has_all_of_it_is_not_written_to(*, has_taints: bool) -> None:
    stood = Stood(**OPEN_NODE, taints=[*BOTH, taint("theirs")] if has_taints else [taint("theirs")])
    marks = stood.look(claim(taint=has_taints), needed=MEDIUM_GUEST)
    want = Marks(patch=None, change=None, is_ready=True, is_marked=True, is_closed=False, is_settled=True)
    assert marks == want


def test_both_taints_are_there_if_the_entry_says_so_and_go_when_it_does_not() -> None:
    theirs = taint("node.kubernetes.io/unreachable", effect="NoExecute", ago=30)
    stood = Stood(**OPEN_NODE, taints=[theirs])
    assert stood.step(claim(taint=True)) is Change.AMEND
    assert stood.taints == [theirs, *BOTH]
    assert stood.step(claim(taint=True)) is None
    assert stood.step(claim(taint=False)) is Change.AMEND
    assert stood.taints == [theirs]


@pytest.mark.accept("M9", part="where a child lives")
def test_a_node_has_the_taint_of_its_entrys_type_alone() -> None:
    stood = Stood()
    stood.step(claim("medium", "half", taint=True))
    assert stood.taints == BOTH


@pytest.mark.parametrize("known", [{"is_healthy": False}, {"types": ()}, {"wanted": MAINTENANCE}, {"wanted": None}])
def test_a_node_that_stops_taking_guests_is_closed_before_any_label_goes(known: dict[str, Any]) -> None:
    stood = Stood(**OPEN_NODE)
    marks = stood.look(**{"wanted": claim(), **known})
    assert marks.patch == {"spec": {"taints": [taint(keys.MACHINE_CLOSED, GROUP, ago=0)]}}
    assert (marks.change, marks.is_ready, marks.is_closed) == (Change.CLOSE, False, False)


def test_labels_go_once_the_closed_node_has_settled_and_the_taint_with_them() -> None:
    stood = Stood(**OPEN_NODE, taints=[taint(keys.MACHINE_CLOSED, GROUP, ago=0)])
    waits = stood.look(MAINTENANCE, now=NOW + SETTLE_SECONDS - 1)
    assert (waits.patch, waits.wake_at, waits.is_closed) == (None, NOW + SETTLE_SECONDS, True)
    assert stood.step(MAINTENANCE, now=NOW + SETTLE_SECONDS) is Change.STRIP
    assert (stood.labels, stood.annotations, stood.taints) == ({}, OURS, [])
    done = stood.look(MAINTENANCE)
    assert (done.patch, done.is_ready, done.is_closed) == (None, False, True)


def test_a_closing_time_that_lies_ahead_holds_nothing_up() -> None:
    stood = Stood(**OPEN_NODE, taints=[taint(keys.MACHINE_CLOSED, GROUP, ago=-3600)])
    assert stood.step(MAINTENANCE) is Change.STRIP
    assert stood.labels == {}


def test_labels_that_a_guest_names_stay_as_long_as_it_does_and_others_go() -> None:
    labels = {**OPEN_NODE["labels"], LARGE: GROUP}
    stood = Stood(labels=labels, annotations=OURS, taints=[CLOSED])
    marks = stood.look(MAINTENANCE, needed=MEDIUM_GUEST)
    assert marks.patch == {"metadata": {"labels": {LARGE: None}}}
    assert (marks.change, marks.kept_for) == (Change.STRIP, tuple(MEDIUM_GUEST))
    stood.step(MAINTENANCE, needed=MEDIUM_GUEST)
    kept = stood.look(MAINTENANCE, needed=MEDIUM_GUEST)
    assert (kept.patch, kept.wake_at, kept.is_ready, kept.is_settled) == (None, None, False, False)
    assert stood.step(MAINTENANCE) is Change.STRIP
    assert (stood.labels, stood.is_closed) == ({}, False)


def test_taints_that_the_entry_asks_for_stay_through_maintenance() -> None:
    stood = Stood(**OPEN_NODE, taints=[*BOTH, CLOSED])
    stood.step(dataclasses.replace(MAINTENANCE, taint=True))
    assert (stood.labels, stood.taints) == ({}, BOTH)


def test_a_node_that_takes_guests_again_is_opened_in_one_patch() -> None:
    stood = Stood(labels=THEIRS, annotations=OURS)
    assert stood.step(claim()) is Change.OPEN
    assert stood.labels == {MEDIUM: GROUP, **READY}
    closed = Stood(**OPEN_NODE, taints=[CLOSED])
    assert not closed.look(claim()).is_marked
    assert closed.step(claim(), needed=MEDIUM_GUEST) is Change.OPEN
    assert closed.taints == []


@pytest.mark.accept("M12", part="marks of a node")
def test_a_node_that_is_dropped_loses_all_of_ours_and_nothing_else() -> None:
    stood = Stood(**OPEN_NODE, taints=[*BOTH, taint("theirs")])
    assert stood.step(None) is Change.CLOSE
    assert [each["key"] for each in stood.taints] == ["theirs", keys.MACHINE_CLOSED]
    assert (stood.labels, stood.annotations) == ({MEDIUM: GROUP, **READY}, OURS)
    assert stood.step(None, needed=MEDIUM_GUEST, now=NOW + 60) is None
    assert stood.step(None, now=NOW + 60) is Change.LEAVE
    assert (stood.labels, stood.annotations, stood.taints) == ({}, {}, [taint("theirs")])
    assert stood.manifest["metadata"]["labels"] == THEIRS
    assert stood.look(None).patch is None


@pytest.mark.accept("M12", part="marks of a node")
def test_what_was_left_on_a_node_that_nobody_has_is_removed() -> None:
    stood = Stood(annotations=OURS, taints=BOTH)
    assert stood.step(None) is Change.LEAVE
    assert (stood.annotations, stood.taints) == ({}, [])


@pytest.mark.accept("M13", part="marks of a node")
def test_a_type_that_is_renamed_gets_its_label_and_the_old_one_stays_for_its_guests() -> None:
    stood = Stood(**OPEN_NODE)
    offered = {GroupType(GROUP, "small")}
    assert stood.step(claim("small"), offered=offered, needed=MEDIUM_GUEST) is Change.AMEND
    small = {keys.machine_label("small"): GROUP, **READY}
    assert (stood.labels, stood.is_closed) == ({**small, MEDIUM: GROUP}, False)
    kept = stood.look(claim("small"), offered=offered, needed=MEDIUM_GUEST)
    assert (kept.patch, kept.is_ready, kept.is_settled) == (None, True, False)
    assert stood.step(claim("small"), offered=offered) is Change.AMEND
    assert stood.labels == small


@pytest.mark.accept("M13", part="marks of a node")
def test_a_node_is_closed_until_it_has_lost_a_type_that_is_offered_elsewhere() -> None:
    stood = Stood(**OPEN_NODE)
    assert stood.step(claim("large"), needed=MEDIUM_GUEST) is Change.CLOSE
    marks = stood.look(claim("large"), needed=MEDIUM_GUEST, now=NOW + 60)
    assert (marks.patch, marks.is_ready, marks.kept_for) == (None, False, tuple(MEDIUM_GUEST))
    assert stood.step(claim("large"), now=NOW + 60) is Change.OPEN
    assert (stood.labels, stood.taints) == ({LARGE: GROUP, **READY}, [])


@pytest.mark.accept("M1", part="one group at a time")
def test_a_node_belongs_to_the_group_it_leaves_until_that_groups_guests_have_gone() -> None:
    stood = Stood(**OPEN_NODE, taints=BOTH)
    other = claim(group="other", taint=True)
    assert stood.step(other, needed=MEDIUM_GUEST) is Change.CLOSE
    assert (stood.labels, stood.annotations) == ({MEDIUM: GROUP, **READY}, OURS)
    assert stood.taints == [taint(keys.MACHINE_CLOSED, GROUP, ago=0)]
    assert stood.step(other, needed=MEDIUM_GUEST, now=NOW + 60) is None
    assert stood.step(other, now=NOW + 60) is Change.OPEN
    assert (stood.labels, stood.annotations) == ({MEDIUM: "other", **READY}, {keys.MACHINE_GROUP: "other"})
    assert stood.taints == [taint(MEDIUM, "other"), taint(keys.NODE_POOL, "ready")]


def test_guests_of_a_group_that_is_gone_keep_a_label_that_another_group_would_replace() -> None:
    stood = Stood(**OPEN_NODE)
    other, offered = claim(group="other"), {GroupType("other", "medium")}
    assert stood.step(other, offered=offered, needed=MEDIUM_GUEST) is Change.CLOSE
    assert stood.labels == {MEDIUM: GROUP, **READY}
    assert stood.step(other, offered=offered, now=NOW + 60) is Change.OPEN
    assert stood.labels == {MEDIUM: "other", **READY}


TAMPERED: list[dict[str, Any]] = [
    {"labels": {MEDIUM: "wrong", **READY}, "annotations": OURS},
    {"labels": {MEDIUM: GROUP, keys.NODE_POOL: "no"}, "annotations": OURS},
    {"labels": READY, "annotations": OURS},
    {"labels": {MEDIUM: GROUP, **READY}, "annotations": {keys.MACHINE_GROUP: "wrong"}},
    {"labels": {MEDIUM: GROUP, **READY, keys.machine_label("none"): "none"}, "annotations": OURS},
    {"labels": {MEDIUM: GROUP, **READY}, "taints": [taint(MEDIUM, "wrong", "NoExecute")]},
    {"labels": {MEDIUM: GROUP, **READY}, "taints": [taint(keys.MACHINE_CLOSED, effect="PreferNoSchedule")]},
]


@pytest.mark.accept("M13", part="marks of a node")
@pytest.mark.parametrize("tampered", TAMPERED, ids=str)
def test_what_others_did_to_our_marks_is_put_right_at_once(tampered: dict[str, Any]) -> None:
    stood = Stood(**tampered)
    assert stood.step(claim(), needed=MEDIUM_GUEST) in {Change.AMEND, Change.OPEN}
    assert (stood.labels, stood.annotations, stood.taints) == ({MEDIUM: GROUP, **READY}, OURS, [])


def test_a_closed_node_without_annotation_is_told_whose_it_still_is() -> None:
    stood = Stood(labels={MEDIUM: GROUP, **READY})
    stood.step(None)
    assert stood.annotations == OURS


@pytest.mark.accept("M9", part="hostLimit")
def test_a_node_where_no_type_may_live_is_not_marked_as_ready() -> None:
    stood = Stood(labels=THEIRS)
    assert stood.step(claim(), types=()) is Change.AMEND
    assert (stood.labels, stood.annotations) == ({}, OURS)


def test_a_label_that_no_guest_can_name_is_kept_for_none() -> None:
    labels = {MEDIUM: GROUP, keys.NODE_POOL: "no"}
    stood = Stood(labels=labels, annotations=OURS, taints=[CLOSED])
    assert stood.step(MAINTENANCE, needed=MEDIUM_GUEST) is Change.STRIP
    assert stood.labels == {MEDIUM: GROUP}


def test_a_node_that_is_closed_already_stays_so_as_it_is() -> None:
    stood = Stood(**OPEN_NODE, taints=[taint(keys.MACHINE_CLOSED, "by-hand", ago=60)])
    assert stood.look(MAINTENANCE, needed=MEDIUM_GUEST).patch is None
