"""Whatever comes, changes and goes: the lives of pools are what all Instance objects say afresh."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.instances import Instance
from autoscaler.capacity.records import accounting, instance_status, pool_lives
from autoscaler.kube import objects, store
from tests.autoscaler.capacity import books

ENDED = st.tuples(st.integers(0, 500), st.sampled_from(["Ended", "DuplicateRecord", "Gone"]))
RECORD = st.fixed_dictionaries(
    {
        "phase": st.sampled_from([None, "Launching", "Ready", "Draining", "Terminated"]),
        "instanceCreatedAt": st.none() | st.integers(0, 60).map(lambda after: books.date(books.START + after)),
        "conditions": st.lists(ENDED, max_size=1).map(lambda told: [condition(*each) for each in told]),
    }
)


def condition(after: int, reason: str) -> dict[str, Any]:
    at = books.date(books.START + after).isoformat()
    return {"type": instance_status.ENDED, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at}


def slowly(table: store.Table[objects.Custom[Instance]]) -> dict[str, tuple[set[str], int | None]]:
    """Say who lives, and how long lives lasted on average, pool by pool and object by object."""
    said = {}
    for pool in {each.resource.spec.pool for each in table}:
        own = [each.resource for each in table if each.resource.spec.pool == pool]
        living = {each.metadata.name for each in own if each.status.phase in accounting.LIVING}
        lengths = [length for each in own if (length := instance_status.length_seconds(each.status)) is not None]
        said[pool] = (living, -(-sum(lengths) // len(lengths)) if lengths else None)
    return said


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 3), st.none() | RECORD), max_size=30))
def test_lives_follow_each_change(history: list[tuple[str, int, dict[str, Any] | None]]) -> None:
    table: store.Table[objects.Custom[Instance]] = store.Table()
    index = pool_lives.LivesIndex(table)
    for version, (pool, number, what) in enumerate(history, start=1):
        before = index.snapshot()
        copy = {name: (dict(each.living), each.mean_seconds()) for name, each in before.items()}
        made = books.instance(number, pool=pool, version=version, **(what or {}))
        table.seen(made) if what is not None else table.gone(made.meta)
        assert {name: (dict(each.living), each.mean_seconds()) for name, each in before.items()} == copy
        got = index.snapshot()
        assert {name: (set(each.living), each.mean_seconds()) for name, each in got.items()} == slowly(table)
        assert got == pool_lives.lives(each.resource for each in table)
        there = {each.meta.key.name: each.resource for each in table}
        assert all(one is there[name] for each in got.values() for name, one in each.living.items())
    index.heal()
    assert index.said() == pool_lives.LivesIndex(table).said()


def test_what_did_not_change_is_handed_out_again() -> None:
    table: store.Table[objects.Custom[Instance]] = store.Table()
    index = pool_lives.LivesIndex(table)
    table.seen(books.instance(1, pool="x", phase="Ready"))
    table.seen(books.instance(1, pool="y", phase="Ready"))
    before = index.snapshot()
    assert index.snapshot() is before
    table.seen(books.instance(2, pool="y", phase="Ready"))
    assert index.snapshot()["x"] is before["x"]
