"""Instances for one pod each: where they stand, who gets them, and that none of them ever serves two."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.resources.types import Taint, TaintEffect
from autoscaler.capacity import decide, model
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.scaleup import demand, ephemeral, missed_placements, supply, templates
from autoscaler.capacity.snapshot import Stand, Standing
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen


def node(name: str = "node", kept_for: str = keys.RESERVED_FOR_NONE, **more: Any) -> objects.Node:
    taint = {"key": keys.RESERVED_FOR, "value": kept_for, "effect": "NoSchedule"}
    return seen.node(name, taints=[taint], **{"instance": f"i-{name}", **more})


def let_on(uid: str) -> list[dict[str, str]]:
    return [{"key": keys.RESERVED_FOR, "operator": "Equal", "value": uid, "effect": "NoSchedule"}]


ANYWHERE = [{"operator": "Exists"}]
DELETED = {"deletionTimestamp": seen.STAMP}


@pytest.mark.parametrize(
    ("kept_for", "pods", "want"),
    [
        ("none", [], Standing.FREE),
        ("none", [seen.pod("p")], Standing.FREE),
        ("p", [seen.pod("p")], Standing.HELD),
        ("p", [seen.pod("p", node="node")], Standing.BUSY),
        ("p", [seen.pod("p", node="node", metadata=DELETED)], Standing.BUSY),
        ("p", [seen.pod("p", node="node", status={"phase": "Failed"})], Standing.SPENT),
        ("p", [], Standing.SPENT),
        ("gone", [], Standing.VACANT),
        ("p", [seen.pod("p", node="other")], Standing.VACANT),
        ("p", [seen.pod("p", node="other", status={"phase": "Succeeded"})], Standing.VACANT),
        ("p", [seen.pod("p", metadata=DELETED)], Standing.VACANT),
        ("p", [seen.pod("p", status={"phase": "Failed"})], Standing.VACANT),
        ("none", [seen.pod("stranger", node="node")], Standing.TAKEN),
        ("p", [seen.pod("p"), seen.pod("stranger", node="node")], Standing.TAKEN),
        ("gone", [seen.pod("stranger", node="node")], Standing.TAKEN),
        ("p", [seen.pod("p", node="node"), seen.pod("stranger", node="node")], Standing.BUSY),
        ("p", [seen.pod("stranger", node="node")], Standing.SPENT),
        ("none", [seen.pod("daemon", node="node", owner="DaemonSet")], Standing.FREE),
        ("none", [seen.pod("system", node="node", tolerations=ANYWHERE)], Standing.FREE),
    ],
)
def test_where_an_instance_stands(kept_for: str, pods: list[objects.Pod], want: Standing) -> None:
    (stand,) = ephemeral.stands([node(kept_for=kept_for)], pods, frozenset({"gone"}))
    assert stand.standing is want


def test_other_nodes_stand_nowhere() -> None:
    assert ephemeral.stands([seen.node()], [seen.pod("p", node="node")]) == ()


def test_an_instance_that_was_taken_names_the_oldest_who_is_there() -> None:
    pods = [
        seen.pod("late", node="node", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"}),
        seen.pod("early", node="node", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    (stand,) = ephemeral.stands([node()], pods)
    assert stand.pod is not None
    assert stand.pod.meta.key.name == "early"


def landed(pods: list[objects.Pod], *rooms: str) -> missed_placements.Landed:
    return {like: frozenset(rooms) for like in demand.waiting(pod_index.indexed(pods))}


def claimed(pods: list[objects.Pod], nodes: list[objects.Node], *rooms: str) -> dict[str, str]:
    return {each.node.meta.key.name: each.pod.meta.key.name for each in planned(pods, nodes, *rooms).given}


def planned(pods: list[objects.Pod], nodes: list[objects.Node], *rooms: str, **unbound: objects.Pod) -> ephemeral.Plan:
    stands = ephemeral.doubted(ephemeral.stands(nodes, pods, frozenset({"gone"})), unbound)
    return ephemeral.decide(seen.snapshot(pods=pods, nodes=nodes, stands=stands), landed(pods, *rooms))


def test_the_oldest_pods_get_the_instances_that_the_plan_sees_them_on() -> None:
    pods = [
        seen.pod(name, metadata={"creationTimestamp": f"2026-01-0{day}T00:00:00Z"})
        for name, day in (("c", 1), ("a", 2), ("b", 3))
    ]
    nodes = [node("n-1"), node("n-2"), node("n-3"), seen.node("plain")]
    assert claimed(pods, nodes, "n-1", "n-2", "plain") == {"n-1": "c", "n-2": "a"}


def test_only_free_instances_are_given_away() -> None:
    pods = [seen.pod("a"), seen.pod("b"), seen.pod("stranger", node="taken")]
    nodes = [node("held", "b"), node("spent", "went"), node("taken")]
    assert claimed(pods, nodes, "held", "spent", "taken") == {}


def test_what_goes_anywhere_needs_no_claim() -> None:
    assert claimed([seen.pod("system", tolerations=ANYWHERE)], [node()], "node") == {}


def test_pods_that_differ_never_get_the_same_instance_though_both_fit() -> None:
    pods = [seen.pod("small"), seen.pod("large", cpu="2")]
    assert len(claimed(pods, [node()], "node")) == 1


def test_what_goes_back_is_planned_with_who_gets_it_then() -> None:
    found = planned([seen.pod("next")], [node(kept_for="gone")], "node")
    assert [each.kept_for for each in found.corrected] == [keys.RESERVED_FOR_NONE]
    assert [ephemeral.holder(each.node) for each in found.given] == [keys.RESERVED_FOR_NONE]


def test_a_pod_that_is_gone_is_asked_about_before_its_instance_is_given_up() -> None:
    vanished, nodes = seen.pod("p"), [node(kept_for="p")]
    assert planned([], nodes, p=vanished).asked == (vanished,)
    assert ephemeral.spent(ephemeral.doubted(ephemeral.stands(nodes, []), {"p": vanished})) == frozenset()
    assert planned([], nodes).asked == ()
    assert ephemeral.spent(ephemeral.stands(nodes, [])) == {"i-node"}


def test_whoever_took_an_instance_has_it_from_then_on() -> None:
    found = planned([seen.pod("stranger", node="node")], [node()])
    assert [each.kept_for for each in found.corrected] == ["stranger"]


def test_who_has_an_instance_and_no_toleration_is_found() -> None:
    pods = [seen.pod("a"), seen.pod("b", tolerations=let_on("b")), seen.pod("c", tolerations=let_on("other"))]
    nodes = [node("n-1", "a"), node("n-2", "b"), node("n-3", "c")]
    found = list(ephemeral.promised(ephemeral.stands(nodes, pods)))
    assert [each.pod.meta.key.name for each in found] == ["a", "c"]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (seen.pod("left", node="node", owner="ReplicaSet", tolerations=ANYWHERE), {"left"}),
        (seen.pod("going", node="node", owner="ReplicaSet", tolerations=ANYWHERE, metadata=DELETED), {"going"}),
        (seen.pod("ends", node="node", owner="Job", tolerations=ANYWHERE), set()),
        (seen.pod("ended", node="node", owner="ReplicaSet", tolerations=ANYWHERE, status={"phase": "Failed"}), set()),
        (seen.pod("daemon", node="node", owner="DaemonSet", tolerations=ANYWHERE), set()),
        (seen.pod("work", node="node", owner="ReplicaSet"), set()),
        (seen.pod("elsewhere", node="other", owner="ReplicaSet", tolerations=ANYWHERE), set()),
    ],
    ids=lambda pod: pod.meta.key.name if isinstance(pod, objects.Pod) else "",
)
def test_only_what_could_be_anywhere_must_leave_a_spent_instance(pod: objects.Pod, want: set[str]) -> None:
    spent = frozenset({cloud.InstanceId("i-node")})
    there: dict[str, Any] = {
        "pods": [pod],
        "nodes": [node(), node("other")],
        "groups": (seen.group("i-node", "i-other"),),
    }
    found = ephemeral.leftovers(seen.snapshot(**there, spent=spent))
    assert found == ({objects.Key("", "node"): want} if want else {})
    assert ephemeral.leftovers(seen.snapshot(**there)) == {}


# What plans make of it

TAINT = Taint(key=keys.RESERVED_FOR, value=keys.RESERVED_FOR_NONE, effect=TaintEffect.NO_SCHEDULE)


def group(*instances: str, **more: Any) -> cloud.NodeGroup:
    return seen.group(*instances, node=cloud.NodeTemplate(taints=(TAINT,)), **more)


def test_a_free_instance_is_room_for_one_and_one_that_is_kept_for_its_pod_alone() -> None:
    free, kept = supply.rooms(seen.snapshot(nodes=[node("free"), node("kept", "p")]))
    assert (free.free["pods"], free.taints) == (1, ())
    assert (kept.free["pods"], [taint.value for taint in kept.taints]) == (1, ["p"])


def test_an_instance_with_its_pod_is_full_and_what_every_node_runs_does_not_count() -> None:
    pods = [seen.pod("daemon", node="node", owner="DaemonSet"), seen.pod("p", node="busy")]
    room, busy = supply.rooms(seen.snapshot(pods=pods, nodes=[node(), node("busy", "p")]))
    assert (room.free["pods"], busy.free["pods"]) == (1, 0)


def test_an_instance_to_come_is_planned_without_the_taint_and_with_room_for_one() -> None:
    daemon = seen.pod("daemon", tolerations=[{"key": keys.RESERVED_FOR, "operator": "Exists"}]).shape
    made = templates.of(seen.snapshot(daemons=(daemon,)), group())
    assert made is not None
    assert (made.taints, made.allocatable["pods"], made.allocatable["cpu"]) == ((), 1, 3920 - 1000)


def launched(pods: list[objects.Pod], *nodes: objects.Node) -> int:
    there = group(*(f"i-{each.meta.key.name}" for each in nodes))
    plan = decide.decide(seen.snapshot(pods=pods, nodes=nodes, groups=(there,)), model.Policy())
    return sum(launch.after - launch.before for launch in plan.launches)


@pytest.mark.parametrize(
    ("pods", "nodes", "want"),
    [
        ([seen.pod(name, cpu="100m") for name in "abc"], [], 3),
        ([seen.pod(name, cpu="100m") for name in "abc"], [node()], 2),
        ([seen.pod("a", tolerations=let_on("a"))], [node(kept_for="a")], 0),
        ([seen.pod("a"), seen.pod("b", tolerations=let_on("b"))], [node(kept_for="b")], 1),
        ([seen.pod("a")], [node(kept_for="gone")], 1),
    ],
    ids=["none there", "one free", "its own", "another's", "spent"],
)
def test_as_many_instances_are_started_as_pods_have_none(
    pods: list[objects.Pod], nodes: list[objects.Node], want: int
) -> None:
    assert launched(pods, *nodes) == want


# Never two pods for one instance


@dataclass
class Cluster:
    """What is true, what we know of it, and how pods, the scheduler and we change it, one step at a time."""

    pods: dict[str, objects.Pod] = field(default_factory=dict)
    kept_for: dict[str, tuple[str, int]] = field(default_factory=lambda: {"n-1": ("none", 0), "n-2": ("none", 0)})
    """What each node's taint says, and how often it was written."""
    tolerates: set[str] = field(default_factory=set)
    had: dict[str, set[str]] = field(default_factory=lambda: {"n-1": set(), "n-2": set(), "static": set()})
    """Which pods each node ever had."""
    seen_pods: dict[str, objects.Pod] = field(default_factory=dict)
    seen_nodes: dict[str, tuple[str, int]] = field(default_factory=dict)
    unbound: set[str] = field(default_factory=set)
    """Pods that have instances and that we, in this life, saw without a node."""
    never: set[str] = field(default_factory=set)
    """Pods of which we, in this life, found out that they never had a node."""
    made: int = 0

    def arrive(self, _: int) -> None:
        self.made += 1
        self.pods[f"p-{self.made}"] = seen.pod(f"p-{self.made}")

    def bind(self, pick: int) -> None:
        """Let the scheduler, which knows the truth, give a node to a pod that may go there."""
        waiting = [uid for uid, pod in self.pods.items() if not pod.node_name]
        if waiting:
            uid = waiting[pick % len(waiting)]
            fits = [name for name, (value, _) in self.kept_for.items() if value == uid and uid in self.tolerates]
            node = [*fits, *(["static"] if pick % 3 == 0 else [])]
            if node:
                self.pods[uid] = seen.pod(uid, node=node[0])
                self.had[node[0]].add(uid)

    def end(self, pick: int) -> None:
        running = [uid for uid, pod in self.pods.items() if pod.node_name]
        if running:
            uid = running[pick % len(running)]
            self.pods[uid] = seen.pod(uid, node=self.pods[uid].node_name, status={"phase": "Succeeded"})

    def vanish(self, pick: int) -> None:
        if self.pods:
            del self.pods[sorted(self.pods)[pick % len(self.pods)]]

    def look_at_pods(self, _: int) -> None:
        self.seen_pods = dict(self.pods)

    def look_at_nodes(self, _: int) -> None:
        self.seen_nodes = dict(self.kept_for)

    def die(self, _: int) -> None:
        self.unbound.clear()
        self.never.clear()

    def settle(self, _: int) -> None:
        """Do what `Claims.carry_out` does first, with an exact history of what became of pods."""
        plan = self._plan()
        held = [each.holder for each in self._stands() if each.standing is Standing.HELD]
        for pod in plan.asked:
            if pod.meta.uid not in self.pods:
                self.unbound.discard(pod.meta.uid)
                self.never |= {pod.meta.uid} - set().union(*self.had.values())
        for each in plan.corrected:
            self._write(each.node.meta.key.name, each.kept_for)
        self.tolerates |= {each.pod.meta.uid for each in plan.let_on}
        self.unbound |= set(held)

    def claim(self, pick: int) -> None:
        """Claim, and die before the pods are let on, or not."""
        for each in self._plan().given:
            uid, name = each.pod.meta.uid, each.node.meta.key.name
            if self.seen_nodes[name][0] == keys.RESERVED_FOR_NONE and self._write(name, uid) and pick % 2:
                self.unbound.add(uid)
                self.tolerates.add(uid)

    def _stands(self) -> tuple[Stand, ...]:
        stands = ephemeral.stands(self._nodes(), self.seen_pods.values(), frozenset(self.never))
        return ephemeral.doubted(stands, {uid: seen.pod(uid) for uid in self.unbound})

    def _plan(self) -> ephemeral.Plan:
        pods = list(self.seen_pods.values())
        snapshot = seen.snapshot(pods=pods, nodes=self._nodes(), stands=self._stands())
        return ephemeral.decide(snapshot, landed(pods, *self.seen_nodes))

    def cycle(self, pick: int) -> None:
        """Do all that one cycle does."""
        for step in (self.look_at_nodes, self.look_at_pods, self.settle, self.claim):
            step(pick)

    def _nodes(self) -> list[objects.Node]:
        return [node(name, value) for name, (value, _) in sorted(self.seen_nodes.items())]

    def _write(self, name: str, value: str) -> bool:
        """Write a taint onto the very version that was seen, or not at all."""
        if self.kept_for[name] != self.seen_nodes[name]:
            return False
        self.kept_for[name] = self.seen_nodes[name] = (value, self.kept_for[name][1] + 1)
        return True


STEPS = (
    *(Cluster.cycle, Cluster.arrive, Cluster.bind) * 2,
    Cluster.end,
    Cluster.vanish,
    Cluster.die,
    Cluster.look_at_pods,
    Cluster.look_at_nodes,
    Cluster.settle,
    Cluster.claim,
)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=10, max_size=60))
def test_no_instance_ever_serves_two_whatever_happens_in_whatever_order(steps: list[tuple[Any, int]]) -> None:
    cluster = Cluster()
    for step, pick in steps:
        step(cluster, pick)
        assert all(len(had) <= 1 for name, had in cluster.had.items() if name != "static")


def test_the_steps_above_do_serve_pods() -> None:
    cluster = Cluster()
    for step in (cluster.arrive, cluster.cycle, cluster.bind):
        step(1)
    assert cluster.had["n-1"] == {"p-1"}
