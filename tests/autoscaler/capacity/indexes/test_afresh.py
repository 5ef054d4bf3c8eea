"""An index that is made afresh, a few objects at a time, finds what the one in use lost; nothing if it lost nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.indexes import afresh, node_index, pod_index
from autoscaler.capacity.records import month_sums, record_index
from autoscaler.kube import objects, store
from tests.autoscaler.capacity import books, seen
from tests.autoscaler.capacity.indexes.test_indexes import NAMES, POD, versioned

STEP = st.tuples(NAMES, st.none() | POD, st.integers(0, 2))
LIVING: dict[str, Any] = {"phase": "Ready", "instanceCreatedAt": books.date(books.START), "instanceType": "m5.large"}


def _record(version: int, name: str) -> objects.Custom[Any]:
    return books.instance(ord(name), version=version, providerID=f"aws:///a/i-{name}", **LIVING)


@given(st.lists(STEP, max_size=30))
def test_whatever_changes_meanwhile_nothing_is_found_where_nothing_was_lost(
    history: list[tuple[str, dict[str, Any] | None, int]],
) -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = pod_index.PodIndex(table)
    again = afresh.Afresh(table, index, pod_index.PodIndex, portion=1)
    for version, (name, what, count) in enumerate(history, start=1):
        made = versioned(seen.pod(name, **(what or {})), version)
        table.seen(made) if what is not None else table.gone(made.meta)
        assert not again.go_on(count)


@pytest.mark.parametrize(
    ("make", "one"),
    [
        (pod_index.PodIndex, lambda version, name: versioned(seen.pod(name, node="n1"), version)),
        (node_index.NodeIndex, lambda version, name: versioned(seen.node(name, instance=f"i-{name}"), version)),
        (record_index.RecordIndex, _record),
        (month_sums.MonthSums, _record),
    ],
    ids=["pods", "nodes", "records", "months"],
)
def test_an_index_that_missed_a_change_is_found_out_and_healed_once_all_was_taken_in(make: Any, one: Any) -> None:
    table: store.Table[Any] = store.Table()
    table.seen(one(1, "a"))
    deaf, heard = make(table), list(table._listeners)
    again = afresh.Afresh(table, deaf, make, portion=1)
    table._listeners = [each for each in table._listeners if each not in heard or "Index.update" in str(each)]
    table.seen(one(2, "b"))
    assert not again.go_on(1)
    assert again.go_on(1)
    assert deaf.said() == make(table).said()
    assert not again.go_on(2)
