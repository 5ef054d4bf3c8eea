"""Waiting pods go where Kubernetes would let them run, on as few nodes as they need, or nowhere with a reason."""

import dataclasses
from collections import Counter
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders, checker
from tests.autoscaler.capacity.builders import demand, group, room, situation

NO = model.Rejection(reason=model.Reason.SUSPENDED)
WEB = {"app": "web"}
ZONES = ("a", "b", "c")
CARD: dict[str, Any] = {"example.com/card": 1}


def placed(*demands: model.Demand, **parts: Any) -> model.Placement:
    """Place, and have the result checked."""
    policy = parts.pop("policy", model.Policy())
    asked = situation(*demands, **parts)
    result = placement.place(asked, policy)
    assert checker.violations(asked, result) == []
    return result


def by_zone(result: model.Placement) -> Counter[str]:
    """Count pods on new nodes by zone."""
    counts: Counter[str] = Counter()
    for launch in result.launches:
        counts[launch.key.zone] += launch.nodes * sum(share.count for share in launch.shares)
    return counts


def nodes(result: model.Placement) -> int:
    return sum(result.new_nodes().values())


def reasons(result: model.Placement) -> dict[model.Reason, model.Rejection]:
    return {rejection.reason: rejection for one in result.unplaced for rejection in one.rejections}


def test_nothing_waits_and_nothing_is_launched() -> None:
    assert placed(groups=[group()]) == model.Placement()


def test_pods_use_free_room_before_nodes_asked_for_before_new_nodes() -> None:
    result = placed(
        demand(1000, count=7),
        rooms=[room(cpu_millis=2000)],
        asked=[model.Asked(key=builders.key(), template=builders.template(cpu_millis=4000), nodes=1)],
        groups=[group()],
    )
    assert [share.count for landing in result.landings for share in landing.shares] == [2]
    assert [(filling.nodes, filling.shares[0].count) for filling in result.expected] == [(1, 4)]
    assert [(filling.nodes, filling.shares[0].count) for filling in result.launches] == [(1, 1)]


def test_equal_nodes_are_told_as_one_run_however_many_pods_there_are() -> None:
    result = placed(demand(1000, count=400), groups=[group(of={"more": 1000})])
    assert [(filling.nodes, filling.shares[0].count) for filling in result.launches] == [(100, 4)]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param({"memory_gib": 9}, 2, id="memory"),
        pytest.param({"requests": {"example.com/card": "1"}}, 2, id="devices"),
        pytest.param({"cpu_millis": 1}, 1, id="neither"),
    ],
)
def test_every_resource_counts(made: dict[str, Any], want: int) -> None:
    assert nodes(placed(demand(**made, count=2), groups=[group(**CARD)])) == want


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    assert nodes(placed(demand(1, 0, count=25), groups=[group(pods=10)])) == 3


def test_what_does_not_fit_names_the_resource_and_both_numbers() -> None:
    result = placed(demand(5000, count=3), groups=[group("a"), group("b")])
    (unplaced,) = result.unplaced
    want = model.Rejection(
        reason=model.Reason.INSUFFICIENT,
        groups=(builders.key("a"), builders.key("b")),
        what="cpu",
        wanted=5000,
        available=4000,
    )
    assert (unplaced.count, unplaced.rejections) == (3, (want,))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"nodeSelector": {"node.type": "gpu"}}, "gpu"),
        ({"affinity": builders.node_affinity({"key": "node.type", "operator": "In", "values": ["gpu"]})}, "gpu"),
        ({"affinity": builders.node_affinity({"key": "node.type", "operator": "NotIn", "values": ["gpu"]})}, "cpu"),
        ({"affinity": builders.node_affinity({"key": "cards", "operator": "Exists"})}, "gpu"),
        ({"affinity": builders.node_affinity({"key": "cards", "operator": "DoesNotExist"})}, "cpu"),
        ({"affinity": builders.node_affinity({"key": "cards", "operator": "Gt", "values": ["7"]})}, "gpu"),
        ({"affinity": builders.node_affinity({"key": "cores", "operator": "Lt", "values": ["10"]})}, "cpu"),
        ({"tolerations": [{"key": "cards", "operator": "Exists"}], "nodeSelector": {"cards": "8"}}, "gpu"),
    ],
)
def test_node_selection(spec: dict[str, Any], want: str) -> None:
    tolerations = [{"operator": "Exists"}]
    gpu = group(
        pool="gpu", labels={"node.type": "gpu", "cards": "8", "cores": "96"}, taints=[("cards", "", "NoSchedule")]
    )
    cpu = group(pool="cpu", labels={"node.type": "cpu", "cores": "8"})
    result = placed(demand(**{"tolerations": tolerations, **spec}), groups=[cpu, gpu])
    assert [key.pool for key in result.new_nodes()] == [want]


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_keeps_away_who_does_not_tolerate_it(effect: str) -> None:
    groups = [group(taints=[("only", "us", effect)])]
    assert reasons(placed(demand(), groups=groups))[model.Reason.TAINT].what == f"only=us:{effect}"
    us = [{"key": "only", "value": "us", "effect": effect}]
    assert nodes(placed(demand(tolerations=us), groups=groups)) == 1
    others = [{"key": "only", "value": "them"}]
    assert placed(demand(tolerations=others), groups=groups).unplaced


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert nodes(placed(demand(), groups=[group(taints=[("pool", "x", "PreferNoSchedule")])])) == 1


