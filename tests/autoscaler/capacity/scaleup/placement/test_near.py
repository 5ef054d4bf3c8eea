"""Pods that must be near others by a label of nodes that is neither host nor zone."""

from typing import Any

from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders, checker
from tests.autoscaler.capacity.builders import demand, group, room, situation

WEB, CACHE = {"app": "web"}, {"app": "cache"}
ONE, TWO = {"rack": "1"}, {"rack": "2"}


def placed(*demands: model.Demand, **parts: Any) -> model.Placement:
    asked = situation(*demands, **parts)
    result = placement.place(asked)
    assert checker.violations(asked, result) == []
    return result


def zones(result: model.Placement) -> set[str]:
    return {key.zone for key in result.new_nodes()}


def reasons(result: model.Placement) -> dict[model.Reason, int]:
    return {why.reason: len(why.groups) for one in result.unplaced for why in one.rejections}


def test_a_pod_goes_where_nodes_share_the_label_of_the_one_that_it_names() -> None:
    there = room("old", cpu_millis=0, labels=TWO, residents=[builders.resident(CACHE)])
    groups = [group("a", labels=ONE), group("b", labels=TWO), group("c")]
    result = placed(demand(count=3, affinity=builders.together("rack", CACHE)), rooms=[there], groups=groups)
    assert (zones(result), result.unplaced) == ({"b"}, ())


def test_a_group_whose_nodes_are_not_known_to_have_the_label_says_so() -> None:
    there = room("old", cpu_millis=0, labels=TWO, residents=[builders.resident(CACHE)])
    groups = [group("a", labels=ONE), group("c")]
    result = placed(demand(affinity=builders.together("rack", CACHE)), rooms=[there], groups=groups)
    assert reasons(result) == {model.Reason.NO_LABEL: 1, model.Reason.LABEL_AFFINITY: 1}


def test_pods_that_only_one_another_can_satisfy_go_to_one_value_that_takes_them() -> None:
    groups = [group("a", labels=ONE, of={"more": 0}), group("b", labels=TWO), group("c", labels=TWO)]
    kinds = [demand(size, count=8, labels=WEB, affinity=builders.together("rack", WEB)) for size in (1000, 2000)]
    result = placed(*kinds, groups=groups)
    assert (zones(result) <= {"b", "c"}, result.unplaced) == (True, ())


def test_who_must_be_near_a_pod_that_is_nowhere_or_waits_itself_waits() -> None:
    follower = demand(affinity=builders.together("rack", CACHE))
    groups = [group("a", labels=ONE), group("b", labels=TWO)]
    assert reasons(placed(follower, groups=groups)) == {model.Reason.LABEL_AFFINITY: 2}
    result = placed(follower, demand(labels=CACHE), groups=groups)
    assert (sum(result.new_nodes().values()), len(result.unplaced)) == (1, 1)
