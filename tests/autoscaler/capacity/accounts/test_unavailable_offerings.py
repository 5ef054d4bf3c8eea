"""How long an offering that the provider did not have is left alone."""

from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.accounts import unavailable_offerings
from autoscaler.capacity.records import record_index
from autoscaler.capacity.snapshot import Unavailable
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen

Lacks = dict[cloud.GroupName, unavailable_offerings.Lack]


def failed(failure: cloud.LaunchFailure = cloud.LaunchFailure.INSUFFICIENT_CAPACITY) -> cloud.Activity:
    return cloud.Activity(
        id="1",
        kind=cloud.ActivityKind.LAUNCH,
        started_at=seen.NOW,
        failure=failure,
        message="no room",
    )


def test_each_failure_in_a_row_doubles_the_time_up_to_an_hour() -> None:
    noted: Unavailable | None = None
    times = []
    for _ in range(8):
        noted = unavailable_offerings.note(noted, failed(), 0.0)
        times.append(noted.until)
    assert times == [180, 360, 720, 1440, 2880, 3600, 3600, 3600]


def test_a_type_that_a_zone_does_not_offer_is_left_alone_for_long() -> None:
    noted = unavailable_offerings.note(None, failed(cloud.LaunchFailure.UNSUPPORTED), 0.0)
    assert noted.until == 6 * 3600


def test_a_shortage_is_remembered_for_a_while_after_its_end_so_that_the_next_one_lasts_longer() -> None:
    key = seen.group().key
    known = {key: Unavailable(until=100.0, reason="InsufficientCapacity")}
    assert unavailable_offerings.current(known, 100.0 + 3599, {}) == known
    assert unavailable_offerings.current(known, 100.0 + 3600, {}) == {}
    assert unavailable_offerings.next_end(known, 50.0) == 100.0
    assert unavailable_offerings.next_end(known, 100.0) is None


def test_a_shortage_is_forgotten_once_an_instance_of_the_offering_that_was_launched_since_is_a_finished_node() -> None:
    group = seen.group("i-1")
    known = {group.key: Unavailable(until=200.0, reason="InsufficientCapacity", failures=4, since=100.0)}

    def left(launched_at: float, *, finished: bool = True) -> dict[NodeGroupKey, Unavailable]:
        snapshot = seen.snapshot(
            groups=(group,),
            records=record_index.IndexedRecords(were_ready=frozenset({"aws:///a/i-1"} if finished else ())),
            launched_at={cloud.InstanceId("i-1"): launched_at},
        )
        return unavailable_offerings.current(known, 150.0, unavailable_offerings.came(snapshot))

    assert left(101.0) == {}
    assert left(99.0) == known
    assert left(101.0, finished=False) == known


def test_a_group_asks_for_what_it_has_after_a_failed_launch_and_where_an_instance_came_late() -> None:
    short, late = seen.group("i-1", desired=3), seen.group("i-2", "i-3", zone="b", desired=1)
    usual = seen.group("i-4", zone="c", desired=2)
    snapshot = seen.snapshot(groups=(short, late, usual), failed=frozenset({short.name}))
    want = [(short.name, 3, 1), (late.name, 1, 2)]
    assert [(each.group, each.before, each.after) for each in unavailable_offerings.resizes(snapshot)] == want
    least = seen.group("i-1", desired=3, minimum=2)
    (resize,) = unavailable_offerings.resizes(seen.snapshot(groups=(least,), failed=frozenset({least.name})))
    assert resize.after == 2


def lacking(
    before: dict[cloud.GroupName, unavailable_offerings.Lack], *instances: str, at: float, desired: int
) -> unavailable_offerings.Lack:
    """Look at a group whose instances may take 100 seconds, so long after the first time."""
    pools = {"workers": seen.pool(registrationTimeoutSeconds=100)}
    group = seen.group(*instances, desired=desired)
    found = unavailable_offerings.lacking(seen.snapshot(now=seen.NOW + at, groups=(group,), pools=pools), before)
    before |= found
    return found[group.name]


def test_what_was_asked_for_and_never_came_is_over_after_the_registration_timeout() -> None:
    known: Lacks = {}
    assert lacking(known, at=0, desired=1).until == seen.NOW + 100
    assert not lacking(known, at=99, desired=2).is_over  # who asks for more waits no longer
    assert lacking(known, at=100, desired=2).is_over
    assert lacking(known, at=150, desired=2).is_over
    assert lacking(known, at=160, desired=3).until == seen.NOW + 260  # it is tried once more


def test_an_instance_that_comes_gives_the_others_as_much_time_again() -> None:
    known: Lacks = {}
    lacking(known, at=0, desired=3)
    assert lacking(known, "i-1", at=90, desired=3).until == seen.NOW + 190
    assert lacking(known, at=120, desired=3).until == seen.NOW + 190  # one that goes does not


def test_a_group_that_has_all_it_asked_for_lacks_nothing() -> None:
    assert unavailable_offerings.lacking(seen.snapshot(groups=(seen.group("i-1"),)), {}) == {}
