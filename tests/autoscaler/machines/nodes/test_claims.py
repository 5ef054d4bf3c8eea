"""Which Machine has which node: the oldest that asks for it, and within it an entry that names the node."""

import itertools

import pytest

from autoscaler.api.resources.machines import NodeMode
from autoscaler.machines.nodes import claims
from autoscaler.machines.nodes.claims import Claim, Claims, NodeClaims
from tests.autoscaler.machines.node_builders import child, entry, machine, machine_type


def claim(group: str = "general", type_: str = "medium", **more: object) -> Claim:
    defaults = {"types": (type_,), "mode": NodeMode.READY, "taint": False}
    return Claim(group=group, type=type_, **{**defaults, **more})  # type: ignore[arg-type]


def test_a_named_node_is_claimed_whether_it_is_there_or_not() -> None:
    got = Claims.of([machine("general", entry("a", mode="maintenance", taint=True))])
    assert got.of_node("a", {}) == NodeClaims(owner=claim(mode=NodeMode.MAINTENANCE, taint=True))
    assert got.of_node("b", {}) == NodeClaims()


@pytest.mark.accept("M15", part="nodes by selector")
def test_a_selected_node_has_all_the_labels() -> None:
    got = Claims.of([machine("general", entry(None, nodeSelector={"pool": "gpu", "zone": "a"}))])
    assert got.of_node("n1", {"pool": "gpu", "zone": "a", "more": "x"}) == NodeClaims(owner=claim())
    assert got.of_node("n2", {"pool": "gpu", "zone": "b"}) == NodeClaims()
    assert got.of_node("n3", {"zone": "a"}) == NodeClaims()


@pytest.mark.accept("M1", part="who has a node")
def test_the_older_machine_has_a_node_that_two_ask_for() -> None:
    old, young = machine("z", entry("a"), age=20), machine("b", entry(None, nodeSelector={"pool": "x"}), age=10)
    want = NodeClaims(owner=claim("z"), others=(claim("b"),))
    for order in itertools.permutations([old, young]):
        assert Claims.of(order).of_node("a", {"pool": "x"}) == want


@pytest.mark.accept("M1", part="who has a node")
def test_of_machines_that_are_equally_old_the_first_by_name_has_it() -> None:
    asking = [machine(name, entry("a")) for name in ("c", "a", "b")]
    for order in itertools.permutations(asking):
        assert Claims.of(order).of_node("a", {}) == NodeClaims(owner=claim("a"), others=(claim("b"), claim("c")))


@pytest.mark.accept("M1", part="who has a node")
@pytest.mark.accept("M12", part="a Machine that is deleted asks for nothing")
def test_a_machine_that_is_being_deleted_asks_for_nothing() -> None:
    leaving, young = machine("old", entry("a"), age=20, deleted=True), machine("young", entry("a"), age=10)
    assert Claims.of([leaving, young]).of_node("a", {}) == NodeClaims(owner=claim("young"))


@pytest.mark.accept("M15", part="nodes by selector")
def test_an_entry_that_names_a_node_goes_before_one_that_selects_it() -> None:
    selected = entry(None, nodeSelector={"pool": "x"})
    got = Claims.of([machine("general", selected, entry("a", "large", mode="maintenance"))])
    assert got.of_node("a", {"pool": "x"}) == NodeClaims(owner=claim(type_="large", mode=NodeMode.MAINTENANCE))
    assert got.of_node("b", {"pool": "x"}) == NodeClaims(owner=claim())


@pytest.mark.accept("M15", part="nodes by selector")
def test_of_two_selectors_of_one_machine_the_first_counts() -> None:
    first, second = entry(None, nodeSelector={"zone": "a"}), entry(None, "large", nodeSelector={"pool": "x"})
    got = Claims.of([machine("general", first, second)])
    assert got.of_node("a", {"pool": "x", "zone": "a"}) == NodeClaims(owner=claim())


@pytest.mark.accept("M9", part="where a child lives")
def test_a_child_without_nodes_of_its_own_lives_on_its_parents() -> None:
    types = [machine_type(), child("half"), child("tenth", ratio=10), machine_type("large")]
    got = Claims.of([machine("general", entry("a"), entry("b", "tenth"), types=types)])
    assert got.of_node("a", {}).owner == claim(types=("medium", "half"))
    assert got.of_node("b", {}).owner == claim(type_="tenth")


def test_named_nodes_are_those_that_can_be_missed() -> None:
    spec = machine("general", entry("a"), entry("b"), entry(None, nodeSelector={"x": "y"})).resource.spec
    assert claims.named(spec) == {"a", "b"}
