"""Queues and flavors are held, told of and let go: one write at a time, once a second, and only where it is due."""

from typing import Any

import msgspec
import pytest

from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.reporting import queue_users
from autoscaler.admission.reporting.queue_reports import QueueReports
from autoscaler.admission.state import tally
from autoscaler.admission.writes import On, Write
from autoscaler.api import keys
from autoscaler.kube.objects import Key
from tests.autoscaler.admission.builders import (
    NAMESPACE,
    cluster_queue,
    flavor,
    local_queue,
    namespace,
    pod,
    table_of,
    tables,
    workload,
)
from tests.autoscaler.admission.manual_clock import ManualClock


class Reported:
    """Tables, and what is written about them."""

    def __init__(self, *stored: Any) -> None:
        self.clock = ManualClock()
        self.tables: Tables = tables(*stored)
        self.books = Books(self.tables)
        self.tally = tally.of(self.tables.workloads)
        self.reports = QueueReports(self.clock, self.books, self.tables, self.tally)

    def due(self) -> dict[On, Write]:
        planned = self.reports.due()
        found = {write.on: write for write in planned}
        assert len(found) == len(planned)
        return found

    def later(self, *stored: Any, seconds: float = 1.0) -> dict[On, Write]:
        """Change something, and return what is written a second later."""
        self.due()
        self.clock.seconds += seconds
        for each in stored:
            table_of(self.tables, each).seen(each)
        return self.due()


def held(stored: Any) -> Any:
    """Put our finalizer on an object."""
    meta = msgspec.structs.replace(stored.meta, finalizers=(keys.FINALIZER,))
    return type(stored)(meta=meta, resource=stored.resource)


def test_all_are_held_from_the_start() -> None:
    found = Reported(cluster_queue(), local_queue(), flavor()).due()
    assert {on: (write.step, write.body) for on, write in found.items()} == dict.fromkeys(
        (On.CLUSTER_QUEUE, On.LOCAL_QUEUE, On.FLAVOR), ("hold", {"metadata": {"finalizers": [keys.FINALIZER]}})
    )


def test_what_is_held_says_how_it_stands_and_a_flavor_says_nothing() -> None:
    found = Reported(held(cluster_queue()), held(local_queue()), held(flavor()), workload("a")).due()
    assert sorted(found) == [On.CLUSTER_QUEUE, On.LOCAL_QUEUE]
    assert found[On.CLUSTER_QUEUE].body["pending"] == 1
    assert found[On.LOCAL_QUEUE].body["pending"] == 1


def test_what_nobody_uses_is_let_go_also_if_work_waits_for_it() -> None:
    found = Reported(cluster_queue(deleted=True), local_queue(deleted=True), flavor(deleted=True), workload("a")).due()
    assert {on: (write.step, write.body) for on, write in found.items() if on is not On.FLAVOR} == dict.fromkeys(
        (On.CLUSTER_QUEUE, On.LOCAL_QUEUE), ("release", {"metadata": {"finalizers": None}})
    )
    assert found[On.FLAVOR].body["conditions"][0]["message"] == "ClusterQueues: team"


def test_what_is_used_says_who_uses_it_and_goes_when_nobody_does() -> None:
    made = Reported(cluster_queue(deleted=True), local_queue(deleted=True), flavor(deleted=True))
    made.tables.cluster_queues.gone(cluster_queue(rv=2).meta)
    found = made.later(workload("a", granted=1))
    assert {on: write.body["conditions"][-1]["message"] for on, write in found.items()} == dict.fromkeys(
        (On.LOCAL_QUEUE, On.FLAVOR), "Workloads: team/a"
    )
    found = made.later(workload("a", rv=2))
    assert {on: write.step for on, write in found.items()} == {On.LOCAL_QUEUE: "release", On.FLAVOR: "release"}


def test_pods_without_a_workload_use_quota_too() -> None:
    made = Reported(cluster_queue(deleted=True), flavor(deleted=True), pod("p"))
    assert queue_users.of_cluster_queue(made.books, made.tally, "team") == "pods without a Workload"
    made.tables.cluster_queues.gone(cluster_queue(rv=2).meta)
    assert queue_users.of_flavor(made.books, made.tally, "spot") == "pods without a Workload"
    made.later()
    found = made.later(pod("p", phase="Succeeded", rv=2))
    assert found[On.FLAVOR].step == "release"


