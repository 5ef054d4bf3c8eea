"""What a cluster is told of its node groups: all of them, whole, and nothing of another cluster's."""

import pytest

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port
from autoscaler.simulation.cloud.faults import Call, Effect
from tests.contract.cloud import worlds
from tests.contract.cloud.worlds import World


async def names(world: World) -> list[str]:
    return [group.name for group in (await world.cloud.groups()).groups]


async def test_a_group_tells_what_its_tags_say(world: World) -> None:
    name = await world.add(worlds.spec("bench.batch.b", minimum=0, maximum=7))
    group = await worlds.group_of(world, name)
    assert group.key == NodeGroupKey(pool="batch", zone=worlds.ZONE, instance_type="m5.large")
    assert (group.minimum, group.maximum, group.desired) == (0, 7, 0)
    assert group.instances == ()
    assert group.node.labels["team"] == "research"
    assert group.node.architecture == "amd64"
    assert [(taint.key, taint.value, taint.effect) for taint in group.node.taints] == [
        (keys.INSTANCE_POOL, "batch", "PreferNoSchedule")
    ]
    assert group.node.resources == {"ephemeral-storage": 20 * 1024**3, keys.GPU_RESOURCE: 1}
    assert group.template is not None


@pytest.mark.accept("G6")
async def test_a_new_a_retagged_and_a_deleted_group_are_known_at_the_next_reading(world: World) -> None:
    first = await world.add(worlds.spec("first"))
    second = await world.add(worlds.spec("second"))
    assert await names(world) == ["first", "second"]
    third = await world.add(worlds.spec("third"))
    await world.give_away(first, "another")
    assert await names(world) == ["second", "third"]
    await world.remove(second)
    assert await names(world) == [third]


async def test_nothing_of_another_cluster_is_told(world: World) -> None:
    await world.add(worlds.spec("ours"))
    foreign = await world.add(worlds.spec("theirs"), cluster="another")
    assert await names(world) == ["ours"]
    assert (await world.cloud.groups([foreign])).groups == ()


@pytest.mark.accept("G6")
async def test_nothing_of_another_cluster_is_touched(world: World) -> None:
    group = await worlds.with_instances(world, "once-ours", 1)
    await world.give_away(group.name, "another")
    await world.cloud.groups()
    raised = await world.cloud.set_desired(group, 2)
    ended = await world.cloud.terminate(group, group.instances[0].id, decrement=True)
    for outcome in (raised, ended):
        assert outcome.verdict is port.Verdict.NOT_DONE
        assert outcome.error is not None
        assert outcome.error.reason is port.Reason.NOT_FOUND
    assert await world.desired_of(group.name) == 1


async def test_only_the_named_groups_are_read_and_absent_ones_are_left_out(world: World) -> None:
    await world.add(worlds.spec("first"))
    second = await world.add(worlds.spec("second"))
    listing = await world.cloud.groups([second, port.GroupName("nowhere")])
    assert [group.name for group in listing.groups] == ["second"]


@pytest.mark.accept("G6")
async def test_a_list_of_many_groups_is_whole_and_takes_a_call_per_hundred(world: World) -> None:
    want = [f"group-{number:03d}" for number in range(101)]
    for name in want:
        await world.add(worlds.spec(name))
    before = world.sent(Call.GROUPS)
    assert await names(world) == want
    assert world.sent(Call.GROUPS) - before == 2


@pytest.mark.parametrize(
    ("effect", "want"),
    [
        (Effect.THROTTLE, port.Reason.THROTTLED),
        (Effect.REFUSE, port.Reason.UNREACHABLE),
        (Effect.LOSE_ANSWER, port.Reason.UNREACHABLE),
        (Effect.DENY, port.Reason.DENIED),
    ],
)
async def test_a_list_that_cannot_be_read_is_an_error_until_it_can(
    world: World, effect: Effect, want: port.Reason
) -> None:
    await world.add(worlds.spec("first"))
    world.fault(effect, Call.GROUPS, times=None)
    with pytest.raises(port.CloudError) as caught:
        await world.cloud.groups()
    assert caught.value.reason is want
    world.clear_faults()
    assert await names(world) == ["first"]
