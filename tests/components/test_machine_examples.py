"""The guest that the README starts asks for a machine that the local stack has, where guests are let in."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.api import keys, names
from autoscaler.api.resources import Machine

ROOT = Path(__file__).parents[2]


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / path).read_text())
    return found


def local() -> dict[str, Any]:
    cluster: dict[str, Any] = read("stacks/Pulumi.local.yaml")["config"]["sluice:clusters"]["local"]
    return cluster


def test_the_guest_asks_for_a_machine_of_the_local_stack() -> None:
    labels = read("examples/machine-guest.yaml")["spec"]["template"]["metadata"]["labels"]
    offered = {(group, each["name"]) for group, spec in local()["machines"].items() for each in spec["machineTypes"]}
    assert (labels[keys.MACHINE_GROUP], labels[keys.MACHINE_TYPE]) in offered
    assert local()["namespaces"]["research"]["guests"] is True


def test_nodes_that_the_local_stack_always_has_hold_the_room() -> None:
    types = {pool["nodeType"] for pool in local()["nodePools"].values() if pool.get("minPerGroup")}
    entries = itertools.chain.from_iterable(spec["nodePool"] for spec in local()["machines"].values())
    assert {entry["nodeSelector"][keys.NODE_TYPE] for entry in entries} <= types


@pytest.mark.accept("M8", part="the example is a Machine")
def test_the_example_of_a_group_is_one() -> None:
    body = read("examples/machine.yaml")
    machine = Machine.model_validate(body)
    assert body["metadata"]["labels"][keys.MACHINE_GROUP] == machine.metadata.name
    longest = max(len(each.name) for each in machine.spec.machine_types)
    assert longest + 1 + len(machine.metadata.name) <= names.STATEFUL_SET_MAX
