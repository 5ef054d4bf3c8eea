"""The examples of queued jobs are jobs of the kinds that are handled, and fit the queues beside them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from autoscaler.admission.jobs import KINDS
from autoscaler.admission.jobs.port import Job
from autoscaler.api import quantities, resources

EXAMPLES = Path(__file__).parents[3] / "examples" / "elastic-jobs"
JOBS = ("job.yaml", "ray-cluster.yaml")


def documents(name: str) -> Iterable[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def job(name: str) -> Job:
    (document,) = documents(name)
    (kind,) = [each for each in KINDS if each.resource.kind == document["kind"]]
    assert document["apiVersion"] == kind.resource.api_version
    metadata = {"namespace": "default", "uid": "u", "resourceVersion": "1", **document["metadata"]}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return kind.decode(msgspec.json.encode({**document, "metadata": metadata}))


def queues() -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents("queues.yaml")}


@pytest.mark.parametrize("name", JOBS)
def test_an_example_is_a_queued_job_without_a_problem(name: str) -> None:
    got = job(name)
    assert ("LocalQueue", got.queue) in queues()
    assert (got.problem, got.left_alone) == (None, None)


def test_the_queues_refer_to_each_other() -> None:
    known = queues()
    door = resources.LocalQueue.model_validate(known["LocalQueue", "default"])
    assert ("ClusterQueue", door.spec.cluster_queue) in known
    made = [resources.ClusterQueue.model_validate(each) for (kind, _), each in known.items() if kind == "ClusterQueue"]
    used = {flavor.name for queue in made for group in queue.spec.resource_groups for flavor in group.flavors}
    assert {("ResourceFlavor", name) for name in used} == {key for key in known if key[0] == "ResourceFlavor"}
    assert {queue.spec.cohort for queue in made} == {"lab"}


@pytest.mark.parametrize("name", JOBS)
def test_all_examples_fit_into_the_first_flavor_of_their_queue(name: str) -> None:
    queue = resources.ClusterQueue.model_validate(queues()["ClusterQueue", "training"])
    first = {each.name: each.nominal_quota for each in queue.spec.resource_groups[0].flavors[0].resources}
    got = job(name)
    assert sum(each.size * each.requests["cpu"] for each in got.pod_sets) <= quantities.millis(str(first["cpu"]))
    assert sum(each.size * each.requests["memory"] for each in got.pod_sets) <= quantities.units(str(first["memory"]))
