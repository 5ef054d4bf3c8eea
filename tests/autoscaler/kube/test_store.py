"""A table never goes back in time, whatever order the watch and our own answers come in; indexes follow it exactly."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import objects, store

KEY = objects.Key("default", "a")


def thing(version: int, *, name: str = "a", uid: str = "u", labels: dict[str, str] | None = None) -> objects.Simple:
    meta = objects.Meta(
        key=objects.Key("default", name),
        uid=uid,
        resource_version=version,
        generation=1,
        created_at=0.0,
        deleted_at=None,
        labels=labels or {},
        annotations={},
        finalizers=(),
        owners=(),
    )
    return objects.Simple(meta=meta)


def table_at(version: int, *things: objects.Simple) -> store.Table[objects.Simple]:
    table: store.Table[objects.Simple] = store.Table()
    table.replace(things, version)
    return table


def version_of(table: store.Table[objects.Simple]) -> int | None:
    known = table.get(KEY)
    return known.meta.resource_version if known else None


def test_a_table_is_synced_once_it_was_listed() -> None:
    table: store.Table[objects.Simple] = store.Table()
    assert not table.synced
    table.replace((), 5)
    assert table.synced


def test_an_older_object_is_ignored() -> None:
    table = table_at(5, thing(5))
    table.seen(thing(4))
    table.wrote(thing(3))
    assert version_of(table) == 5


def test_our_own_write_is_seen_before_the_watch_brings_it() -> None:
    table = table_at(5, thing(5))
    table.wrote(thing(7))
    table.seen(thing(6))
    assert version_of(table) == 7


def test_what_an_answer_brought_is_not_awaited_once_the_watch_brings_it_or_something_newer() -> None:
    table = table_at(5, thing(5))
    assert not table.awaits_echoes
    table.wrote(thing(7))
    assert table.echoed(KEY, 6)
    assert (table.awaits_echoes, table.resource_version) == (True, 6)
    assert table.echoed(KEY, 7)
    assert (table.awaits_echoes, table.resource_version) == (False, 7)
    assert not table.echoed(KEY, 7)
    table.wrote(thing(8))
    assert not table.echoed(KEY, 9)
    table.seen(thing(9))
    assert not table.awaits_echoes


def test_nothing_is_awaited_any_more_after_a_new_list_a_deletion_or_a_new_history() -> None:
    table = table_at(5, thing(5))
    table.wrote(thing(6))
    table.gone(thing(7).meta)
    assert not table.awaits_echoes
    table.wrote(thing(8))
    table.replace((thing(8),), 8)
    assert not table.awaits_echoes
    table.wrote(thing(9))
    table.forget()
    assert not table.awaits_echoes


def test_an_answer_that_the_watch_has_overtaken_does_not_raise_the_dead() -> None:
    table = table_at(5)
    table.seen(thing(6))
    table.gone(thing(8).meta)
    table.wrote(thing(7))
    assert version_of(table) is None


def test_what_we_deleted_stays_gone_although_the_watch_lags() -> None:
    table = table_at(5, thing(5))
    table.deleted(KEY, "u")
    table.seen(thing(6))
    assert version_of(table) is None
    table.gone(thing(7).meta)
    table.seen(thing(9, uid="another"))
    assert version_of(table) == 9


def test_a_new_object_of_a_deleted_ones_name_is_taken_at_once() -> None:
    table = table_at(5, thing(5))
    table.deleted(KEY, "u")
    table.wrote(thing(8, uid="another"))
    assert version_of(table) == 8


def test_a_new_list_deletes_what_it_lacks_but_not_what_we_wrote_since() -> None:
    table = table_at(5, thing(5), thing(4, name="b"))
    table.wrote(thing(9, name="c"))
    table.replace([thing(6)], 7)
    assert {stored.meta.key.name for stored in table} == {"a", "c"}


def test_listeners_hear_old_and_new() -> None:
    heard: list[tuple[int | None, int | None]] = []

    def version(stored: objects.Simple | None) -> int | None:
        return stored.meta.resource_version if stored else None

    table: store.Table[objects.Simple] = store.Table()
    table.listen(lambda old, new: heard.append((version(old), version(new))))
    table.replace([thing(1)], 1)
    table.seen(thing(2))
    table.gone(thing(3).meta)
    assert heard == [(None, 1), (1, 2), (2, None)]


def test_a_snapshot_does_not_change() -> None:
    table = table_at(1, thing(1))
    before = table.snapshot()
    assert table.snapshot() is before
    table.seen(thing(2))
    assert before[KEY].meta.resource_version == 1
    assert table.snapshot()[KEY].meta.resource_version == 2


def test_an_object_that_cannot_be_read_is_put_aside_until_it_can() -> None:
    table = table_at(1, thing(1))
    index = table.index(lambda stored: stored.meta.labels.values())
    table.put_aside(thing(2).meta, "no such field")
    assert version_of(table) is None
    assert table.unreadable[KEY].problem == "no such field"
    table.seen(thing(3, labels={"pool": "x"}))
    assert table.unreadable == {}
    assert list(index.get("x")) == [KEY]


def test_an_index_follows_every_change() -> None:
    table: store.Table[objects.Simple] = store.Table()
    index = table.index(lambda stored: stored.meta.labels.values())
    table.seen(thing(1, labels={"pool": "x"}))
    table.seen(thing(2, name="b", labels={"pool": "x"}))
    assert len(index.get("x")) == 2
    table.seen(thing(3, labels={"pool": "y"}))
    assert [key.name for key in index.get("x")] == ["b"]
    table.gone(thing(4, name="b").meta)
    assert list(index) == ["y"]
    assert index.get("x") == {}


NAMES = st.sampled_from("abc")
CHANGES = st.lists(st.tuples(NAMES, st.sampled_from(["set", "delete"]), st.sampled_from(["x", "y"])), max_size=30)


@given(CHANGES, st.data())
def test_any_interleaving_of_watch_and_answers_ends_in_the_truth(
    changes: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """Replay a history through the watch, with the answers to any of its writes arriving early or late."""
    truth: dict[str, objects.Simple] = {}
    history: list[tuple[str, objects.Simple]] = []
    for version, (name, verb, label) in enumerate(changes, start=1):
        if verb == "set":
            uid = truth[name].meta.uid if name in truth else f"{name}-{version}"
            truth[name] = thing(version, name=name, uid=uid, labels={"pool": label})
            history.append(("set", truth[name]))
        elif name in truth:
            gone = truth.pop(name)
            history.append(("delete", thing(version, name=name, uid=gone.meta.uid)))
    table = table_at(0)
    index = table.index(lambda stored: stored.meta.labels.values())
    pending = list(history)
    for verb, stored in history:
        for _ in range(data.draw(st.integers(0, 2)) if pending else 0):
            answer_verb, answer = data.draw(st.sampled_from(pending))
            if answer_verb == "set":
                table.wrote(answer)
            else:
                table.deleted(answer.meta.key, answer.meta.uid)
        if verb == "delete":
            table.gone(stored.meta)
        elif not table.echoed(stored.meta.key, stored.meta.resource_version):
            table.seen(stored)
    assert table.resource_version == max((stored.meta.resource_version for _, stored in history), default=0)
    assert {stored.meta.key.name: stored for stored in table} == truth
    assert {key.name for label in index for key in index.get(label)} == set(truth)


def test_what_we_deleted_while_a_list_was_made_stays_gone() -> None:
    table = table_at(5, thing(5))
    table.deleted(KEY, "u")
    table.replace([thing(5)], 6)
    assert version_of(table) is None


def test_two_deletions_of_one_name_are_both_remembered() -> None:
    table = table_at(5, thing(5, uid="first"))
    table.deleted(KEY, "first")
    table.wrote(thing(8, uid="second"))
    table.deleted(KEY, "second")
    table.seen(thing(6, uid="first"))
    assert version_of(table) is None


def test_a_list_that_lacks_an_unreadable_object_forgets_it() -> None:
    table = table_at(5)
    table.put_aside(thing(6).meta, "no such field")
    table.replace((), 7)
    assert table.unreadable == {}


def test_after_the_history_began_anew_lower_versions_count() -> None:
    table = table_at(500, thing(500))
    table.forget()
    table.replace([thing(20)], 30)
    assert version_of(table) == 20
    assert table.resource_version == 30
