"""Who is admitted, in which order, and what is written."""

from autoscaler.admission.quota import cycle, refusals
from autoscaler.admission.quota.books import Books, Tables
from tests.autoscaler.admission.builders import (
    NOW,
    usual,
    workload,
)


def decide(made: Tables, *, now: float = NOW, most: int = 100) -> cycle.CyclePlan:
    return cycle.decide(Books(made), now=now, most=most)


def names(plan: cycle.CyclePlan) -> list[str]:
    return [f"{write.step} {write.key.name}" for write in plan.writes]


def told(plan: cycle.CyclePlan) -> dict[str, str]:
    return {each.workload.meta.key.name: refusals.worded(each.refusal) for each in plan.refused}


def test_what_fits_is_admitted_and_the_rest_is_told_what_is_missing() -> None:
    plan = decide(usual(workload("a", cpu=7, age=9), workload("b", cpu=8, age=8)))
    assert names(plan) == ["admit a"]
    assert told(plan) == {"b": "needs 8 cpu of flavor spot, 3 are free: 5 missing"}
