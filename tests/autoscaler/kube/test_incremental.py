"""Whatever comes, changes and goes, and in whatever order: a group says what adding its objects afresh would say."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import incremental, objects, store
from tests.autoscaler.kube.test_store import thing

Step = tuple[str, str, dict[str, str]]
GROUPS = st.lists(st.sampled_from("xyz"), unique=True).map("".join)
STEPS = st.tuples(
    st.sampled_from(["seen", "gone", "wrote", "deleted", "replace", "forget"]),
    st.sampled_from("abcd"),
    st.fixed_dictionaries({"groups": GROUPS, "phase": st.sampled_from(["Pending", "Running"])}),
)


@dataclass
class Phases:
    """How many objects are in which phase."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, stored: objects.Simple) -> None:
        self.counts[stored.meta.labels["phase"]] += 1

    def remove(self, stored: objects.Simple) -> None:
        self.counts[stored.meta.labels["phase"]] -= 1

    def __len__(self) -> int:
        return self.counts.total()


Index = incremental.IncrementalIndex[str, objects.Simple, Phases]


def groups_of(stored: objects.Simple) -> Collection[str]:
    return tuple(stored.meta.labels["groups"])


def indexed(table: store.Table[objects.Simple]) -> Index:
    return incremental.IncrementalIndex(table, groups_of=groups_of, make=Phases)


def play(table: store.Table[objects.Simple], step: Step, version: int) -> None:
    what, name, labels = step
    new = thing(version, name=name, uid=name, labels=labels)
    match what:
        case "seen":
            table.seen(new)
        case "wrote":
            table.wrote(new)
        case "gone":
            table.gone(new.meta)
        case "deleted":
            table.deleted(new.meta.key, name)
        case "replace":
            table.replace([new], version)
        case _:
            table.forget()


@given(st.lists(STEPS, max_size=30))
def test_an_index_says_what_adding_everything_afresh_gives(history: list[Step]) -> None:
    table: store.Table[objects.Simple] = store.Table()
    index = indexed(table)
    for version, step in enumerate(history, start=1):
        play(table, step, version)
        assert index.as_dict() == index.recomputed()
    assert indexed(table).as_dict() == index.as_dict()  # one made later knows what was there before


def test_it_tells_which_groups_changed_and_forgets_those_without_objects() -> None:
    table: store.Table[objects.Simple] = store.Table()
    index, changed = indexed(table), list[str]()
    index.on_change.append(changed.append)
    table.seen(thing(1, labels={"groups": "xy", "phase": "Pending"}))
    assert sorted(changed) == ["x", "y"]
    assert index.get("x") == Phases(Counter(Pending=1))
    changed.clear()
    table.seen(thing(2, labels={"groups": "y", "phase": "Running"}))
    assert sorted(changed) == ["x", "y"]
    assert (index.get("x"), list(index), len(index)) == (None, ["y"], 1)