def test_a_pod_that_names_its_node_goes_there_and_to_no_new_one() -> None:
    named = builders.node_affinity(
        {"key": "metadata.name", "operator": "In", "values": ["node-2"]}, field="matchFields"
    )
    parts = {"rooms": [room("node-1"), room("node-2")], "groups": [group()]}
    result = placed(demand(affinity=named, count=9), **parts)
    assert [landing.room for landing in result.landings] == ["node-2"]
    assert reasons(result).keys() == {model.Reason.AFFINITY}


def test_pods_that_keep_apart_get_a_node_each() -> None:
    alone = demand(100, count=20, labels=WEB, affinity=builders.apart(keys.HOSTNAME, WEB))
    result = placed(alone, demand(100, count=40), groups=[group(zone) for zone in ZONES])
    assert nodes(result) == 20
    assert result.unplaced == ()


def test_pods_that_need_a_node_each_take_others_in() -> None:
    alone = demand(100, count=2, labels=WEB, affinity=builders.apart(keys.HOSTNAME, WEB))
    assert nodes(placed(alone, demand(1000, count=8), groups=[group()])) == 3


def test_pods_keep_away_from_others_that_they_name_and_that_name_them() -> None:
    loud = demand(100, count=2, labels={"app": "loud"}, affinity=builders.apart(keys.HOSTNAME, WEB))
    result = placed(loud, demand(100, count=2, labels=WEB), groups=[group()])
    assert nodes(result) == 2
    shy = builders.resident({"app": "shy"}, affinity=builders.apart(keys.HOSTNAME, WEB))
    result = placed(demand(100, labels=WEB), rooms=[room(residents=[shy])], groups=[group()])
    assert nodes(result) == 1


def test_a_rule_speaks_of_its_own_namespace_unless_it_names_others() -> None:
    here = demand(100, labels=WEB, affinity=builders.apart(keys.HOSTNAME, WEB))
    assert nodes(placed(here, demand(100, labels=WEB, namespace="other"), groups=[group()])) == 1
    both = builders.apart(keys.HOSTNAME, WEB, namespaces=["default", "other"])
    wide = demand(100, labels=WEB, affinity=both)
    assert nodes(placed(wide, demand(100, labels=WEB, namespace="other"), groups=[group()])) == 2


def test_a_rule_may_select_namespaces_by_their_labels() -> None:
    wide = builders.apart(keys.HOSTNAME, WEB, namespaceSelector={"matchLabels": {"team": "x"}})
    demands = (demand(100, labels={"app": "y"}, affinity=wide), demand(100, labels=WEB, namespace="theirs"))
    groups = (group(),)
    for team, want in (("x", 2), ("y", 1)):
        asked = model.Situation(demands=demands, groups=groups, namespaces={"theirs": {"team": team}})
        result = placement.place(asked)
        assert (nodes(result), checker.violations(asked, result)) == (want, [])


