"""Why a guest waits, computed anew from objects alone, so that anybody who may read them can ask. Pure.

It asks the same rules as the controller, and changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.api import keys
from autoscaler.api.resources.machines import NodeCondition
from autoscaler.kube import kinds, objects, selecting, shapes, store
from autoscaler.machines import decide
from autoscaler.machines.model import Guest, Node, Phase, Plan, Waiting
from autoscaler.machines.objects import pods
from autoscaler.machines.placement import why_waiting
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.state import assembling, views
from autoscaler.machines.state.known import Known, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one node of the guest's type says."""

    node: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a guest stands, as facts with names, and what each node of its type says."""

    title: str
    facts: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...] = ()


def of_guest(tables: Tables, pod: objects.Pod, now: float) -> Explanation | None:
    """Explain how a pod stands with its machine group; None: it is no guest."""
    name = pods.group_of(pod)
    if name is None or not pods.is_guest(pod):
        return None
    known = Known(tables, _namespace(tables.pods))
    seen = views.Views(tables, known)
    seen.refresh(now)
    group = assembling.Assembling(tables, known, seen, _namespace(tables.pods)).group(name)
    guest = group.guests.get(pod.meta.uid)
    title = f"Pod {pod.meta.key.namespace}/{pod.meta.key.name}, a guest of machine group {name}"
    if guest is None:
        return Explanation(title=title, facts=(("waits", why_waiting.outside(pod.meta.key.namespace)),))
    plan = decide.of_state(group, now=now)
    rows = () if guest.phase is Phase.BOUND else tuple(_rows(tables, seen, group, guest))
    return Explanation(title=title, facts=tuple(_facts(guest, plan)), rows=rows)


def _facts(guest: Guest, plan: Plan) -> Iterator[tuple[str, str]]:
    waiting: Waiting | None = next((each for each in plan.waiting if each.guest.uid == guest.uid), None)
    if waiting is not None:
        yield "waits", f"{waiting.reason}: {waiting.message}"
    else:
        yield "runs", f"on node {guest.node}" if guest.node else "nowhere: it is being deleted"
    usage = plan.usage.get(guest.type)
    if usage is not None:
        said = f"{usage.maximum} at most, {usage.used} used, {usage.reserved} held free, {usage.waiting} waited for"
        yield "machines", f"of type {guest.type}: {said}"
    if guest.promised is not None and guest.phase is not Phase.BOUND:
        yield "promised", f"node {guest.promised}"


def _rows(tables: Tables, seen: views.Views, group: GroupState, guest: Guest) -> Iterator[Row]:
    for name, report in sorted(seen.reports[group.name].items()):
        if guest.type not in report.types:
            continue
        node = group.nodes.get(name)
        if node is None or guest.type not in node.types or report.condition is not NodeCondition.READY:
            says = f"takes no guests: {report.message or 'it is in maintenance'}"
        elif name in guest.barred:
            says = _why_barred(tables, name, guest)
        else:
            says = _says(group, node, guest)
        yield Row(node=name, says=says)


def _why_barred(tables: Tables, node: str, guest: Guest) -> str:
    found, pod = tables.nodes.get(objects.Key("", node)), tables.pods.get(guest.key)
    taint = selecting.untolerated(found.taints, pod.shape.tolerations) if found and pod else None
    if taint is None:
        return "does not suit its node selector or affinity"
    value = f"={taint.value}" if taint.value else ""
    return f"has a taint that it does not tolerate: {taint.key}{value}:{taint.effect}"


def _says(group: GroupState, node: Node, guest: Guest) -> str:
    there = (each for each in group.sleepers.values() if each.is_open and each.node == node.name)
    held = sorted(f"{each.type} #{each.ordinal}" for each in there)
    room = _short(node, guest)
    said = f"has no room: {room}" if room else "has room"
    said += f"; sleepers hold room: {', '.join(held)}" if held else ""
    return f"{said}; the scheduler refused it there" if node.name in guest.tried else said


def _short(node: Node, guest: Guest) -> str:
    """Say which resources a node has too little of."""
    free = {name: node.allocatable.get(name, 0) - node.used.get(name, 0) for name in guest.requests}
    short = [name for name, amount in guest.requests.items() if amount > free[name]]
    return ", ".join(f"{name} {_of(name, free[name], guest.requests[name])}" for name in sorted(short))


def _of(resource: str, free: int, needed: int) -> str:
    return f"{shapes.worded(resource, max(0, free))} free, {shapes.worded(resource, needed)} needed"


def _namespace(table: store.Table[objects.Pod]) -> str:
    """Return where sleepers are: only the runtime's namespace has any."""
    for pod in table:
        owner = pod.meta.controller
        is_set = owner is not None and owner.kind == kinds.STATEFUL_SETS.kind
        if is_set and pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION:
            return pod.meta.key.namespace
    return ""
