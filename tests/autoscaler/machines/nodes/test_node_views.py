"""How one node stands with all Machines: claims, hostLimit, health and marks together."""

import pytest

from autoscaler.api import keys
from autoscaler.machines.nodes import node_views
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.nodes.node_health import Trouble
from autoscaler.machines.nodes.node_views import Machines
from tests.autoscaler.machines.node_builders import GROUP, MEDIUM, NOW, READY, child, entry, machine, machine_type, node

NOBODY: frozenset[GroupType] = frozenset()


def test_a_node_that_nobody_asks_for_is_left_alone() -> None:
    view = node_views.look(Machines.of([machine()]), "b", node("b"), needed=NOBODY, now=NOW)
    assert (view.owner, view.types, view.held_by) == (None, (), None)
    assert view.marks is not None
    assert view.marks.patch is None


@pytest.mark.accept("M9", part="hostLimit")
def test_a_type_that_would_take_too_much_gets_no_label_there() -> None:
    types = [machine_type(cpu="4", memory="1Gi", hostLimit=40), child("half", ratio=50)]
    machines = Machines.of([machine(GROUP, entry("a"), entry("b"), types=types)])
    small = node_views.look(machines, "a", node("a"), needed=NOBODY, now=NOW)
    assert [each.type for each in small.refusals] == ["medium"]
    assert small.types == ("half",)
    assert small.marks is not None
    assert small.marks.patch is not None
    assert small.marks.patch["metadata"]["labels"] == {keys.machine_label("half"): GROUP, **READY}
    large = node("b", allocatable={"cpu": "10", "memory": "8Gi"})
    assert node_views.look(machines, "b", large, needed=NOBODY, now=NOW).types == ("medium", "half")


@pytest.mark.accept("M13", part="marks of a node")
def test_a_missing_node_is_no_failure_and_one_of_its_name_is_marked_when_it_comes() -> None:
    machines = Machines.of([machine()])
    missing = node_views.look(machines, "a", None, needed=NOBODY, now=NOW)
    assert (missing.trouble, missing.marks) == (Trouble.MISSING, None)
    made_again = node_views.look(machines, "a", node("a"), needed=NOBODY, now=NOW)
    assert made_again.marks is not None
    assert made_again.marks.patch == {
        "metadata": {"labels": {MEDIUM: GROUP, **READY}, "annotations": {keys.MACHINE_GROUP: GROUP}}
    }


@pytest.mark.accept("M12", part="types of a deleted Machine keep no node closed")
def test_types_of_a_machine_that_is_being_deleted_are_not_offered() -> None:
    machines = Machines.of([machine("general"), machine("other", deleted=True)])
    assert machines.offered == {GroupType("general", "medium"), GroupType("general", "large")}


def test_a_node_says_which_group_it_was_marked_for() -> None:
    left = node("b", annotations={keys.MACHINE_GROUP: "old"})
    assert node_views.look(Machines.of([]), "b", left, needed=NOBODY, now=NOW).held_by == "old"