def test_a_port_of_the_host_is_used_once() -> None:
    port = {"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "100m"}}}
    assert nodes(placed(demand(count=3, containers=[port]), groups=[group()])) == 3


def test_a_port_that_daemons_use_on_new_nodes_is_not_free_there() -> None:
    port = {"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "100m"}}}
    taken = dataclasses.replace(builders.template("b"), host_ports=frozenset({("TCP", 80), ("UDP", 53)}))
    groups = [group("a"), dataclasses.replace(group("b"), template=taken)]
    assert list(placed(demand(count=3, containers=[port]), groups=groups).new_nodes()) == [builders.key("a")]
    asked = [model.Asked(key=builders.key("b"), template=taken, nodes=1)]
    result = placed(demand(containers=[port]), groups=groups[1:], asked=asked)
    assert (nodes(result), result.expected, reasons(result)[model.Reason.HOST_PORT].what) == (0, (), "80")
    other = {**port, "ports": [{"hostPort": 53}]}
    assert nodes(placed(demand(containers=[other]), groups=groups[1:])) == 1  # another protocol


def test_a_spread_over_hosts_bounds_what_a_host_gets() -> None:
    wide = demand(100, count=12, labels=WEB, topologySpreadConstraints=builders.spread(keys.HOSTNAME, WEB, max_skew=3))
    assert nodes(placed(wide, groups=[group()])) == 4


def test_a_spread_over_zones_is_even() -> None:
    wide = demand(count=31, labels=WEB, topologySpreadConstraints=builders.spread(keys.ZONE, WEB))
    assert sorted(by_zone(placed(wide, groups=[group(zone) for zone in ZONES])).values()) == [10, 10, 11]


def test_a_spread_counts_the_pods_that_are_there() -> None:
    wide = demand(count=6, labels=WEB, topologySpreadConstraints=builders.spread(keys.ZONE, WEB))
    crowd = [room("old", "a", cpu_millis=0, residents=[builders.resident(WEB)] * 4)]
    assert by_zone(placed(wide, rooms=crowd, groups=[group(zone) for zone in ZONES])) == {"b": 3, "c": 3}


def test_a_full_zone_holds_a_spread_back_and_the_numbers_are_told() -> None:
    wide = demand(2000, count=30, labels=WEB, topologySpreadConstraints=builders.spread(keys.ZONE, WEB))
    groups = [group("a"), group("b", of={"more": 2}), group("c")]
    result = placed(wide, groups=groups)
    assert by_zone(result) == {"a": 5, "b": 4, "c": 5}
    assert reasons(result)[model.Reason.AT_MAXIMUM].groups == (builders.key("b"),)
    held = reasons(result)[model.Reason.ZONE_SPREAD]
    assert (held.wanted, held.available) == (2, 1)


def test_a_zone_without_any_node_or_group_is_no_domain() -> None:
    wide = demand(count=9, labels=WEB, topologySpreadConstraints=builders.spread(keys.ZONE, WEB))
    groups = [group("a"), group("b"), group("c", of={"refused": NO})]
    assert sum(by_zone(placed(wide, groups=groups)).values()) == 9


def test_a_spread_that_wants_more_zones_than_there_are_stays_at_its_skew() -> None:
    few = builders.spread(keys.ZONE, WEB, minDomains=3)
    result = placed(demand(count=9, labels=WEB, topologySpreadConstraints=few), groups=[group("a"), group("b")])
    assert by_zone(result) == {"a": 1, "b": 1}
    assert result.unplaced[0].count == 7


def test_several_spreads_hold_at_once() -> None:
    both = [*builders.spread(keys.ZONE, WEB), *builders.spread(keys.ZONE, {"tier": "x"}, max_skew=2)]
    labels = {**WEB, "tier": "x"}
    result = placed(
        demand(count=20, labels=labels, topologySpreadConstraints=both), groups=[group(zone) for zone in ZONES]
    )
    assert sorted(by_zone(result).values()) == [6, 7, 7]


def test_pods_that_belong_together_go_to_one_zone() -> None:
    job = {"job": "train"}
    parts = [demand(size, count=10, labels=job, affinity=builders.together(keys.ZONE, job)) for size in (500, 1500)]
    result = placed(*parts, groups=[group(zone) for zone in ZONES])
    assert list(by_zone(result).values()) == [20]


def test_a_job_moves_as_a_whole_where_its_zone_has_too_little() -> None:
    job = {"job": "train"}
    groups = [group("a", of={"more": 2}), group("b", of={"more": 3}), group("c", of={"more": 10})]
    for count, want in ((8, "a"), (12, "b"), (20, "c")):
        result = placed(demand(count=count, labels=job, affinity=builders.together(keys.ZONE, job)), groups=groups)
        assert result.unplaced == ()
        assert by_zone(result)[want] or want != "c"
        assert len(by_zone(result)) == 1


def test_a_job_that_fits_in_no_zone_goes_where_most_of_it_fits() -> None:
    job = {"job": "train"}
    groups = [group("a", of={"more": 2}), group("b", of={"more": 3})]
    result = placed(demand(count=40, labels=job, affinity=builders.together(keys.ZONE, job)), groups=groups)
    assert by_zone(result) == {"b": 12}
    assert reasons(result).keys() == {model.Reason.AT_MAXIMUM, model.Reason.ZONE_AFFINITY}


def test_pods_follow_those_that_are_there() -> None:
    there = [room("old", "b", cpu_millis=0, residents=[builders.resident(WEB)])]
    near = demand(count=5, affinity=builders.together(keys.ZONE, WEB))
    assert list(by_zone(placed(near, rooms=there, groups=[group(zone) for zone in ZONES]))) == ["b"]


def test_pods_follow_those_that_wait_with_them() -> None:
    near = demand(count=5, labels={"app": "cache"}, affinity=builders.together(keys.ZONE, WEB))
    result = placed(near, demand(labels=WEB, nodeSelector={keys.ZONE: "c"}), groups=[group(zone) for zone in ZONES])
    assert by_zone(result) == {"c": 6}


def test_pods_whose_company_is_nowhere_wait() -> None:
    result = placed(demand(affinity=builders.together(keys.ZONE, WEB)), groups=[group(zone) for zone in ZONES])
    assert reasons(result).keys() == {model.Reason.ZONE_AFFINITY}


def test_pods_that_keep_apart_by_zone_get_a_zone_each() -> None:
    rivals = demand(count=5, labels=WEB, affinity=builders.apart(keys.ZONE, WEB))
    result = placed(rivals, groups=[group(zone) for zone in ZONES])
    assert by_zone(result) == {"a": 1, "b": 1, "c": 1}
    assert reasons(result).keys() == {model.Reason.ZONE_ANTI_AFFINITY}


def test_rivals_of_several_sizes_and_those_that_are_there_keep_apart_by_zone() -> None:
    rivals = [demand(size, labels=WEB, affinity=builders.apart(keys.ZONE, WEB)) for size in (500, 600, 700)]
    result = placed(*rivals, groups=[group("a"), group("b")])
    assert (by_zone(result), sum(one.count for one in result.unplaced)) == ({"a": 1, "b": 1}, 1)
    shy = builders.resident({"app": "shy"}, affinity=builders.apart(keys.ZONE, WEB))
    there = [room("old", "a", cpu_millis=0, residents=[shy])]
    result = placed(demand(count=3, labels=WEB), rooms=there, groups=[group("a"), group("b")])
    assert by_zone(result) == {"b": 3}


def test_what_is_not_planned_for_is_said_and_not_guessed() -> None:
    claim = demand(resourceClaims=[{"name": "card"}])
    assert reasons(placed(claim, groups=[group()]))[model.Reason.UNSUPPORTED].what == "devices by resource claim"
    rack = demand(labels=WEB, affinity=builders.apart("rack", WEB))
    assert reasons(placed(rack, groups=[group()]))[model.Reason.UNSUPPORTED].what == "anti-affinity by rack"


def test_a_refused_group_gets_nothing_and_says_why() -> None:
    groups = [group("a", of={"refused": NO}), group("b")]
    assert list(placed(demand(count=9), groups=groups).new_nodes()) == [builders.key("b")]
    result = placed(demand(), groups=groups[:1])
    assert result.unplaced[0].rejections == (dataclasses.replace(NO, groups=(builders.key("a"),)),)


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        (builders.limit(5, pool="pool", used=2), (3, 1, 5)),
        (builders.limit(2), (2, 1, 2)),
        (builders.limit(17_000, model.LimitKind.CLUSTER_CPU), (4, 4000, 16_000)),
        (builders.limit(1000, model.LimitKind.POOL_SECONDS, used=100, expected=200, each=300), (2, 300, 700)),
        (builders.limit(1, used=3), (0, 1, 3)),
    ],
)
def test_shared_limits_hold_and_are_named_with_what_was_given(limit: model.Limit, want: tuple[int, int, int]) -> None:
    result = placed(demand(4000, count=9), groups=[group("a"), group("b")], limits=[limit])
    (said,) = result.unplaced[0].rejections
    assert isinstance(said.numbers, model.Limit)
    assert (said.reason, dataclasses.replace(said.numbers, used=limit.used)) == (model.Reason.LIMIT, limit)
    assert (nodes(result), said.wanted, said.numbers.used, len(said.groups)) == (*want, 2)


