"""What Machines and MachineNodePools say of themselves, and what of it must be written. Pure.

A status that says all this already is not written.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from autoscaler.api import conditions
from autoscaler.api import status as statuses
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine, MachineNodePool
from autoscaler.api.resources.base import Condition
from autoscaler.api.resources.machines import STATES_MAX, NodeCondition
from autoscaler.kube import objects
from autoscaler.machines.model import Usage
from autoscaler.machines.nodes import node_reports
from autoscaler.machines.nodes.node_reports import NodeReport
from autoscaler.machines.wanted_condition import Said

READY: Final = "Ready"
NODES_READY: Final = "NodesReady"
ROOM_MISSING: Final = "RoomMissing"
_MESSAGE_MAX: Final = 256
_SHOWN: Final = 5
"""So many types are named in a condition."""
_USAGE: Final = ("maximum", "reserved", "used", "waiting")


def machine(
    stored: objects.Custom[Machine], usage: Mapping[str, Usage], said: Mapping[str, Said], now: float
) -> Manifest:
    """Return what is to be written into a Machine's status, with usage by type; empty if it says all that."""
    before, offered = stored.resource.status, stored.resource.spec.machine_types
    of_types = {each.name: _usage(usage[each.name]) for each in offered if each.name in usage}
    wanted = {
        "conditions": _conditions(before.conditions, said, now),
        "availableMachines": [{"name": name, "usage": each} for name, each in of_types.items()],
        "total": {name: sum(each[name] for each in of_types.values()) for name in _USAGE},
    }
    return statuses.changes(before, wanted)


def node_pool(stored: objects.Custom[MachineNodePool], reports: Sequence[NodeReport], now: float) -> Manifest:
    """Return what is to be written into a MachineNodePool's status; empty if it says all that."""
    before, in_order = stored.resource.status, sorted(reports, key=lambda each: each.name)
    wanted = {
        "conditions": _conditions(before.conditions, {READY: node_reports.together(in_order)}, now),
        "nodePool": [_state(each) for each in in_order[:STATES_MAX]],
        "nodes": len(in_order),
        "readyNodes": sum(each.condition is NodeCondition.READY for each in in_order),
    }
    return statuses.changes(before, wanted)


def room(usage: Mapping[str, Usage], obstacles: Sequence[Said] = ()) -> Said:
    """Say whether all room is held that should be: that of every machine that no guest uses or waits for.

    `obstacles` are what else keeps the group from working, the gravest first.
    """
    if obstacles:
        message = "; ".join(each.message for each in obstacles)
        return Said(holds=False, reason=obstacles[0].reason, message=message)
    short = [_short(name, each) for name, each in sorted(usage.items()) if each.reserved < _to_hold(each)]
    if short:
        more = len(short) - _SHOWN
        said = [*short[:_SHOWN], *([f"and {more} more types"] if more > 0 else [])]
        return Said(holds=False, reason=ROOM_MISSING, message="; ".join(said))
    return Said(holds=True, reason="RoomHeld", message="room is held for all machines that no guest uses or waits for")


def _to_hold(usage: Usage) -> int:
    return max(0, usage.maximum - usage.used - usage.waiting)


def _short(name: str, usage: Usage) -> str:
    return f"{name}: room is held for {usage.reserved} of {_to_hold(usage)} machines that no guest uses or waits for"


def _usage(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in _USAGE}


def _state(report: NodeReport) -> Manifest:
    message = {"message": report.message[:_MESSAGE_MAX]} if report.message else {}
    return {"name": report.name, "condition": str(report.condition), **message}


def _conditions(before: Sequence[Condition], said: Mapping[str, Said], now: float) -> list[Manifest]:
    return [
        conditions.written(kind, holds=each.holds, reason=each.reason, message=each.message, before=before, now=now)
        for kind, each in said.items()
    ]
