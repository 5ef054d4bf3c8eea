"""Of groups that pull nodes, gated guests and sleepers are demand as far as there are machines; their nodes stay."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import decide
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.model import Policy
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.scaledown import emptiness
from autoscaler.capacity.scaleup import machine_demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import machine_groups as made
from tests.autoscaler.capacity import seen

OPEN: tuple[dict[str, str], ...] = ()
IDLE = Reason.IDLE.value
GOING = {"deletionTimestamp": seen.STAMP}
pytestmark = pytest.mark.accept("M15", part="what pulls nodes and keeps them")


def snapshot(*pods: objects.Pod, available: int = 2, provision: bool = True, **more: Any) -> Snapshot:
    spec = made.spec(made.machine_type(available=available), provision=provision)
    return seen.snapshot(pods=pods, machines={made.GROUP: spec}, namespaces=made.NAMESPACES, home=made.HOME, **more)


def waiting(*pods: objects.Pod, **more: Any) -> list[str]:
    return [pod.meta.key.name for pod in machine_demand.waiting(snapshot(*pods, **more))]


def sleepers(gated: int = 0, held: int = 0) -> list[objects.Pod]:
    return [
        *(made.sleeper(f"held-{number}", node="n") for number in range(held)),
        *(made.sleeper(f"s-{number}") for number in range(gated)),
    ]


@pytest.mark.parametrize(
    ("gated", "held", "guests", "available", "want"),
    [
        (2, 0, 0, 2, ["s-0", "s-1"]),
        (1, 1, 0, 2, ["s-0"]),
        (0, 2, 0, 2, []),
        (3, 0, 0, 2, ["s-0", "s-1"]),  # the StatefulSet is yet to shrink
        (1, 1, 1, 2, ["s-0"]),  # the guest takes the room that is held
        (2, 0, 1, 2, ["g-0", "s-0"]),
        (2, 1, 2, 3, ["g-1", "s-0"]),
        (2, 0, 4, 2, ["g-0", "g-1"]),
        (0, 2, 4, 2, []),  # who has no machine left waits
        (3, 0, 0, 0, []),
    ],
)
def test_demand_is_what_should_be_open_and_has_no_room(
    gated: int, held: int, guests: int, available: int, want: list[str]
) -> None:
    arrived = [made.guest(f"g-{number}") for number in range(guests)]
    assert waiting(*sleepers(gated, held), *arrived, available=available) == want


def test_groups_that_do_not_pull_nodes_have_no_demand() -> None:
    assert waiting(*sleepers(2), made.guest("g"), provision=False) == []


@pytest.mark.parametrize(
    "guest",
    [
        made.guest("g", node="n"),
        made.guest("g", gates=OPEN),  # the scheduler says whether there is room for it
        made.guest("g", node="n", metadata=GOING),  # terminating: it has its machine until it is gone
    ],
    ids=["bound", "open", "terminating"],
)
def test_guests_that_are_open_count_against_the_number_of_machines(guest: objects.Pod) -> None:
    assert waiting(*sleepers(2), guest) == ["s-0"]
    assert waiting(guest, made.guest("one"), made.guest("two")) == ["one"]


@pytest.mark.parametrize(
    "guest",
    [
        made.guest("g", gates=(*made.GATED, {"name": keys.ADMISSION_GATE})),
        made.guest("g", gates=(*made.GATED, {"name": keys.PLACEMENT_GATE})),  # its zone comes first
        made.guest("g", schedulerName="volcano"),
        made.guest("g", metadata=GOING),
    ],
    ids=["no quota yet", "no zone yet", "foreign scheduler", "being deleted"],
)
def test_guests_that_cannot_be_opened_now_are_no_demand_and_still_wait(guest: objects.Pod) -> None:
    assert waiting(guest) == []
    assert waiting(*sleepers(2), guest) == ["s-0"]  # machines are kept for who waits


@pytest.mark.parametrize(
    "stranger",
    [
        made.guest("g", namespace="elsewhere"),
        made.guest("g", kind=("other", made.TYPE)),
        made.guest("g", kind=(made.GROUP, "other")),
        made.guest("g", status={"phase": "Succeeded"}),
    ],
    ids=["namespace without guests", "other group", "other type", "ended"],
)
def test_who_is_no_guest_of_the_type_does_not_count(stranger: objects.Pod) -> None:
    assert waiting(*sleepers(2), stranger) == ["s-0", "s-1"]


def test_the_oldest_guests_come_first() -> None:
    old = made.guest("z", metadata={"creationTimestamp": "2025-12-31T23:00:00Z"})
    new = made.guest("a", metadata={"creationTimestamp": "2025-12-31T23:59:00Z"})
    assert waiting(new, old, available=1) == ["z"]


def test_a_sleeper_that_goes_holds_no_room() -> None:
    going = made.sleeper("going", node="n", metadata=GOING)
    assert waiting(*sleepers(2), going) == ["s-0", "s-1"]
    assert machine_demand.kept_nodes(snapshot(going)) == frozenset()


def planned(*pods: objects.Pod, **more: Any) -> Plan:
    """Plan with one group of nodes of the group's pool."""
    labels = {keys.INSTANCE_POOL: "workers"}
    group = seen.group(desired=0, node=cloud.NodeTemplate(labels=labels))
    return decide.decide(snapshot(*pods, groups=(group,), **more), Policy())


def test_gated_sleepers_start_nodes_that_will_have_the_labels_they_ask_for() -> None:
    expressions = [
        {"key": keys.machine_label(made.TYPE), "operator": "In", "values": [made.GROUP]},
        {"key": keys.NODE_POOL, "operator": "In", "values": [keys.NODE_POOL_READY]},
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    plan = planned(made.sleeper("s-0", affinity=affinity), made.sleeper("s-1", affinity=affinity))
    assert [(launch.before, launch.after) for launch in plan.launches] == [(0, 1)]
    assert plan.landed == {}  # nobody has looked at them: they teach nothing


def idle_world(*pods: objects.Pod, **more: Any) -> Snapshot:
    pools = {"workers": seen.pool(limits={"maxIdleSeconds": 60, **more.pop("limits", {})})}
    groups = (seen.group("i-1"),)
    return snapshot(*pods, groups=groups, nodes=[seen.node("n", instance="i-1")], pools=pools, **more)


def removed(world: Snapshot) -> list[str]:
    idle = emptiness.idle_since(world, {"n": seen.NOW - 100})
    return [each.reason.value for each in emptiness.choose(world, idle, frozenset()).removals]


def test_room_that_is_held_keeps_a_node_only_for_groups_that_pull_nodes() -> None:
    held = made.sleeper("s", node="n")
    assert removed(idle_world(held)) == []
    assert removed(idle_world(held, provision=False)) == removed(idle_world()) == [IDLE]
    assert removed(idle_world(made.sleeper("s", node="other"))) == [IDLE]
    assert emptiness.choose(idle_world(held), {"n": seen.NOW - 1}, frozenset()).wake_at is None


def test_room_that_is_held_keeps_no_node_beyond_limits_nor_one_that_is_outdated_or_leaves() -> None:
    held = made.sleeper("s", node="n")
    assert removed(idle_world(held, limits={"maxActiveInstances": 0})) == [Reason.OVER_LIMIT.value]
    assert removed(idle_world(held, outdated=frozenset({"i-1"}))) == [Reason.OUTDATED.value]
    assert removed(idle_world(held, leaving={"workers": seen.NOW})) == [Reason.LEAVING.value]
