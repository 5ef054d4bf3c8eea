"""Whatever waits and whatever there is: no constraint is broken, nothing vanishes, and few nodes are used."""

import random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders, checker

NO = model.Rejection(reason=model.Reason.SUSPENDED)
APPS = ("a", "b", "c")
ZONES = ("za", "zb", "zc")
POOLS = ("p", "q")
TOPOLOGIES = (keys.ZONE, keys.HOSTNAME)

labels = st.sampled_from(APPS).map(lambda app: {"app": app})
topology = st.sampled_from(TOPOLOGIES)


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found |= builders.apart(draw(topology), draw(labels))
    if draw(st.integers(0, 3)) == 0:
        found |= builders.together(draw(st.sampled_from([*TOPOLOGIES, checker.OTHER_KEY])), draw(labels))
    if draw(st.integers(0, 3)) == 0:
        operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
        values = draw(st.lists(st.sampled_from(ZONES), min_size=1, max_size=2))
        expression = {"key": keys.ZONE, "operator": operator}
        found |= builders.node_affinity(expression | ({"values": values} if operator in {"In", "NotIn"} else {}))
    return found


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        spec["affinity"] = draw(affinities())
    if draw(st.integers(0, 2)) == 0:
        spec["topologySpreadConstraints"] = [
            constraint
            for _ in range(draw(st.integers(1, 2)))
            for constraint in builders.spread(
                draw(topology),
                draw(labels),
                max_skew=draw(st.integers(1, 2)),
                nodeTaintsPolicy=draw(st.sampled_from(["Ignore", "Honor"])),
                **draw(st.sampled_from([{}, {}, {"nodeAffinityPolicy": "Ignore"}])),
            )
        ]
        if draw(st.integers(0, 4)) == 0 and spec["topologySpreadConstraints"][0]["topologyKey"] == keys.ZONE:
            spec["topologySpreadConstraints"][0]["minDomains"] = draw(st.integers(1, 4))
    if draw(st.integers(0, 4)) == 0:
        spec["nodeSelector"] = {keys.NODE_TYPE: draw(st.sampled_from(POOLS))}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    if draw(st.integers(0, 9)) == 0:
        spec["containers"] = [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]
    return spec


@st.composite
def demands(draw: st.DrawFn) -> model.Demand:
    own: dict[str, Any] = {}
    if draw(st.integers(0, 6)) == 0:
        own["zones"] = frozenset(draw(st.lists(st.sampled_from(ZONES), min_size=1, max_size=2)))
    if draw(st.integers(0, 6)) == 0:
        own["pools"] = (frozenset({draw(st.sampled_from(POOLS))}), frozenset(POOLS))
    return builders.demand(
        draw(st.sampled_from([100, 300, 1000, 2500])),
        draw(st.sampled_from([0.5, 1, 3])),
        count=draw(st.integers(1, 12)),
        labels=draw(labels),
        of=own,
        **draw(specs()),
    )


def residents() -> st.SearchStrategy[list[model.Resident]]:
    def one(app: dict[str, str], topology_key: str, selected: dict[str, str], holds: bool) -> model.Resident:  # noqa: FBT001
        spec: dict[str, Any] = {"affinity": builders.apart(topology_key, selected)} if holds else {}
        return builders.resident(app, **spec)

    return st.lists(st.builds(one, labels, topology, labels, st.integers(0, 3).map(lambda n: n == 0)), max_size=3)


racks = st.sampled_from([{}, {checker.OTHER_KEY: "1"}, {checker.OTHER_KEY: "2"}])
TAINT = [("only", "us", "NoSchedule")]


