"""Random pods on random nodes: the simulated scheduler's own judgement is what either cluster does."""

from random import Random

import pytest

from autoscaler.kube import kinds
from autoscaler.simulation.scheduling import fitting, model
from tests.contract.scheduling import REQUIRED, bound, node, pod, says
from tests.contract.worlds import Body, World

KEYS, VALUES = ("disk", "zone", "size"), ("1", "2", "3")
PODS, NODES = 25, 4


def labels(dice: Random) -> Body:
    return {key: dice.choice(VALUES) for key in KEYS if dice.random() < 0.7}


def taints(dice: Random) -> list[Body]:
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    return [
        {"key": key, "value": dice.choice(VALUES), "effect": dice.choice(effects)}
        for key in ("gpu", "spot")
        if dice.random() < 0.4
    ]


def expression(dice: Random) -> Body:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    count = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, dice.randint(1, 2))
    made: Body = {"key": dice.choice((*KEYS, "absent")), "operator": operator}
    return {**made, "values": dice.sample(VALUES, count)} if count else made


def toleration(dice: Random) -> Body:
    key, effect = dice.choice(("gpu", "spot")), dice.choice((None, "NoSchedule", "NoExecute"))
    made: Body = (
        {"key": key, "operator": "Exists"} if dice.random() < 0.5 else {"key": key, "value": dice.choice(VALUES)}
    )
    return {**made, "effect": effect} if effect else made


def random_pod(name: str, dice: Random) -> Body:
    spec: Body = {"tolerations": [toleration(dice) for _ in range(dice.randint(0, 3))]}
    if dice.random() < 0.3:
        spec["nodeSelector"] = {dice.choice(KEYS): dice.choice(VALUES)}
    if dice.random() < 0.6:
        terms = [{"matchExpressions": [expression(dice) for _ in range(dice.randint(1, 2))]} for _ in range(2)]
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms[: dice.randint(1, 2)]}}}
    return pod(name, cpu=dice.choice(("10m", "10m", "10m", "9")), **spec)


@pytest.mark.parametrize("seed", range(3))
async def test_what_the_judgement_says_is_what_happens(world: World, seed: int) -> None:
    dice = Random(seed)  # noqa: S311 - a test
    names = [
        await node(
            world,
            f"n{number}",
            labels=labels(dice),
            taints=taints(dice),
            unschedulable=dice.random() < 0.15,
            amounts={"pods": "100"},
        )
        for number in range(NODES)
    ]
    nodes = [model.node_of(await world.get(kinds.NODES, name)) for name in names]
    shapes, wanted = model.Shapes(), {}
    for number in range(PODS):
        made = await world.create(kinds.PODS, random_pod(f"p{number}", dice))
        wanted[f"p{number}"] = fitting.diagnose(shapes.of(made), nodes, None)
    for name, diagnosis in wanted.items():
        if not diagnosis.feasible:
            await says(world, name, diagnosis.message())
        else:
            assert await bound(world, name) in {one.name for one in diagnosis.feasible}
    assert {bool(diagnosis.feasible) for diagnosis in wanted.values()} == {True, False}
