"""What Machines and MachineNodePools say of themselves."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine, MachineNodePool
from autoscaler.api.resources.machines import NodeCondition
from autoscaler.kube import objects
from autoscaler.machines.model import Usage
from autoscaler.machines.nodes import node_reports, node_views
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.nodes.node_reports import NodeReport, Problem
from autoscaler.machines.nodes.node_views import Machines
from autoscaler.machines.objects import node_pools
from autoscaler.machines.reporting import status
from autoscaler.machines.wanted_condition import Said
from tests.autoscaler.machines.node_builders import (
    GROUP,
    MEDIUM,
    NOW,
    READY,
    child,
    entry,
    machine,
    machine_manifest,
    machine_type,
    node,
)

FINE = Said(holds=True, reason="NodesReady", message="1 node takes guests")
MARKED: dict[str, Any] = {"labels": {MEDIUM: GROUP, **READY}, "annotations": {keys.MACHINE_GROUP: GROUP}}
MEDIUM_GUEST = frozenset({GroupType(GROUP, "medium")})


def usage(maximum: int = 4, reserved: int = 0, used: int = 0, waiting: int = 0) -> Usage:
    return Usage(maximum=maximum, reserved=reserved, used=used, waiting=waiting)


def report(
    *machines: objects.Custom[Machine],
    group: str = GROUP,
    seen: objects.Node | None = None,
    needed: frozenset[GroupType] = frozenset(),
) -> NodeReport | None:
    view = node_views.look(Machines.of(machines or [machine()]), "a", seen, needed=needed, now=NOW)
    return node_reports.of(view, group)


def pool(reports: Sequence[NodeReport] = (), **written: Any) -> Manifest:
    made = {**node_pools.wanted(machine()), "status": written}
    return status.node_pool(objects.custom(MachineNodePool)(msgspec.json.encode(made)), reports, NOW)


@pytest.mark.accept("M7", part="what is said of a node")
@pytest.mark.parametrize(
    ("seen", "mode", "condition", "problem", "message"),
    [
        (node(**MARKED), "ready", NodeCondition.READY, None, ""),
        (node(), "ready", NodeCondition.NOT_READY, Problem.NOT_MARKED, "its labels are being written"),
        (node(ready=False), "ready", NodeCondition.NOT_READY, Problem.UNHEALTHY, "it is not Ready"),
        (node(cordoned=True), "ready", NodeCondition.NOT_READY, Problem.UNHEALTHY, "it is cordoned"),
        (None, "ready", NodeCondition.NOT_READY, Problem.MISSING, "it is missing"),
        (node(), "maintenance", NodeCondition.MAINTENANCE, None, ""),
        (node(ready=False), "maintenance", NodeCondition.MAINTENANCE, None, ""),
        (None, "maintenance", NodeCondition.MAINTENANCE, None, ""),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_nodes_condition_follows_its_mode_and_health(
    seen: objects.Node | None, mode: str, condition: NodeCondition, problem: Problem | None, message: str
) -> None:
    want = NodeReport(name="a", condition=condition, problem=problem, message=message)
    assert report(machine(GROUP, entry(mode=mode)), seen=seen) == want


@pytest.mark.accept("M1", part="the later claimant is told")
@pytest.mark.parametrize("mode", ["ready", "maintenance"])
def test_the_later_claimant_says_whose_the_node_is_and_the_other_does_not_mind(mode: str) -> None:
    both = machine(GROUP, age=20), machine("young", entry(mode=mode), age=10)
    told = report(*both, group="young", seen=node(**MARKED))
    assert told is not None
    assert (told.problem, told.message) == (Problem.OTHER_GROUP, "it belongs to machine group general")
    assert report(*both, seen=node(**MARKED)) == NodeReport(name="a", condition=NodeCondition.READY)


@pytest.mark.accept("M1", part="a node that has not been released yet is told")
def test_a_node_that_old_guests_keep_closed_says_whose_they_are() -> None:
    told = report(machine(GROUP, entry(type_="large")), seen=node(**MARKED), needed=MEDIUM_GUEST)
    assert told is not None
    want = (NodeCondition.NOT_READY, Problem.NOT_RELEASED, "guests of medium of group general still run there")
    assert (told.condition, told.problem, told.message) == want


@pytest.mark.accept("M9", part="hostLimit")
def test_a_type_that_takes_too_much_of_a_node_is_a_problem_of_it() -> None:
    types = [machine_type(cpu="4", hostLimit=40), child("half")]
    labels = {keys.machine_label("half"): GROUP, **READY}
    told = report(machine(GROUP, types=types), seen=node(labels=labels, annotations=MARKED["annotations"]))
    message = "one medium would take 50 % of the node's cpu, and its hostLimit is 40 %"
    assert told == NodeReport(name="a", condition=NodeCondition.READY, problem=Problem.HOST_LIMIT, message=message)
    alone = report(machine(GROUP, types=types[:1]), seen=node())
    assert alone == NodeReport(name="a", condition=NodeCondition.NOT_READY, problem=Problem.HOST_LIMIT, message=message)


@pytest.mark.accept("M7", part="what is said of a node")
def test_a_node_that_a_group_does_not_ask_for_is_not_in_its_status() -> None:
    assert report(machine(GROUP, entry("b")), seen=node()) is None


def said_of(*problems: Problem | None) -> Said:
    return node_reports.together(
        [
            NodeReport(
                name=f"n{place}",
                condition=NodeCondition.NOT_READY if problem else NodeCondition.READY,
                problem=problem,
                message=str(problem or ""),
            )
            for place, problem in enumerate(problems)
        ]
    )


def test_the_gravest_problem_is_the_reason_and_all_are_named() -> None:
    got = said_of(Problem.UNHEALTHY, None, Problem.OTHER_GROUP)
    message = "node n2: NodeOfAnotherGroup; node n0: NodeNotReady"
    assert got == Said(holds=False, reason="NodeOfAnotherGroup", message=message)


def test_many_nodes_are_not_all_named() -> None:
    got = said_of(*[Problem.MISSING] * 7)
    assert got.message.count("node n") == 5
    assert got.message.endswith("; and 2 nodes more")


def test_nodes_that_rest_are_no_problem() -> None:
    resting = NodeReport(name="b", condition=NodeCondition.MAINTENANCE)
    got = node_reports.together([NodeReport(name="a", condition=NodeCondition.READY), resting])
    assert got == Said(holds=True, reason="NodesReady", message="1 node takes guests; 1 node in maintenance")
    assert node_reports.together([]) == Said(holds=False, reason="NoNodes", message="the group has no nodes")


@pytest.mark.accept("M7", part="what is said of a node")
def test_a_machine_node_pool_lists_its_nodes_by_name_with_their_conditions() -> None:
    reports = [
        NodeReport(name="utaha", condition=NodeCondition.MAINTENANCE),
        NodeReport(name="eriri", condition=NodeCondition.NOT_READY, problem=Problem.MISSING, message="it is missing"),
        NodeReport(name="michiru", condition=NodeCondition.READY),
    ]
    got = pool(reports)
    assert got["nodePool"] == [
        {"name": "eriri", "condition": "NotReady", "message": "it is missing"},
        {"name": "michiru", "condition": "Ready"},
        {"name": "utaha", "condition": "Maintenance"},
    ]
    assert (got["nodes"], got["readyNodes"]) == (3, 1)
    (ready,) = got["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "NodeMissing")
    assert ready["message"] == "node eriri: it is missing"
    assert pool(reports, **got) == {}
    assert pool(reports[:1] + reports[2:], **got).keys() == {"nodePool", "nodes", "conditions"}


def test_a_machine_node_pool_without_a_ready_node_says_that_there_is_none() -> None:
    got = pool([NodeReport(name="eriri", condition=NodeCondition.NOT_READY, problem=Problem.MISSING)])
    assert (got["nodes"], got["readyNodes"]) == (1, 0)


def test_a_status_never_has_more_nodes_than_the_definition_allows() -> None:
    many = [NodeReport(name=f"n{place:05}", condition=NodeCondition.READY) for place in range(5001)]
    got = pool(many)
    assert (len(got["nodePool"]), got["nodes"], got["readyNodes"]) == (5000, 5001, 5001)


def machine_status(counted: dict[str, Usage], **written: Any) -> Manifest:
    stored = objects.custom(Machine)(msgspec.json.encode(machine_manifest(status=written or None)))
    said = {status.READY: status.room(counted), status.NODES_READY: FINE}
    return status.machine(stored, counted, said, NOW)


@pytest.mark.accept("M10", part="what is said of it")
def test_usage_is_written_by_type_and_in_total() -> None:
    counted = {"large": usage(2, reserved=1, waiting=1), "medium": usage(4, reserved=3, used=1)}
    got = machine_status(counted)
    assert got["availableMachines"] == [
        {"name": "medium", "usage": {"maximum": 4, "reserved": 3, "used": 1, "waiting": 0}},
        {"name": "large", "usage": {"maximum": 2, "reserved": 1, "used": 0, "waiting": 1}},
    ]
    assert got["total"] == {"maximum": 6, "reserved": 4, "used": 1, "waiting": 1}
    assert [(each["type"], each["status"]) for each in got["conditions"]] == [("Ready", "True"), ("NodesReady", "True")]


@pytest.mark.accept("M13", part="statuses")
def test_nothing_is_written_where_the_status_says_all_that() -> None:
    counted = {"large": usage(), "medium": usage(reserved=4)}
    got = machine_status(counted)
    assert machine_status(counted, **got) == {}
    assert machine_status({**counted, "medium": usage(used=4)}, **got).keys() == {"availableMachines", "total"}


@pytest.mark.accept("M10", part="what is said of it")
@pytest.mark.parametrize(
    ("counted", "want"),
    [
        (usage(4, reserved=4), True),
        (usage(4, reserved=3), False),
        (usage(4, reserved=3, used=1), True),
        (usage(4, reserved=2, used=1, waiting=1), True),
        (usage(4, used=3, waiting=5), True),
    ],
    ids=str,
)
def test_a_machine_is_ready_while_all_room_is_held_that_should_be(counted: Usage, want: bool) -> None:  # noqa: FBT001
    assert status.room({"medium": counted}).holds is want


def test_missing_room_is_said_with_the_numbers() -> None:
    got = status.room({"b": usage(4, reserved=1, used=1), "a": usage(2, reserved=2), "c": usage(1)})
    message = (
        "b: room is held for 1 of 3 machines that no guest uses or waits for; "
        "c: room is held for 0 of 1 machines that no guest uses or waits for"
    )
    assert got == Said(holds=False, reason="RoomMissing", message=message)


def test_of_many_types_without_room_the_first_are_named() -> None:
    got = status.room({f"t{number}": usage(1) for number in range(7)})
    assert got.message.endswith(
        "t4: room is held for 0 of 1 machines that no guest uses or waits for; and 2 more types"
    )


def test_what_keeps_a_group_from_working_is_said_first() -> None:
    obstacles = [Said(holds=False, reason="NameTaken", message="a"), Said(holds=False, reason="Other", message="b")]
    assert status.room({"a": usage(1)}, obstacles) == Said(holds=False, reason="NameTaken", message="a; b")