def test_a_few_users_are_named() -> None:
    made = Reported(*(workload(name, granted=1) for name in "edcba"))
    want = "Workloads: team/a, team/b, team/c and 2 more"
    assert queue_users.of_local_queue(made.tally, Key(NAMESPACE, "door")) == want


def test_an_object_is_written_to_once_a_second() -> None:
    made = Reported(held(cluster_queue()), held(local_queue()))
    assert On.CLUSTER_QUEUE in made.due()
    assert made.later(workload("a"), seconds=0.5) == {}
    assert made.reports.next_at == 1.0
    made.clock.seconds = 1.0
    assert made.due()[On.CLUSTER_QUEUE].body["pending"] == 1


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        (cluster_queue(rv=2), {On.CLUSTER_QUEUE}),
        (cluster_queue(rv=2, generation=2), {On.CLUSTER_QUEUE, On.LOCAL_QUEUE}),
        (cluster_queue(rv=2, deleted=True), {On.CLUSTER_QUEUE, On.LOCAL_QUEUE}),
        (local_queue(rv=2), {On.LOCAL_QUEUE}),
        (local_queue(rv=2, deleted=True), {On.CLUSTER_QUEUE, On.LOCAL_QUEUE}),
        (flavor(rv=2), set()),
        (flavor(rv=2, deleted=True), {On.CLUSTER_QUEUE, On.LOCAL_QUEUE, On.FLAVOR}),
    ],
)
def test_others_are_looked_at_only_where_more_than_a_status_changed(changed: Any, want: set[On]) -> None:
    made = Reported(held(cluster_queue()), held(local_queue()), held(flavor()))
    assert made.later(held(changed)).keys() == want


def test_a_flavor_that_comes_and_a_namespace_that_changes_are_told_by_the_queues() -> None:
    selector = {"matchLabels": {"kind": "research"}}
    made = Reported(held(cluster_queue(namespaceSelector=selector)), held(local_queue()))
    found = made.later(flavor())
    assert found[On.CLUSTER_QUEUE].body["conditions"][0]["reason"] == "Ready"
    assert found[On.LOCAL_QUEUE].body["conditions"][0]["reason"] == "NamespaceRefused"
    found = made.later(namespace(rv=2, kind="research"))
    assert {on: write.body["conditions"][0]["reason"] for on, write in found.items()} == {On.LOCAL_QUEUE: "Ready"}


def test_a_queue_that_stops_is_told_by_its_local_queues() -> None:
    made = Reported(held(cluster_queue()), held(local_queue()), held(flavor()))
    found = made.later(held(cluster_queue(stop="Hold", rv=2, generation=2)))
    assert {write.body["conditions"][0]["reason"] for write in found.values()} == {"ClusterQueueStopped"}
    assert sorted(found) == [On.CLUSTER_QUEUE, On.LOCAL_QUEUE]


def test_a_refused_write_is_planned_again_when_it_may_be() -> None:
    made = Reported(flavor())
    write = made.due()[On.FLAVOR]
    made.reports.note_not_done(write, 7.0)
    made.clock.seconds = 6.0
    assert made.due() == {}
    made.clock.seconds = 7.0
    assert made.due()[On.FLAVOR].step == "hold"


def test_numbers_of_a_cluster_queue_are_those_of_all_its_doors() -> None:
    made = Reported(
        cluster_queue(),
        local_queue(),
        local_queue("side"),
        local_queue("else", queue="other"),
        workload("a", age=50),
        workload("b", queue="side", age=90),
        workload("c", queue="else", age=500),
        workload("d", granted=2, count=2),
    )
    numbers = made.reports.numbers("team")
    assert (numbers.pending, numbers.admitted, list(numbers.usage.values())) == (2, 1, [2000])
    assert made.reports.waits_since("team") == made.clock.now() - 90
    assert made.reports.waits_since("nobody") is None
