"""What is told about a Machine's nodes."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.kube import objects
from autoscaler.machines.nodes import node_views
from autoscaler.machines.nodes.claims import GroupType
from autoscaler.machines.nodes.node_views import Machines
from autoscaler.machines.reporting import event_messages
from autoscaler.machines.reporting.event_messages import Told
from autoscaler.machines.wanted_condition import Said
from tests.autoscaler.machines.node_builders import (
    GROUP,
    MEDIUM,
    NOW,
    READY,
    entry,
    machine,
    machine_manifest,
    machine_type,
    node,
    taint,
)

OURS: dict[str, Any] = {"labels": {MEDIUM: GROUP, **READY}, "annotations": {keys.MACHINE_GROUP: GROUP}}
OTHER = machine("other", age=10)


def told(seen: objects.Node, *machines: Any, **known: Any) -> Told | None:
    view = node_views.look(Machines.of(machines), "a", seen, **{"needed": frozenset(), "now": NOW, **known})
    return event_messages.of_marks(view)


def test_a_node_that_begins_to_take_guests_is_told() -> None:
    want = Told(group=GROUP, reason="NodeOpened", message="node a takes guests of medium")
    assert told(node(), machine()) == want


@pytest.mark.parametrize(
    ("seen", "machines", "why", "is_warning"),
    [
        (node(**OURS), [], "it does not belong to the group any more", False),
        (node(**OURS), [OTHER], "it belongs to machine group other", False),
        (node(**OURS), [machine(GROUP, entry(mode="maintenance"))], "it is in maintenance", False),
        (node(**OURS, ready=False), [machine()], "it is not Ready", True),
        (node(**OURS), [machine(GROUP, entry(type_="large"))], "it is to serve large from now on", False),
        (
            node(**OURS),
            [machine(GROUP, types=[machine_type(cpu="4", hostLimit=10)])],
            "one medium would take 50 % of the node's cpu, and its hostLimit is 10 %",
            False,
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_node_that_is_closed_is_told_with_the_reason(
    seen: objects.Node,
    machines: list[Any],
    why: str,
    is_warning: bool,  # noqa: FBT001
) -> None:
    message = f"node a takes no more guests: {why}"
    want = Told(group=GROUP, reason="NodeClosed", message=message, is_warning=is_warning)
    assert told(seen, *machines, needed=frozenset({GroupType(GROUP, "medium")})) == want


def test_a_node_that_has_left_is_told() -> None:
    gone = node(annotations={keys.MACHINE_GROUP: GROUP}, taints=[taint(keys.MACHINE_CLOSED, GROUP, ago=60)])
    want = "node a has left the group, and carries nothing of it any more"
    assert told(gone) == Told(group=GROUP, reason="NodeLeft", message=want)


def test_what_is_only_put_right_is_not_told() -> None:
    assert told(node(**OURS, taints=[taint(MEDIUM, GROUP)]), machine()) is None
    assert told(node(**OURS), machine()) is None


def condition(status: str, reason: str) -> Any:
    written = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    made = machine_manifest(status={"conditions": [written]})
    return type(machine().resource).model_validate(made).status.conditions


@pytest.mark.parametrize(
    ("before", "said", "want"),
    [
        ((), Said(holds=True, reason="RoomHeld", message="m"), False),
        ((), Said(holds=False, reason="RoomMissing", message="m"), True),
        (condition("True", "RoomHeld"), Said(holds=True, reason="RoomHeld", message="other"), False),
        (condition("True", "RoomHeld"), Said(holds=False, reason="RoomMissing", message="m"), True),
        (condition("False", "RoomMissing"), Said(holds=False, reason="RoomMissing", message="other"), False),
        (condition("False", "RoomMissing"), Said(holds=False, reason="NameTaken", message="m"), True),
        (condition("False", "RoomMissing"), Said(holds=True, reason="RoomHeld", message="m"), True),
    ],
)
def test_a_condition_is_told_when_it_changes_or_its_reason_does(before: Any, said: Said, want: bool) -> None:  # noqa: FBT001
    got = event_messages.of_condition(GROUP, before, "Ready", said)
    assert got == (Told(group=GROUP, reason=said.reason, message="m", is_warning=not said.holds) if want else None)
