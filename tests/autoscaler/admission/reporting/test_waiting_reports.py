"""Those who wait are told why, the first ones where they stand; each not too often, and only what is new."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.reporting.waiting_reports import (
    AGAIN_SECONDS,
    FIRST_AT_ONCE,
    REST_PER_SECOND,
    WaitingReports,
)
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import Write
from autoscaler.api.manifests import Manifest
from autoscaler.kube.objects import Key
from tests.autoscaler.admission.applying import Cluster
from tests.autoscaler.admission.builders import (
    NAMESPACE,
    cluster_queue,
    flavor,
    local_queue,
    slice_manifest,
    tables,
    usual,
    workload_manifest,
)
from tests.autoscaler.admission.manual_clock import ManualClock


class CountingBooks(Books):
    """Books that count how many Workloads were looked up."""

    looked_up = 0

    def get(self, uid: str) -> Workload | None:
        self.looked_up += 1
        return super().get(uid)


class Told:
    """Workloads that wait, cycles that look at them, and what is written to them."""

    def __init__(self, made: Tables, workloads: Iterable[Manifest]) -> None:
        self.clock = ManualClock()
        self.cluster = Cluster(made, [workload_manifest("runs", granted=1), *workloads])
        self.books = CountingBooks(made)
        self.reports = WaitingReports(self.clock, self.books, made)
        self.writes: Counter[str] = Counter()

    def cycle(self, *, applies: bool = True) -> list[Write]:
        """Look at all and tell; nothing is admitted."""
        plan = cycle.decide(self.books, now=self.clock.now(), most=100)
        assert not plan.writes
        self.reports.note_refused(plan.refused)
        planned = self.reports.due()
        self.writes.update(write.key.name for write in planned)
        if applies:
            self.cluster.apply(planned)
        return planned

    def run(self, seconds: float, step: float = 1.0) -> int:
        """Run cycles for a while; return how many writes there were."""
        before, end = self.writes.total(), self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.cycle()
            self.clock.seconds += step
        return self.writes.total() - before

    def status(self, name: str) -> Any:
        return self.cluster.workloads[Key(NAMESPACE, name)]["status"]

    def reason(self, name: str) -> str | None:
        said = {each["type"]: each["reason"] for each in self.status(name)["conditions"]}
        return said.get("QuotaReserved")


def waiting(number: int, **more: Any) -> Manifest:
    """One of many that do not fit while another runs; a higher number is younger."""
    return workload_manifest(f"w{number:04}", **{"cpu": 10, "age": 10_000 - number, **more})


def test_the_first_are_told_their_position_and_the_others_why_they_wait() -> None:
    told = Told(usual(), [waiting(number) for number in range(25)])
    assert told.run(3) == 25
    assert [told.status(f"w{number:04}").get("position") for number in (0, 19, 20)] == [1, 20, None]
    assert [told.reason(f"w{number:04}") for number in (0, 19, 20, 24)] == ["NoRoom"] * 2 + ["BehindAnother"] * 2


def test_five_thousand_are_told_once_so_many_a_second_and_then_nothing_is_written() -> None:
    told = Told(usual(), [waiting(number) for number in range(5000)])
    first = len(told.cycle())
    assert first <= 20 + REST_PER_SECOND
    told.clock.seconds += 0.1
    assert told.cycle() == []
    told.run(5000 / REST_PER_SECOND + 10)
    assert set(told.writes.values()) == {1}
    assert len(told.writes) == 5000
    assert told.run(600) == 0


def test_many_queues_are_told_of_a_few_at_a_time() -> None:
    names = [f"q{number:02}" for number in range(30)]
    made = tables(flavor(), *map(cluster_queue, names), *(local_queue(name, queue=name) for name in names))
    told = Told(made, [waiting(number, cpu=11, queue=names[number % 30]) for number in range(300)])
    assert FIRST_AT_ONCE <= len(told.cycle()) < FIRST_AT_ONCE + 20 + REST_PER_SECOND
    told.run(10)
    assert {told.status(f"w{number:04}")["position"] for number in range(300)} == set(range(1, 11))


def test_what_a_cycle_costs_does_not_depend_on_how_many_wait() -> None:
    told = Told(usual(), [waiting(number) for number in range(500)])
    told.run(500 / REST_PER_SECOND + 10)
    before = told.books.looked_up
    told.cluster.change("w0000", {"spec": {"priority": 1}})
    told.run(3)
    assert told.books.looked_up - before < 10


def test_one_is_written_to_every_ten_seconds_at_most_though_its_place_changes_each_second() -> None:
    told = Told(usual(), [waiting(number) for number in range(60)])
    told.run(20)
    told.writes.clear()
    for number in range(30):
        told.cluster.remove(f"w{number:04}")
        told.run(1)
    assert max(told.writes.values()) <= 4
    assert told.writes.total() <= 4 * 20 + 30
    told.run(10)
    assert told.status("w0030")["position"] == 1


def test_one_that_is_pushed_back_loses_its_position() -> None:
    told = Told(usual(), [waiting(number) for number in range(20)])
    told.run(3)
    told.cluster.put(waiting(100, priority=5))
    told.run(15)
    assert told.status("w0100")["position"] == 1
    assert "position" not in told.status("w0019")
    assert told.reason("w0019") == "BehindAnother"


def test_those_far_back_are_told_again_only_where_a_person_has_to_see_to_something_else() -> None:
    made = tables(flavor(), cluster_queue())
    told = Told(made, [waiting(number) for number in range(40)])
    told.run(3)
    assert told.reason("w0039") == "LocalQueueMissing"
    assert told.writes.total() == 40
    made.local_queues.seen(local_queue())
    told.run(15)
    assert [told.reason(f"w{number:04}") for number in (0, 39)] == ["NoRoom", "BehindAnother"]
    assert told.writes.total() == 80
    made.cluster_queues.seen(cluster_queue(rv=2, generation=2, stop="Hold"))
    told.run(15)
    assert [told.reason(f"w{number:04}") for number in (0, 39)] == ["ClusterQueueStopped"] * 2
    assert told.writes.total() == 120


def test_slices_are_told_too_and_the_job_hears_nothing_of_them() -> None:
    parent = workload_manifest("p", granted=10, count=11)
    made = tables(flavor(), cluster_queue(flavors={"spot": {"cpu": 10}}), local_queue())
    told = Told(made, [parent, slice_manifest("p")])
    written = told.cycle()
    assert [(write.key.name, write.event) for write in written] == [("p-main-0", None)]
    assert told.status("p-main-0")["position"] == 1


def test_a_job_is_told_what_is_wrong_with_its_queue_once() -> None:
    told = Told(tables(), [waiting(0)])
    events = [write.event for write in told.cycle()]
    assert [event and event.reason for event in events] == ["LocalQueueMissing"]
    assert told.run(60) == 0


def test_a_refused_write_is_planned_again_when_it_may_be() -> None:
    told = Told(usual(), [waiting(number) for number in range(21)])
    refused = told.cycle(applies=False)
    assert len(refused) == 21
    for write in refused:
        told.reports.note_not_done(write, 5.0)
    told.clock.seconds = 2
    assert told.cycle() == []
    assert told.reports.next_at is not None
    told.clock.seconds = 5
    assert len(told.cycle()) == 21


def test_one_that_comes_while_its_queue_is_not_looked_at_is_not_told_that_it_is_far_back() -> None:
    told = Told(usual(), [waiting(0)])
    told.cycle()
    told.clock.seconds = 1.2
    told.cluster.tables.flavors.seen(flavor("other"))  # the queue is looked at, and not again for a second
    told.cycle()
    told.clock.seconds = 1.5
    told.cluster.put(waiting(1))
    told.cycle()
    told.clock.seconds = 2.6
    told.cycle()
    assert told.reason("w0001") == "NoRoom"
    assert told.writes["w0001"] == 1


def test_one_that_comes_when_most_have_left_is_not_told_that_it_is_far_back() -> None:
    told = Told(usual(), [waiting(number) for number in range(25)])
    told.run(3)
    for number in range(5, 25):
        told.cluster.put(waiting(number, finished=True))
    told.run(15)
    told.cluster.tables.flavors.seen(flavor("other"))  # the queue is looked at, and not again for a second
    told.cycle()
    told.clock.seconds += 0.3
    told.cluster.put(waiting(30))
    told.cycle()
    told.clock.seconds += 1.1
    told.cycle()
    assert (told.reason("w0030"), told.writes["w0030"], told.status("w0030")["position"]) == ("NoRoom", 1, 6)


def test_what_is_told_is_no_reason_to_look_again() -> None:
    told = Told(usual(), [waiting(number) for number in range(3)])
    assert len(told.cycle()) == 3
    assert told.reports.next_at == AGAIN_SECONDS


def test_what_is_wrong_with_a_slice_is_written_and_not_told_to_the_job() -> None:
    told = Told(
        tables(cluster_queue(), local_queue()), [workload_manifest("p", granted=1, count=2), slice_manifest("p")]
    )
    [write] = told.cycle()
    assert (told.reason("p-main-0"), write.event) == ("FlavorsConflict", None)


def test_an_inactive_one_is_told_and_has_no_position() -> None:
    told = Told(usual(), [waiting(0, active=False)])
    told.run(3)
    assert (told.reason("w0000"), told.status("w0000").get("position")) == ("Inactive", None)


def test_who_waits_for_a_person_gets_no_estimate() -> None:
    admitted = [workload_manifest(f"a{number}", granted=1, admitted_ago=100 - 10 * number) for number in range(5)]
    broken = {"pod_sets": [{"name": "main", "count": 1, "requests": {"example.com/fpga": "1"}}]}
    told = Told(usual(), [*admitted, waiting(0), waiting(1, **broken)])
    told.run(3)
    assert told.status("w0000")["estimatedWaitSeconds"] == 20
    assert told.reason("w0001") == "ResourceNotCovered"
    assert "estimatedWaitSeconds" not in told.status("w0001")


def test_those_far_back_in_a_strict_queue_are_told_when_it_is_no_longer_stopped() -> None:
    made = tables(flavor(), cluster_queue(strict=True, stop="Hold"), local_queue())
    told = Told(made, [waiting(number, cpu=11 + number) for number in range(40)])
    told.run(3)
    assert [told.reason(f"w{number:04}") for number in (0, 39)] == ["ClusterQueueStopped"] * 2
    made.cluster_queues.seen(cluster_queue(strict=True, rv=2, generation=2))
    told.run(15)
    assert [told.reason(f"w{number:04}") for number in (0, 1, 39)] == ["NoRoom", "BehindAnother", "BehindAnother"]
    assert "explain workload" in str(told.status("w0039")["conditions"])
