"""The scheduler: where pods go, and what is said of those that go nowhere."""

from typing import Any

import pytest

from autoscaler.kube import kinds
from tests.contract.scheduling import (
    GPU,
    HOST,
    PREFERRED,
    REQUIRED,
    ZONE,
    because,
    bound,
    node,
    pod,
    pod_affinity,
    refused,
    says,
    scheduled,
    spread,
)
from tests.contract.worlds import Body, World


async def test_without_nodes_nothing_runs(world: World) -> None:
    await refused(world, pod("p"), "no nodes available to schedule pods")


async def test_a_pod_waits_for_a_node_and_gets_it(world: World) -> None:
    await refused(world, pod("p"), "no nodes available to schedule pods")
    name = await node(world, "late")
    assert await bound(world, "p") == name


async def test_a_pod_that_would_fit_an_empty_node_waits_for_room(world: World) -> None:
    name = await node(world, "small")
    await scheduled(world, pod("first", cpu="1500m"))
    await refused(world, pod("second", cpu="1"), because("1 Insufficient cpu", victimless=1))
    await world.delete(kinds.PODS, "first", {"gracePeriodSeconds": 0})
    assert await bound(world, "second") == name


async def test_a_pod_that_is_too_large_says_of_what(world: World) -> None:
    await node(world, "small")
    resources = {"requests": {"cpu": "9", "memory": "100Gi"}}
    body = pod("p", containers=[{"name": "main", "image": "none", "resources": resources}])
    await refused(world, body, because("1 Insufficient cpu, 1 Insufficient memory", helpless=1))


async def test_an_extended_resource_is_needed_where_it_is(world: World) -> None:
    await node(world, "plain")
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    body = pod("p", containers=[{"name": "main", "image": "none", "resources": resources}])
    await refused(world, body, because("1 Insufficient nvidia.com/gpu", helpless=1))
    name = await node(world, "gpu", amounts={"nvidia.com/gpu": "2"})
    assert await bound(world, "p") == name


async def test_a_node_takes_so_many_pods(world: World) -> None:
    await node(world, "narrow", amounts={"pods": "1"})
    await scheduled(world, pod("first"))
    await refused(world, pod("second"), because("1 Too many pods", victimless=1))


async def test_pods_that_are_over_take_no_room(world: World) -> None:
    name = await node(world, "small")
    await scheduled(world, pod("first", cpu="2", restartPolicy="Never"))

    async def runs() -> bool:
        return bool((await world.get(kinds.PODS, "first"))["status"]["phase"] == "Running")

    await world.eventually(runs)
    await world.merge(kinds.PODS, "first", {"status": {"phase": "Succeeded"}}, "status")
    assert await scheduled(world, pod("second", cpu="2")) == name


def container(cpu: str, **fields: Any) -> Body:
    return {"name": f"c-{cpu}", "image": "none", "resources": {"requests": {"cpu": cpu}}, **fields}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"containers": [container("1"), container("900m")]}, True),
        ({"containers": [container("1"), container("1100m")]}, False),
        ({"containers": [container("1")], "initContainers": [container("2")]}, True),
        ({"containers": [container("1")], "initContainers": [container("2100m")]}, False),
        ({"containers": [container("1")], "initContainers": [container("900m", restartPolicy="Always")]}, True),
        ({"containers": [container("1")], "initContainers": [container("1100m", restartPolicy="Always")]}, False),
        (
            {
                "containers": [container("100m")],
                "initContainers": [container("500m", restartPolicy="Always"), container("1600m")],
            },
            False,
        ),
        (
            {
                "containers": [container("100m")],
                "initContainers": [container("1600m"), container("500m", restartPolicy="Always")],
            },
            True,
        ),
    ],
    ids=lambda value: str(value).replace("'image': 'none', ", "")[:100],
)
async def test_what_a_pod_takes_is_its_effective_request(world: World, spec: Body, fits: bool) -> None:  # noqa: FBT001
    name = await node(world, "two-cores")
    if fits:
        assert await scheduled(world, pod("p", **spec)) == name
    else:
        await refused(world, pod("p", **spec), because("1 Insufficient cpu", helpless=1))


async def test_taints_keep_away_those_who_do_not_tolerate_them(world: World) -> None:
    name = await node(world, "tainted", taints=[GPU])
    await refused(world, pod("p"), because("1 node(s) had untolerated taint(s)", helpless=1))
    assert await scheduled(world, pod("q", tolerations=[{"key": "gpu", "operator": "Exists"}])) == name


