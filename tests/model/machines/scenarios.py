"""The explorations: small ones, which every run of the tests makes, and large ones, which `make model` adds."""

from typing import Final

from tests.model.machines.scenario import Host, Scenario, Type, Visitor

SMALL_MOST: Final = 12_000
"""More states than any small one has: one that comes to so many goes on without end."""
_A: Final = frozenset({"a"})
_BOTH: Final = frozenset({"a", "b"})

SMALL: Final = (
    Scenario(
        name="a guest takes a sleeper's room",
        types=(Type("a", 1),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "a", comes=True)),
        from_rest=True,
        ends=1,
        deletions=1,
        lost=1,
        crashes=1,
    ),
    Scenario(
        name="two guests want the last machine",
        types=(Type("a", 1),),
        hosts=(Host("n1", 2, _A),),
        visitors=(Visitor("g", "a"), Visitor("h", "a")),
        ends=1,
        lost=1,
        lagging=2,
    ),
    Scenario(
        name="a pod of others takes room",
        types=(Type("a", 1),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True),),
        foreign=1,
        foreign_goes=True,
        from_rest=True,
        lost=1,
    ),
    Scenario(
        name="two types share a node",
        types=(Type("a", 1, 2), Type("b", 2)),
        hosts=(Host("n1", 2, _BOTH),),
        visitors=(Visitor("g", "a"), Visitor("h", "b")),
        ends=1,
        lost=1,
    ),
    Scenario(
        name="two types share nodes, and a pod of others comes and goes",
        types=(Type("a", 1, 2), Type("b", 2)),
        hosts=(Host("n1", 2, _BOTH), Host("n2", 2, _BOTH)),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "b", comes=True)),
        foreign=1,
        foreign_goes=True,
        from_rest=True,
    ),
    Scenario(
        name="the scheduler refuses a guest on a node",
        types=(Type("a", 2),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True, refused=frozenset({"n1"})), Visitor("h", "a", comes=True)),
        from_rest=True,
        lost=1,
    ),
    Scenario(
        name="the scheduler refuses a guest everywhere",
        types=(Type("a", 2),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(
            Visitor("g", "a", refused=frozenset({"n1", "n2"})),
            Visitor("h", "a", comes=True),
            Visitor("i", "a", comes=True),
        ),
        deletions=1,
    ),
    Scenario(
        name="the scheduler refuses a guest everywhere, and sleepers hold room",
        types=(Type("a", 2),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True, refused=frozenset({"n1", "n2"})),),
        from_rest=True,
    ),
    Scenario(
        name="a guest may not go where its type has room",
        types=(Type("a", 2),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True, barred=frozenset({"n1", "n2"})), Visitor("h", "a", comes=True)),
        from_rest=True,
        ends=1,
    ),
    Scenario(
        name="room is held for one of two types",
        types=(Type("a", 1), Type("b", 1)),
        hosts=(Host("n1", 1, _BOTH),),
        visitors=(Visitor("h", "b", comes=True), Visitor("g", "a", comes=True, must_be_served=True)),
        from_rest=True,
        lost=1,
        crashes=1,
    ),
    Scenario(
        name="room is held for both types",
        types=(Type("a", 1), Type("b", 1)),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _BOTH)),
        visitors=(
            Visitor("h", "b", comes=True, must_be_served=True),
            Visitor("g", "a", comes=True, must_be_served=True),
        ),
        from_rest=True,
        lost=1,
        crashes=1,
    ),
    Scenario(
        name="guests come before sleepers",
        types=(Type("a", 2), Type("b", 2)),
        hosts=(Host("n1", 1, _BOTH), Host("n2", 1, _BOTH)),
        visitors=(
            Visitor("g", "a", barred=frozenset({"n2"}), must_be_served=True),
            Visitor("h", "a", barred=frozenset({"n1"}), must_be_served=True),
        ),
        lost=1,
        crashes=1,
    ),
    Scenario(
        name="a node fails and another is dropped",
        types=(Type("a", 1),),
        hosts=(Host("n1", 1, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True),),
        failures=1,
        drops=1,
        from_rest=True,
        lost=1,
    ),
    Scenario(
        name="a guest has a gate of others",
        types=(Type("a", 1),),
        hosts=(Host("n1", 1, _A),),
        visitors=(Visitor("g", "a", held=True), Visitor("h", "a", comes=True)),
        ends=1,
        deletions=1,
    ),
)
"""A first part of them all."""

LARGE: Final = (
    Scenario(
        name="two nodes, two types, three guests and a pod of others",
        types=(Type("a", 1), Type("b", 1)),
        hosts=(Host("n1", 1, _BOTH), Host("n2", 1, _BOTH)),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "b", comes=True), Visitor("i", "a", comes=True)),
        foreign=1,
        from_rest=True,
        ends=1,
        crashes=1,
        lost=1,
    ),
    Scenario(
        name="types of two sizes, three guests and a pod of others",
        types=(Type("a", 1, 2), Type("b", 2)),
        hosts=(Host("n1", 2, _BOTH), Host("n2", 1, frozenset({"b"}))),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "b", comes=True), Visitor("i", "b", comes=True)),
        foreign=1,
        foreign_goes=True,
        from_rest=True,
        crashes=1,
        lost=1,
    ),
    Scenario(
        name="three guests, and a pod of others comes and goes, while the runtime is far behind",
        types=(Type("a", 2),),
        hosts=(Host("n1", 2, _A), Host("n2", 1, _A)),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "a", comes=True), Visitor("i", "a", comes=True)),
        foreign=1,
        foreign_goes=True,
        from_rest=True,
        lagging=3,
    ),
    Scenario(
        name="two types, and both nodes fail",
        types=(Type("a", 1), Type("b", 1)),
        hosts=(Host("n1", 1, _BOTH), Host("n2", 1, _BOTH)),
        visitors=(Visitor("g", "a", comes=True), Visitor("h", "b", comes=True)),
        failures=2,
        from_rest=True,
    ),
)