def test_a_group_that_is_full_says_how_many_it_has_of_how_many() -> None:
    result = placed(demand(4000, count=9), groups=[group("a", of={"nodes": 3, "more": 2})])
    (said,) = result.unplaced[0].rejections
    assert (said.reason, said.wanted, said.available) == (model.Reason.AT_MAXIMUM, 5, 5)
    (said,) = placed(demand(), groups=[group("a", of={"nodes": 3, "more": -1})]).unplaced[0].rejections
    assert (said.wanted, said.available) == (3, 2)


def test_a_limit_of_one_pool_leaves_the_others_alone() -> None:
    limit = builders.limit(1, pool="pool")
    result = placed(demand(4000, count=9), groups=[group(), group(pool="other")], limits=[limit])
    assert result.new_nodes() == {builders.key(): 1, builders.key(pool="other"): 8}


def test_a_demand_uses_the_next_tier_of_pools_only_for_what_the_first_cannot_take() -> None:
    tiers = {"pools": (frozenset({"first"}), frozenset({"second"}))}
    groups = [group(pool="first", of={"more": 2}), group(pool="second"), group(pool="third")]
    result = placed(demand(4000, count=5, of=tiers), groups=groups)
    assert {key.pool: count for key, count in result.new_nodes().items()} == {"first": 2, "second": 3}
    result = placed(demand(9000, of=tiers), groups=groups)
    assert reasons(result)[model.Reason.NOT_ALLOWED].groups == (builders.key(pool="third"),)


