"""Plans of quota carried out one after the other: the queues and Workloads of tests about displacing others."""

from typing import Any

from autoscaler.admission.quota import cycle, refusals
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.configuration import Tables
from tests.autoscaler.admission.applying import Cluster
from tests.autoscaler.admission.builders import NOW, cluster_queue, flavor, local_queue, tables, workload_manifest

Manifest = dict[str, Any]


def one_queue(*stored: Any, within: str = "LowerPriority", **more: Any) -> Tables:
    return tables(flavor(), cluster_queue(within=within, **more), local_queue(), *stored)


def two_queues(*stored: Any, mine: Any = 5, theirs: Any = 5, **policy: Any) -> Tables:
    return tables(
        flavor(),
        cluster_queue("team", flavors={"spot": {"cpu": mine}}, cohort="all", **policy),
        cluster_queue("other", flavors={"spot": {"cpu": theirs}}, cohort="all"),
        local_queue("door", queue="team"),
        local_queue("other-door", queue="other"),
        *stored,
    )


def running(name: str, count: int, **more: Any) -> Manifest:
    return workload_manifest(name, count=count, granted=count, **more)


def theirs(name: str, count: int, **more: Any) -> Manifest:
    return running(name, count, cluster_queue="other", queue="other-door", **more)


class Play:
    """Carries out one plan after the other."""

    def __init__(self, made: Tables, *workloads: Manifest) -> None:
        self.cluster = Cluster(made, workloads)
        self.books = Books(made)

    def step(self, most: int = 100) -> list[str]:
        plan = cycle.decide(self.books, now=NOW, most=most)
        self.cluster.apply(plan.writes)
        return [f"{write.step} {write.key.name}" for write in plan.writes]

    def told(self) -> dict[str, str]:
        plan = cycle.decide(self.books, now=NOW, most=100)
        return {each.workload.meta.key.name: refusals.worded(each.refusal) for each in plan.refused}

    def clear(self, name: str) -> None:
        """Give back what an evicted one had, as its pods are gone."""
        self.cluster.change(name, {"status": {"admission": None, "conditions": []}})

    def reason(self, name: str) -> str:
        (found,) = (each for each in self.books.families._workloads.values() if each.meta.key.name == name)
        return found.conditions["Evicted"].reason
