"""Pods that must share a host with others: they join one that is there, or go to one node together."""

from typing import Any

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders, checker
from tests.autoscaler.capacity.builders import demand, group, room, situation

WEB, CACHE = {"app": "web"}, {"app": "cache"}
BY_CACHE = builders.together(keys.HOSTNAME, CACHE)
BY_WEB = builders.together(keys.HOSTNAME, WEB)


def placed(*demands: model.Demand, **parts: Any) -> model.Placement:
    asked = situation(*demands, **parts)
    result = placement.place(asked)
    assert checker.violations(asked, result) == []
    return result


def reasons(result: model.Placement) -> list[model.Reason]:
    return [why.reason for one in result.unplaced for why in one.rejections]


def counts(fillings: tuple[model.Filling, ...]) -> list[tuple[int, list[int]]]:
    return [(each.nodes, sorted(share.count for share in each.shares)) for each in fillings]


def test_a_pod_joins_the_one_it_names_on_its_host_and_nowhere_else() -> None:
    rooms = [room("free", cpu_millis=4000), room("home", cpu_millis=2000, residents=[builders.resident(CACHE)])]
    result = placed(demand(count=3, affinity=BY_CACHE), rooms=rooms, groups=[group()])
    assert [(landing.room, landing.shares[0].count) for landing in result.landings] == [("home", 2)]
    assert (result.launches, reasons(result)) == ((), [model.Reason.HOST_AFFINITY])


def test_a_pod_whose_companion_is_nowhere_starts_nothing() -> None:
    result = placed(demand(affinity=BY_CACHE), rooms=[room()], groups=[group()])
    assert (result.landings, result.launches, reasons(result)) == ((), (), [model.Reason.HOST_AFFINITY])


def test_pods_that_stay_together_get_one_node_that_holds_them_all() -> None:
    groups = [group("a", 2000), group("b", 4000), group("c", 16_000)]
    rooms = [room(cpu_millis=4500)]
    result = placed(demand(count=5, labels=WEB, affinity=BY_WEB), groups=groups, rooms=rooms)
    assert counts(result.launches) == [(1, [5])]
    assert (result.launches[0].key.zone, result.landings) == ("c", ())


def test_pods_of_several_kinds_that_stay_together_share_it() -> None:
    kinds = [demand(size, count=2, labels=WEB, affinity=BY_WEB) for size in (500, 1000, 1500)]
    result = placed(*kinds, groups=[group("a", 4000), group("b", 8000)])
    assert counts(result.launches) == [(1, [2, 2, 2])]
    assert result.launches[0].key.zone == "b"


def test_pods_that_stay_together_use_room_that_holds_them_all_before_a_node_asked_for_before_a_new_one() -> None:
    pods = demand(count=3, labels=WEB, affinity=BY_WEB)
    asked = [model.Asked(key=builders.key(), template=builders.template(cpu_millis=4000), nodes=2)]
    result = placed(pods, rooms=[room("small", cpu_millis=2000), room("large", cpu_millis=3000)], asked=asked)
    assert [(landing.room, landing.shares[0].count) for landing in result.landings] == [("large", 3)]
    result = placed(pods, rooms=[room("small", cpu_millis=2000)], asked=asked, groups=[group()])
    assert (counts(result.expected), result.launches) == ([(1, [3])], ())


def test_pods_that_no_node_holds_all_of_start_none_and_are_told_so() -> None:
    result = placed(demand(count=5, labels=WEB, affinity=BY_WEB), groups=[group("a", 4000)], rooms=[room()])
    (unplaced,) = result.unplaced
    whole, small = unplaced.rejections
    assert (result.launches, result.landings, unplaced.count) == ((), (), 5)
    assert (whole.reason, whole.wanted) == (model.Reason.NO_HOST, 5)
    assert (small.reason, small.what, small.wanted) == (model.Reason.INSUFFICIENT, "cpu", 5000)


def test_who_stays_together_joins_those_that_run_already() -> None:
    home = room("home", cpu_millis=1000, residents=[builders.resident(WEB)])
    result = placed(demand(count=2, labels=WEB, affinity=BY_WEB), rooms=[home], groups=[group()])
    assert (counts(result.launches), reasons(result)) == ([], [model.Reason.HOST_AFFINITY])
    assert result.landings[0].shares[0].count == 1


def test_who_must_share_a_host_and_may_not_share_it_goes_nowhere() -> None:
    affinity = {**BY_WEB, **builders.apart(keys.HOSTNAME, WEB)}
    result = placed(demand(count=2, labels=WEB, affinity=affinity), groups=[group("a", 16_000)])
    assert (result.launches, reasons(result)[0]) == ((), model.Reason.NO_HOST)
    alone = placed(demand(labels=WEB, affinity=affinity), groups=[group()])
    assert counts(alone.launches) == [(1, [1])]


def test_a_new_node_for_a_pod_holds_those_that_must_join_it() -> None:
    caches = demand(1000, count=3, labels=CACHE, affinity=builders.apart(keys.HOSTNAME, CACHE))
    webs = demand(1000, count=3, labels=WEB, affinity={**BY_CACHE, **builders.apart(keys.HOSTNAME, WEB)})
    result = placed(caches, webs, groups=[group("a", 4000)])
    assert (sum(result.new_nodes().values()), result.unplaced) == (3, ())


def test_limits_and_maxima_hold_for_those_that_stay_together() -> None:
    pods = demand(count=2, labels=WEB, affinity=BY_WEB)
    result = placed(pods, groups=[group("a", of={"more": 0, "nodes": 3})])
    assert (result.launches, reasons(result)) == ((), [model.Reason.NO_HOST, model.Reason.AT_MAXIMUM])