@st.composite
def situations(draw: st.DrawFn) -> model.Situation:
    groups = [
        builders.group(
            zone,
            size,
            size / 250,
            pool=pool,
            pods=draw(st.integers(3, 20)),
            labels={keys.NODE_TYPE: pool, **draw(racks)},
            taints=TAINT if pool == "q" else (),
            of={"more": draw(st.integers(0, 6)), "refused": draw(st.sampled_from([None, None, None, NO]))},
        )
        for pool in POOLS
        for zone in draw(st.lists(st.sampled_from(ZONES), unique=True, max_size=3))
        for size in draw(st.lists(st.sampled_from([2000, 4000, 8000]), unique=True, min_size=1, max_size=2))
    ]
    rooms = [
        builders.room(
            f"node-{number}",
            draw(st.sampled_from([*ZONES, ""])),
            draw(st.sampled_from([0, 500, 3000])),
            4,
            labels={keys.NODE_TYPE: draw(st.sampled_from(POOLS)), **draw(racks)},
            taints=draw(st.sampled_from([(), (), TAINT])),
            residents=draw(residents()),
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    asked = [
        model.Asked(key=one.key, template=one.template, nodes=draw(st.integers(1, 3)))
        for one in groups
        if draw(st.integers(0, 3)) == 0
    ]
    limits = draw(
        st.lists(
            st.sampled_from(
                [
                    builders.limit(2, pool="p"),
                    builders.limit(5),
                    builders.limit(20_000, model.LimitKind.CLUSTER_CPU),
                    builders.limit(9000, model.LimitKind.POOL_SECONDS, pool="q", used=500, expected=1500, each=3000),
                ]
            ),
            max_size=1,
        )
    )
    wanted = draw(st.lists(demands(), max_size=6))
    return builders.situation(*wanted, groups=groups, rooms=rooms, asked=asked, limits=limits)


relaxed = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@relaxed
@given(situations())
def test_no_constraint_is_broken_and_nothing_vanishes(asked: model.Situation) -> None:
    assert checker.violations(asked, placement.place(asked)) == []


def told(result: model.Placement) -> Any:
    """Write a placement down without identities."""

    def share(one: model.Share) -> Any:
        return (repr(one.demand), one.count)

    def filling(one: model.Filling) -> Any:
        return (repr(one.key), one.nodes, sorted(map(share, one.shares)))

    return (
        [(landing.room, sorted(map(share, landing.shares))) for landing in result.landings],
        [filling(one) for one in result.expected],
        [filling(one) for one in result.launches],
        [(repr(one.demand), one.count, one.rejections) for one in result.unplaced],
    )


@relaxed
@given(situations(), st.integers(0, 2**32))
def test_the_order_of_the_input_does_not_matter(asked: model.Situation, seed: int) -> None:
    def shuffled(part: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(random.Random(seed).sample(part, len(part)))  # noqa: S311

    mixed = model.Situation(
        demands=shuffled(asked.demands),
        groups=shuffled(asked.groups),
        rooms=shuffled(asked.rooms),
        asked=shuffled(asked.asked),
        limits=asked.limits,
    )
    assert told(placement.place(mixed)) == told(placement.place(asked))


def first_fit_decreasing(sizes: list[tuple[int, float]], node: tuple[int, float]) -> int:
    """Count nodes as the textbook does: largest share first, each on the first node that has room."""
    nodes: list[list[float]] = []
    for size in sorted(sizes, key=lambda one: -max(one[0] / node[0], one[1] / node[1])):
        fitting = (free for free in nodes if free[0] >= size[0] and free[1] >= size[1])
        free = next(fitting, None)
        if free is None:
            nodes.append(free := list(node))
        free[0] -= size[0]
        free[1] -= size[1]
    return len(nodes)


sizes = st.tuples(st.sampled_from([100, 250, 700, 1000, 1500, 2100, 3900]), st.sampled_from([0.25, 1, 2, 5, 9, 15]))
FACTOR = 1.25
"""Never more nodes than first-fit decreasing needs, times this, and one."""


@example([((100, 1), 6), ((100, 15), 7), ((2100, 0.25), 6), ((2100, 2), 1), ((2100, 15), 1)])
@given(st.lists(st.tuples(sizes, st.integers(1, 30)), min_size=1, max_size=12, unique_by=lambda one: one[0]))
def test_hardly_more_nodes_than_first_fit_decreasing(wanted: list[tuple[tuple[int, float], int]]) -> None:
    asked = [builders.demand(*size, count=count) for size, count in wanted]
    result = placement.place(builders.situation(*asked, groups=[builders.group(of={"more": 10_000})]))
    textbook = first_fit_decreasing([size for size, count in wanted for _ in range(count)], (4000, 16))
    assert sum(result.new_nodes().values()) <= textbook * FACTOR + 1


@given(st.lists(st.tuples(sizes, st.integers(1, 30)), min_size=1, max_size=12, unique_by=lambda one: one[0]))
def test_no_more_cores_than_first_fit_decreasing_on_the_best_single_type(
    wanted: list[tuple[tuple[int, float], int]],
) -> None:
    kinds = [(4000, 16), (8000, 16), (8000, 32), (16000, 64)]
    asked = [builders.demand(*size, count=count) for size, count in wanted]
    groups = [builders.group("a", cpu, gib, kind=f"m.{cpu}-{gib}", of={"more": 10_000}) for cpu, gib in kinds]
    result = placement.place(builders.situation(*asked, groups=groups))
    cores = sum(nodes * int(key.instance_type[2:].split("-")[0]) for key, nodes in result.new_nodes().items())
    every = [size for size, count in wanted for _ in range(count)]
    textbook = min(first_fit_decreasing(every, kind) * kind[0] for kind in kinds)
    assert cores <= textbook * 1.5 + 16_000