TOLERATIONS: list[tuple[Body, bool]] = [
    ({"key": "gpu", "value": "yes"}, True),
    ({"key": "gpu", "value": "no"}, False),
    ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
    ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ({"operator": "Exists"}, True),
]
"""Tolerations, and whether they cover the taint gpu=yes:NoSchedule."""


async def test_a_toleration_covers_what_it_says(world: World) -> None:
    name = await node(world, "tainted", taints=[GPU])
    for number, (toleration, _) in enumerate(TOLERATIONS):
        await world.create(kinds.PODS, pod(f"p{number}", tolerations=[toleration]))
    for number, (_, fits) in enumerate(TOLERATIONS):
        if fits:
            assert await bound(world, f"p{number}") == name
        else:
            await says(world, f"p{number}", because("1 node(s) had untolerated taint(s)", helpless=1))


async def test_a_taint_that_is_only_a_preference_is_avoided(world: World) -> None:
    preference = {**GPU, "effect": "PreferNoSchedule"}
    await node(world, "avoided", taints=[preference], amounts={"cpu": "16"})
    plain = await node(world, "plain")
    assert await scheduled(world, pod("p")) == plain


async def test_a_cordoned_node_takes_nobody(world: World) -> None:
    name = await node(world, "cordoned", unschedulable=True)
    await refused(world, pod("p"), because("1 node(s) were unschedulable", helpless=1))
    await world.merge(kinds.NODES, name, {"spec": {"unschedulable": None}})
    assert await bound(world, "p") == name


async def test_each_node_says_why_not(world: World) -> None:
    await node(world, "cordoned", unschedulable=True)
    await node(world, "tainted", taints=[GPU])
    for name in ("plain", "simple"):
        await node(world, name)
    reasons = "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu"
    await refused(world, pod("p", cpu="3"), because(reasons, helpless=4))


async def test_a_node_selector_selects(world: World) -> None:
    await node(world, "other", labels={"disk": "slow"})
    want = because("1 node(s) didn't match Pod's node affinity/selector", helpless=1)
    await refused(world, pod("p", nodeSelector={"disk": "fast"}), want)
    name = await node(world, "right", labels={"disk": "fast"})
    assert await bound(world, "p") == name


EXPRESSIONS: list[tuple[Body, bool]] = [
    ({"key": "size", "operator": "In", "values": ["3", "4"]}, True),
    ({"key": "size", "operator": "In", "values": ["5"]}, False),
    ({"key": "size", "operator": "NotIn", "values": ["5"]}, True),
    ({"key": "absent", "operator": "NotIn", "values": ["5"]}, True),
    ({"key": "size", "operator": "NotIn", "values": ["4"]}, False),
    ({"key": "size", "operator": "Exists"}, True),
    ({"key": "absent", "operator": "Exists"}, False),
    ({"key": "absent", "operator": "DoesNotExist"}, True),
    ({"key": "size", "operator": "DoesNotExist"}, False),
    ({"key": "size", "operator": "Gt", "values": ["3"]}, True),
    ({"key": "size", "operator": "Gt", "values": ["4"]}, False),
    ({"key": "size", "operator": "Lt", "values": ["5"]}, True),
    ({"key": "absent", "operator": "Lt", "values": ["5"]}, False),
]
"""Conditions on a node whose label size is 4, and whether they hold."""


async def test_node_affinity_is_read_operator_by_operator(world: World) -> None:
    name = await node(world, "sized", labels={"size": "4"}, amounts={"pods": "30"})
    for number, (expression, _) in enumerate(EXPRESSIONS):
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        await world.create(kinds.PODS, pod(f"p{number}", cpu="10m", affinity={"nodeAffinity": {REQUIRED: terms}}))
    for number, (_, fits) in enumerate(EXPRESSIONS):
        if fits:
            assert await bound(world, f"p{number}") == name
        else:
            want = because("1 node(s) didn't match Pod's node affinity/selector", helpless=1)
            await says(world, f"p{number}", want)


