"""Questions about many nodes at once have the answers that each node would give by itself."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.scaleup.placement import index
from autoscaler.kube import objects, selecting, wire

KEYS = ("a", "b")
VALUES = ("1", "2", "10", "x")
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
requirements = st.builds(
    lambda key, operator, values: wire.Requirement(
        key=key, operator=operator, values=tuple(values[:1] if operator in {"Gt", "Lt"} else values)
    ),
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
taints = st.builds(
    objects.NodeTaint, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(["NoSchedule", "NoExecute"])
)
tolerations = st.builds(
    wire.Toleration,
    key=st.sampled_from(["", *KEYS]),
    operator=st.sampled_from(["Equal", "Exists"]),
    value=st.sampled_from(VALUES),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)


def made(nodes: list[tuple[dict[str, str], tuple[Any, ...], int]]) -> index.Index:
    return index.Index(
        names=[f"node-{number}" for number in range(len(nodes))],
        labels=[node[0] for node in nodes],
        taints=[node[1] for node in nodes],
        amounts=[{"cpu": node[2]} for node in nodes],
    )


nodes = st.lists(st.tuples(labels, st.lists(taints, max_size=2).map(tuple), st.integers(0, 5)), max_size=8)


@given(nodes, st.lists(st.lists(requirements, min_size=1, max_size=2), min_size=1, max_size=2))
def test_affinity_is_any_term_and_all_of_it(there: Any, terms: list[list[wire.Requirement]]) -> None:
    selector = wire.NodeSelector(
        node_selector_terms=tuple(wire.NodeTerm(match_expressions=tuple(term)) for term in terms)
    )
    want = [
        number
        for number, (has, _, _) in enumerate(there)
        if any(all(selecting.holds(one, has.get(one.key)) for one in term) for term in terms)
    ]
    assert list(index.bits(made(there).affine(selector))) == want


@given(nodes, labels)
def test_a_selector_wants_every_label(there: Any, wanted: dict[str, str]) -> None:
    want = [number for number, (has, _, _) in enumerate(there) if wanted.items() <= has.items()]
    assert list(index.bits(made(there).selected(wanted))) == want


@given(nodes, st.lists(tolerations, max_size=2).map(tuple))
def test_every_hard_taint_must_be_tolerated(there: Any, has: tuple[wire.Toleration, ...]) -> None:
    want = [number for number, (_, tainted, _) in enumerate(there) if selecting.untolerated(tainted, has) is None]
    assert list(index.bits(made(there).tolerated(has))) == want


@given(nodes, st.integers(0, 6))
def test_amounts_are_compared(there: Any, wanted: int) -> None:
    want = [number for number, (_, _, has) in enumerate(there) if has >= wanted]
    assert list(index.bits(made(there).with_amounts([("cpu", wanted)]))) == want


def test_an_empty_term_selects_nothing_and_a_name_selects_its_node() -> None:
    there = made([({}, (), 1), ({}, (), 1)])
    assert there.affine(wire.NodeSelector(node_selector_terms=(wire.NodeTerm(),))) == 0
    name = wire.Requirement(key="metadata.name", operator="In", values=("node-1",))
    named = wire.NodeSelector(node_selector_terms=(wire.NodeTerm(match_fields=(name,)),))
    assert list(index.bits(there.affine(named))) == [1]