def test_volumes_bind_to_their_zone_and_misses_are_not_repeated() -> None:
    groups = [group(zone) for zone in ZONES]
    assert list(by_zone(placed(demand(of={"zones": frozenset("b")}), groups=groups))) == ["b"]
    missed = {"missed": {builders.key("a"): NO}, "zones": frozenset("a"), "avoid": frozenset({"node-1"})}
    coming = [model.Asked(key=builders.key("a"), template=builders.template("a"), nodes=1)]
    result = placed(demand(of=missed), groups=groups, rooms=[room()], asked=coming)
    assert reasons(result)[NO.reason].groups == (builders.key("a"),)
    assert (result.landings, result.expected) == ((), ())


def test_no_groups_is_a_reason_too() -> None:
    assert reasons(placed(demand())).keys() == {model.Reason.NO_GROUPS}


def test_why_not_explains_a_pod_alone() -> None:
    groups = [group("a", of={"more": 0}), group("b"), group("c", cpu_millis=500)]
    told = placement.why_not(situation(groups=groups), demand())
    assert {rejection.reason: [key.zone for key in rejection.groups] for rejection in told} == {
        model.Reason.AT_MAXIMUM: ["a"],
        model.Reason.INSUFFICIENT: ["c"],
    }


def test_only_the_labels_that_rules_look_at_tell_pods_apart() -> None:
    spread = builders.spread(keys.ZONE, WEB, matchLabelKeys=["version"])
    looking = [
        builders.shape(labels={"version": "1", "other": "x"}, topologySpreadConstraints=spread),
        builders.shape(labels=WEB, affinity=builders.apart(keys.HOSTNAME, {"team": "x"})),
        builders.shape(nodeSelector={"zone": "a"}),
    ]
    assert placement.label_keys(looking) == {"app", "version", "team"}
