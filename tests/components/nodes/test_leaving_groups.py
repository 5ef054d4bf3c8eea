"""What a preview says of groups that leave: which, of which pool, with how many nodes, and what becomes of these."""

from autoscaler.api import keys
from components.nodes import leaving_groups
from components.nodes.leaving_groups import KnownGroup


def group(name: str, nodes: int = 0, *, pool: str = "workers", cluster: str = "bench") -> KnownGroup:
    tags = {keys.INSTANCE_POOL: pool, keys.cluster_tag(cluster): "owned"}
    return KnownGroup(name=name, nodes=nodes, tags=tags)


def told(*groups: KnownGroup, undrained: tuple[str, ...] = ()) -> list[str]:
    return list(leaving_groups.warnings(groups, undrained=undrained))


def test_the_outputs_of_a_stack_name_its_groups() -> None:
    assert leaving_groups.named({}) == set()
    rows = [{"name": "a", "pool": "workers"}, {"name": "b", "pool": "workers"}]
    outputs = {"version": "1", "clusters": {"one": {"autoScalingGroups": rows}, "bare": {"name": "bare"}}}
    assert leaving_groups.named(outputs) == {"a", "b"}


def test_the_state_knows_their_pools_and_nodes() -> None:
    tags = [{"key": keys.INSTANCE_POOL, "value": "workers", "propagateAtLaunch": True}]
    outputs = {"name": "a", "desiredCapacity": 2.0, "tags": tags}
    other = {"type": "aws:ec2/vpc:Vpc", "outputs": {}}
    found = leaving_groups.groups_in({"one": {"type": leaving_groups.GROUP, "outputs": outputs}, "two": other})
    assert [(each.name, each.pool, each.nodes) for each in found] == [("a", "workers", 2)]


def test_each_pool_names_its_groups_that_leave_and_their_nodes() -> None:
    found = told(group("b", 2), group("a", 1), group("d", pool="gpu"))
    assert [each.partition(";")[0] for each in found] == [
        "pool gpu loses 1 Auto Scaling group with 0 nodes, as of the last update or refresh: d (0)",
        "pool workers loses 2 Auto Scaling groups with 3 nodes, as of the last update or refresh: a (1), b (2)",
    ]
    assert all("drained first" in each for each in found)


def test_a_few_are_named_and_all_are_counted() -> None:
    [found] = told(*(group(f"g{number:02}", 1) for number in range(12)))
    assert "loses 12 Auto Scaling groups with 12 nodes" in found
    assert "g09 (1), 2 more;" in found
    assert "g10" not in found


def test_where_another_scaler_works_nobody_drains() -> None:
    [found, other] = told(group("a"), group("b", cluster="theirs"), undrained=("theirs",))
    assert "b (0); nobody drains them: their instances end with the work on them" in found
    assert "a (0); their nodes are drained first" in other