async def test_of_several_terms_one_is_enough(world: World) -> None:
    name = await node(world, "sized", labels={"size": "4"})
    terms = [
        {"matchExpressions": [{"key": "absent", "operator": "Exists"}, {"key": "size", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert await scheduled(world, pod("p", affinity=affinity)) == name


async def test_a_preferred_node_is_chosen_over_an_emptier_one(world: World) -> None:
    await node(world, "roomy", amounts={"cpu": "64", "memory": "128Gi"})
    liked = await node(world, "liked", labels={"liked": "yes"})
    preference = {"matchExpressions": [{"key": "liked", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": preference}]}}
    assert await scheduled(world, pod("p", affinity=affinity)) == liked


async def test_the_emptier_node_is_chosen(world: World) -> None:
    nodes = {await node(world, "one"), await node(world, "other")}
    seen = {await scheduled(world, pod(name, cpu="800m")) for name in ("a", "b")}
    assert seen == nodes


async def test_pods_that_repel_each_other_share_no_host(world: World) -> None:
    nodes = {await node(world, "one"), await node(world, "other")}
    affinity = pod_affinity("podAntiAffinity", HOST, app="x")
    seen = {await scheduled(world, pod(name, labels={"app": "x"}, affinity=affinity)) for name in ("a", "b")}
    assert seen == nodes
    want = because("2 node(s) didn't match pod anti-affinity rules", victimless=2)
    await refused(world, pod("c", labels={"app": "x"}, affinity=affinity), want)


async def test_a_pod_that_repels_keeps_others_away(world: World) -> None:
    await node(world, "only")
    affinity = pod_affinity("podAntiAffinity", HOST, app="other")
    await scheduled(world, pod("hermit", affinity=affinity))
    want = because("1 node(s) didn't satisfy existing pods anti-affinity rules", victimless=1)
    await refused(world, pod("p", labels={"app": "other"}), want)
    await scheduled(world, pod("q", labels={"app": "third"}))


async def test_a_pod_goes_where_its_friends_are(world: World) -> None:
    await node(world, "one", labels={ZONE: "a"})
    home = await node(world, "home", labels={ZONE: "b"})
    affinity = pod_affinity("podAffinity", ZONE, app="db")
    want = because("2 node(s) didn't match pod affinity rules", helpless=2)
    await refused(world, pod("p", affinity=affinity), want)
    await scheduled(world, pod("db", labels={"app": "db"}, nodeSelector={ZONE: "b"}))
    assert await bound(world, "p") == home


async def test_the_first_of_a_group_that_wants_itself_may_go_anywhere(world: World) -> None:
    await node(world, "one", labels={ZONE: "a"}, amounts={"cpu": "8"})
    await node(world, "other", labels={ZONE: "b"})
    affinity = pod_affinity("podAffinity", ZONE, app="group")
    seen = [await scheduled(world, pod(name, labels={"app": "group"}, affinity=affinity)) for name in ("a", "b", "c")]
    zones = {(await world.get(kinds.NODES, name))["metadata"]["labels"][ZONE] for name in seen}
    assert len(zones) == 1


async def test_pods_are_spread_over_zones(world: World) -> None:
    for zone in "ab":
        await node(world, f"zone-{zone}", labels={ZONE: zone}, amounts={"cpu": "1" if zone == "b" else "8"})
    constraints = spread(ZONE, app="s")
    body: Body = {"cpu": "400m", "labels": {"app": "s"}, "topologySpreadConstraints": constraints}
    seen = [await scheduled(world, pod(name, **body)) for name in ("a", "b", "c", "d")]
    assert len(set(seen[:2])) == len(set(seen[2:])) == 2
    await scheduled(world, pod("e", **body))
    reasons = "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints"
    await refused(world, pod("f", **body), because(reasons, victimless=2))


async def test_a_node_without_the_spread_label_is_out(world: World) -> None:
    await node(world, "bare")
    body = pod("p", labels={"app": "s"}, topologySpreadConstraints=spread(ZONE, app="s"))
    reason = "1 node(s) didn't match pod topology spread constraints (missing required label)"
    await refused(world, body, because(reason, helpless=1))


async def test_a_gated_pod_waits_for_its_gate(world: World) -> None:
    name = await node(world, "ready")
    await world.create(kinds.PODS, pod("gated", schedulingGates=[{"name": "sluice.dev/a"}]))
    await scheduled(world, pod("other"))
    gated = await world.get(kinds.PODS, "gated")
    assert "nodeName" not in gated["spec"]
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
    await world.merge(kinds.PODS, "gated", {"spec": {"schedulingGates": None}})
    assert await bound(world, "gated") == name


async def test_another_schedulers_pods_are_left_alone(world: World) -> None:
    await node(world, "ready")
    await world.create(kinds.PODS, pod("theirs", schedulerName="other"))
    await scheduled(world, pod("ours"))
    theirs = await world.get(kinds.PODS, "theirs")
    assert "nodeName" not in theirs["spec"]
    assert "conditions" not in theirs["status"]


async def test_the_condition_says_which_spec_it_is_about(world: World) -> None:
    await world.create(kinds.PODS, pod("p", schedulingGates=[{"name": "sluice.dev/a"}]))
    await world.merge(kinds.PODS, "p", {"spec": {"schedulingGates": None}})
    await says(world, "p", "no nodes available to schedule pods")
    [condition] = (await world.get(kinds.PODS, "p"))["status"]["conditions"]
    assert condition["observedGeneration"] == 2
