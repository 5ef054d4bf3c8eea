"""What holds whatever is asked for, finishes, shrinks, is evicted or deleted, and in whatever order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.quota import cycle, nomination
from autoscaler.admission.quota.cache.admitted import is_leaving
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.waiting import Place, WaitingClass
from autoscaler.admission.quota.heads import may_pass
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.workloads.workload import Admission, Workload
from autoscaler.admission.writes import Step
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.applying import Cluster
from tests.autoscaler.admission.builders import (
    NOW,
    cluster_queue,
    flavor,
    local_queue,
    slice_manifest,
    tables,
    workload_manifest,
)
from tests.autoscaler.admission.quota import recomputing

pytestmark = pytest.mark.accept("E16", part="order, rest and sums, decisions on quota alone")
NAMES = "abcd"
QUOTA = st.integers(0, 4)
LIMITED = st.one_of(QUOTA, st.tuples(QUOTA, st.integers(0, 2)))
POLICIES = st.fixed_dictionaries(
    {
        "within": st.sampled_from(["Never", "LowerPriority"]),
        "reclaim": st.sampled_from(["Never", "LowerPriority", "Any"]),
        "strict": st.booleans(),
        "spot": LIMITED,
        "demand": LIMITED,
    }
)
ASKED = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "count": st.integers(1, 3),
        "cpu": st.sampled_from([1, 2]),
        "priority": st.integers(0, 2),
        "queue": st.sampled_from(["door-team", "door-other"]),
        "age": st.integers(1, 9),
    }
)
CHANGES = ["shrink", "finish", "clear", "clear", "delete", "fold", "retire"]
EVENTS = st.one_of(
    st.tuples(st.just("ask"), ASKED),
    st.tuples(st.just("grow"), st.sampled_from(NAMES)),
    st.tuples(
        st.sampled_from(["shrink", "finish", "clear", "clear", "delete", "fold", "retire"]), st.sampled_from(NAMES)
    ),
    st.tuples(st.just("decide"), st.integers(1, 5)),
    st.tuples(st.just("decide"), st.integers(1, 5)),
)


class World:
    """Two queues of one cohort with two flavors each, and what happens in them."""

    def __init__(self, team: dict[str, Any], other: dict[str, Any]) -> None:
        self.tables = tables(flavor("spot"), flavor("demand"))
        for name, policy in (("team", dict(team)), ("other", dict(other))):
            quota = {"spot": {"cpu": policy.pop("spot")}, "demand": {"cpu": policy.pop("demand")}}
            self.tables.cluster_queues.seen(cluster_queue(name, flavors=quota, cohort="all", **policy))
            self.tables.local_queues.seen(local_queue(f"door-{name}", queue=name))
        self.cluster = Cluster(self.tables)
        self.books = Books(self.tables)
        self.ordinal = 0

    def happen(self, what: str, given: Any) -> cycle.CyclePlan | None:
        match what:
            case "ask":
                self._ask(given)
            case "decide":
                plan = cycle.decide(self.books, now=NOW, most=given)
                self.cluster.apply(plan.writes)
                return plan
            case "grow":
                self._grow(given)
            case _:
                self._change(what, given)
        return None

    def get(self, name: str) -> Workload | None:
        return self.tables.workloads.get(builders.workload(name).meta.key)

    def slices(self, name: str) -> list[Workload]:
        return [each for each in self.tables.workloads if each.is_slice and each.meta.key.name.startswith(f"{name}-")]

    def _ask(self, given: dict[str, Any]) -> None:
        if self.get(given["name"]) is None:
            self.cluster.put(workload_manifest(**given))

    def _grow(self, name: str) -> None:
        found = self.get(name)
        if found is not None and found.admission is not None and not is_leaving(found):
            self.ordinal += 1
            cpu = f"{found.pod_sets[0].requests['cpu']}m"
            wanted = found.admission.count("main") + len(self.slices(name)) + 1
            self._resize(name, found, wanted)
            self.cluster.put(slice_manifest(name, self.ordinal, cpu=cpu, queue=found.queue))

    def _resize(self, name: str, found: Workload, count: int) -> None:
        cpu = f"{found.pod_sets[0].requests['cpu']}m"
        self.cluster.change(name, {"spec": {"podSets": [builders.pod_set(count=count, cpu=cpu)]}})

    def _change(self, what: str, name: str) -> None:
        found = self.get(name)
        if found is None:
            return
        match what:
            case "shrink" if found.admission is not None and not found.is_evicted:
                self._shrink(name, found, found.admission)
            case "finish":
                self.cluster.change(name, {"status": {"conditions": [builders.condition("Finished")]}})
            case "retire":
                self.cluster.change(name, {"spec": {"active": False}})
            case "clear" if found.is_evicted or found.is_finished:
                for each in self.slices(name):
                    self.cluster.remove(each.meta.key.name)
                kept = [builders.condition("Finished")] if found.is_finished else []
                self.cluster.change(name, {"status": {"admission": None, "conditions": kept}})
            case "fold" if found.admission is not None and not is_leaving(found):
                self._fold(name, found)
            case "delete":
                for each in self.slices(name):
                    self.cluster.remove(each.meta.key.name)
                self.cluster.remove(name)
            case _:
                pass

    def _shrink(self, name: str, found: Workload, granted: Admission) -> None:
        first = granted.assignments[0]
        count = max(1, first.count - 1)
        admission = builders.admission({"main": count}, queue=granted.cluster_queue, flavors=first.flavors)
        self._resize(name, found, count)
        self.cluster.change(name, {"status": {"admission": admission}})

    def _fold(self, name: str, found: Workload) -> None:
        granted = [each for each in self.slices(name) if each.admission is not None]
        assert found.admission is not None
        first = found.admission.assignments[0]
        new = [each for each in granted if each.meta.uid not in found.folded]
        count = min(found.pod_sets[0].count, first.count + len(new))
        admission = builders.admission({"main": count}, queue=found.admission.cluster_queue, flavors=first.flavors)
        folded = sorted(found.folded | {each.meta.uid for each in granted})
        self.cluster.change(name, {"status": {"admission": admission, "foldedSlices": folded}})
        for each in granted:
            self.cluster.remove(each.meta.key.name)

    def excess(self, taken: recomputing.Sums) -> list[str]:
        """Say where more is taken than quota allows."""
        found, queues = [], self.books.queues.values()
        keys = {key for queue in queues for key in queue.quotas}
        for key in keys:
            together = sum(taken.get(queue.name, {}).get(key, 0) for queue in queues)
            if together > sum(queue.quotas[key].nominal for queue in queues):
                found.append(f"cohort {key}")
            for queue in queues:
                quota = queue.quotas[key]
                limit = quota.borrowing_limit
                if limit is not None and taken.get(queue.name, {}).get(key, 0) > quota.nominal + limit:
                    found.append(f"{queue.name} {key}")
        return found


HISTORIES = st.lists(EVENTS, max_size=40)


@pytest.mark.accept("E16", part="usage stays within quota, decisions on quota alone")
@given(POLICIES, POLICIES, HISTORIES)
def test_usage_never_exceeds_quota(team: dict[str, Any], other: dict[str, Any], history: list[tuple[str, Any]]) -> None:
    world = World(team, other)
    for what, chosen in history:
        world.happen(what, chosen)
        now = recomputing.recompute(world.tables, NOW)
        assert recomputing.read(world.books) == now
        assert world.excess(now.usage) == []


@pytest.mark.accept("E10", part="nobody is evicted in vain")
@given(POLICIES, POLICIES, HISTORIES)
def test_when_all_who_are_leaving_are_gone_there_is_room_for_the_claims_they_are_evicted_for(
    team: dict[str, Any], other: dict[str, Any], history: list[tuple[str, Any]]
) -> None:
    world = World(team, other)
    for what, chosen in history:
        before = {each.meta.uid for each in world.books.claimants() if world.books.is_waiting(each.meta.uid)}
        plan = world.happen(what, chosen)
        evicted = [write for write in plan.writes if write.step is Step.EVICT] if plan is not None else []
        if plan is None or not evicted or plan.is_cut:
            continue
        assert before, "somebody is evicted though nobody had a claim"
        taken = recomputing.recompute(world.tables, NOW).taken
        for each in world.tables.workloads:
            if each.admission is not None and is_leaving(each):
                for use in world.books.family_uses(each.meta.uid):
                    for key, amount in use.amounts.items():
                        taken[use.queue][key] -= amount
        assert world.excess(taken) == []


@given(POLICIES, POLICIES, HISTORIES)
def test_left_alone_everything_comes_to_rest(
    team: dict[str, Any], other: dict[str, Any], history: list[tuple[str, Any]]
) -> None:
    world = World(team, other)
    for what, chosen in history:
        world.happen(what, chosen)
    for _ in range(60):
        for name in NAMES:
            world.happen("clear", name)
        plan = cycle.decide(world.books, now=NOW, most=5)
        world.cluster.apply(plan.writes)
        if not plan.writes:
            break
    else:
        raise AssertionError("it goes on for ever")
    afresh = cycle.decide(Books(world.tables), now=NOW, most=5)  # nothing was overlooked for being remembered
    assert afresh.writes == ()


# Order, against the plainest way to say it


def best_first(books: Books) -> list[str]:
    """Admit the best that fits, looking at everybody each time."""
    ledger, admitted = books.ledger.copy(), list[str]()
    while True:
        fitting = [each for queue in ("team", "other") for each in allowed(books, ledger, queue, admitted)]
        if not fitting:
            return admitted
        _, _, found = min(fitting, key=lambda each: each[:2])
        ledger.add(found.queue.name, found.amounts)
        admitted.append(found.workload.meta.uid)


def allowed(books: Books, ledger: Any, queue: str, admitted: list[str]) -> list[tuple[bool, Place, Nomination]]:
    """Return those of a queue that fit and whom nobody blocks."""
    fitting: list[tuple[bool, Place, Nomination]] = []
    blocked: Place | None = None
    for place in books.waiting.line(queue).first():
        if place.uid in admitted or (blocked is not None and not may_pass(place, blocked)):
            continue
        found = nomination.nominate(books, ledger, class_of(books, place), place.uid, siblings={})
        if isinstance(found, Nomination):
            fitting.append((found.borrows, place, found))
            if books.queues[queue].is_strict:
                return fitting
        elif books.queues[queue].is_strict and not place.is_slice:
            blocked = place
    return fitting


def class_of(books: Books, place: Place) -> WaitingClass:
    return next(each for each in books.waiting._classes.values() if place in each.members)


@given(POLICIES, POLICIES, HISTORIES)
def test_nobody_is_admitted_while_a_better_one_fits(
    team: dict[str, Any], other: dict[str, Any], history: list[tuple[str, Any]]
) -> None:
    never = {"within": "Never", "reclaim": "Never"}
    world = World({**team, **never}, {**other, **never})
    for what, chosen in history:
        if what == "decide":
            want = best_first(world.books)[:chosen]
            plan = world.happen(what, chosen)
            assert plan is not None
            assert [write.uid for write in plan.writes] == want
        else:
            world.happen(what, chosen)
