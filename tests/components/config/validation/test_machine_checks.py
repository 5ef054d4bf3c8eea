"""Machine groups of a stack that contradict each other, its pools or its runtime are refused with the reason."""
# ruff: noqa: E501  # a table is read row by row

from typing import Any

import pytest

from autoscaler.api import keys
from components.config import problems
from tests.components import configs

IN_POOL = keys.INSTANCE_POOL
PULLED = {"provision": True}
FOREIGN_SCALER = {"nodeScaler": "cluster-autoscaler"}


def machine(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A group of one type, on these nodes."""
    entries = [{**node, "mode": "ready", "machineType": [{"name": "small"}]} for node in nodes]
    types = [{"name": "small", "spec": {"cpu": 1, "memory": "1Gi"}, "available": 1}]
    return {"nodePool": entries, "machineTypes": types, **fields}


def stack(of_group: dict[str, Any], of_pool: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A cluster with a pool, work, and this group, m, beside one that has node michiru and those with label taken."""
    pools = {"services": configs.SERVICES, "work": configs.pool(**(of_pool or {}))}
    first = machine({"name": "michiru"}, {"nodeSelector": {"taken": "yes"}})
    cluster = configs.cluster(nodePools=pools, machines={"first": first, "m": of_group}, **fields)
    return configs.values(clusters={"bench": cluster})


def selected(**fields: Any) -> dict[str, Any]:
    """A group of nodes with labels; `pool` is the stack's own."""
    labels = {{"pool": IN_POOL}.get(key, key): value for key, value in fields.items()}
    return machine({"nodeSelector": labels})


@pytest.mark.accept("M1", part="a node that two groups of a stack claim is refused before anything is made")
@pytest.mark.accept("M15", part="a group that pulls nodes says which, and somebody brings them")
@pytest.mark.parametrize(
    ("sluice", "want"),
    [
        (stack(selected(taken="yes")), 'nodePool[0].nodeSelector = {"taken": "yes"}: is of machine group first already; a node belongs to one'),
        (stack(machine({"name": "own"}, {"name": "michiru"})), 'nodePool[1].name = "michiru": is of machine group first already'),
        (stack(selected(pool="x")), f'nodePool[0].nodeSelector.{IN_POOL} = "x": must be a pool of this cluster: services, work'),
        (stack(selected(pool="work"), {"ephemeral": True}), f'nodePool[0].nodeSelector.{IN_POOL} = "work": must not be an ephemeral pool'),
        (stack(selected(pool="work", a="c"), {"labels": {"a": "b"}}), 'nodePool[0].nodeSelector.a = "c": must be "b", as nodes of pool work'),
        (stack({**selected(pool="work"), **PULLED}, autoscaler=FOREIGN_SCALER), "provision = true: needs autoscaler.nodeScaler native"),
        (stack(machine({"name": "own"}, **PULLED)), "provision = true: needs a nodePool entry with nodeSelector"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place(sluice: dict[str, Any], want: str) -> None:
    with pytest.raises(problems.ConfigError) as caught:
        configs.load(sluice)
    told = str(caught.value)
    assert f"sluice:clusters.bench.machines.m.{want}" in told
    assert "has 1 problem;" in told


@pytest.mark.parametrize(
    "sluice",
    [
        stack({**selected(pool="work", **{keys.NODE_TYPE: "worker"}), **PULLED}),
        stack(selected(pool="work", a="b", gpu="there"), {"labels": {"a": "b"}}),
        stack(selected(brought="by-others"), autoscaler=FOREIGN_SCALER),
        stack(machine({"name": "one"}, {"name": "two"}, {"nodeSelector": {"taken": "no"}}, **PULLED)),
        stack(machine({"name": "one"}, {"nodeSelector": {"one": "one"}})),
    ],
)
def test_what_can_be_is_taken(sluice: dict[str, Any]) -> None:
    assert configs.load(sluice).groups
