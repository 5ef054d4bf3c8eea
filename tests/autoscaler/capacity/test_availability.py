"""How long an offering that the provider did not have is left alone."""

from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity import availability
from autoscaler.capacity.snapshot import Unavailable
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen


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
        noted = availability.note(noted, failed(), 0.0)
        times.append(noted.until)
    assert times == [180, 360, 720, 1440, 2880, 3600, 3600, 3600]


def test_a_type_that_a_zone_does_not_offer_is_left_alone_for_long() -> None:
    noted = availability.note(None, failed(cloud.LaunchFailure.UNSUPPORTED), 0.0)
    assert noted.until == 6 * 3600


def test_a_shortage_is_remembered_for_a_while_after_its_end_so_that_the_next_one_lasts_longer() -> None:
    key = seen.group().key
    known = {key: Unavailable(until=100.0, reason="InsufficientCapacity")}
    assert availability.current(known, 100.0 + 3599, {}) == known
    assert availability.current(known, 100.0 + 3600, {}) == {}
    assert availability.next_end(known, 50.0) == 100.0
    assert availability.next_end(known, 100.0) is None


def test_a_shortage_is_forgotten_once_an_instance_of_the_offering_that_was_launched_since_is_a_ready_node() -> None:
    group = seen.group("i-1")
    known = {group.key: Unavailable(until=200.0, reason="InsufficientCapacity", failures=4, since=100.0)}

    def left(launched_at: float, *, ready: bool = True) -> dict[NodeGroupKey, Unavailable]:
        snapshot = seen.snapshot(
            groups=(group,),
            nodes=[seen.node(instance="i-1", ready=ready)],
            launched_at={cloud.InstanceId("i-1"): launched_at},
        )
        return availability.current(known, 150.0, availability.came(snapshot))

    assert left(101.0) == {}
    assert left(99.0) == known
    assert left(101.0, ready=False) == known
