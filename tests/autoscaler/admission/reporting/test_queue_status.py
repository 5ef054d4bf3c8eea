"""What queues say of themselves: usage, numbers, and why nothing is admitted."""

import pytest

from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import queues
from autoscaler.admission.reporting import queue_status
from autoscaler.admission.reporting.queue_status import Numbers, Said
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects
from tests.autoscaler.admission.builders import NOW, cluster_queue, flavor, local_queue

FLAVORS = {"spot": queues.flavor(flavor()), "leaving": queues.flavor(flavor("leaving", deleted=True))}
READY = Said(holds=True, reason="Ready", message="work that fits is admitted")


def written(numbers: Numbers, *, in_use: str = "", **queue: object) -> Manifest:
    stored = cluster_queue(**queue)  # type: ignore[arg-type]
    return queue_status.cluster_queue(stored, queues.queue(stored), numbers, READY, in_use, NOW)


def test_usage_is_written_by_flavor_with_what_is_borrowed() -> None:
    used = {FlavorResource("spot", "cpu"): 2500, FlavorResource("spot", "memory"): 1024}
    told = written(Numbers(usage=used), flavors={"spot": {"cpu": 2, "memory": "4Ki"}, "big": {"cpu": 1, "memory": 1}})
    assert told["usage"] == [
        {
            "name": "spot",
            "resources": [
                {"name": "cpu", "total": "2500m", "borrowed": "500m"},
                {"name": "memory", "total": "1Ki", "borrowed": "0"},
            ],
        },
        {
            "name": "big",
            "resources": [
                {"name": "cpu", "total": "0", "borrowed": "0"},
                {"name": "memory", "total": "0", "borrowed": "0"},
            ],
        },
    ]


def test_what_is_used_without_quota_is_all_borrowed() -> None:
    told = written(Numbers(usage={FlavorResource("old", "gpu"): 3}))
    assert told["usage"][-1] == {"name": "old", "resources": [{"name": "gpu", "total": "3", "borrowed": "3"}]}


def test_nothing_is_written_where_the_status_says_all_that() -> None:
    stored, numbers = cluster_queue(), Numbers(pending=2, admitted=1)
    queue = queues.queue(stored)
    first = queue_status.cluster_queue(stored, queue, numbers, READY, "", NOW)
    status = stored.resource.status.model_validate(first)
    said = objects.Custom(meta=stored.meta, resource=stored.resource.model_copy(update={"status": status}))
    assert queue_status.cluster_queue(said, queue, numbers, READY, "", NOW + 60) == {}
    changed = queue_status.cluster_queue(said, queue, Numbers(pending=3, admitted=1), READY, "", NOW + 60)
    assert changed == {"pending": 3}


def test_who_uses_it_is_said_only_while_somebody_does() -> None:
    kinds = [each["type"] for each in written(Numbers(), in_use="Workloads: team/a")["conditions"]]
    assert kinds == ["Active", "InUse"]
    assert [each["type"] for each in written(Numbers())["conditions"]] == ["Active"]


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        (cluster_queue(), READY),
        (
            cluster_queue(stop="HoldAndDrain"),
            Said(holds=False, reason="ClusterQueueStopped", message="ClusterQueue team is stopped (stopPolicy)"),
        ),
        (
            cluster_queue(deleted=True),
            Said(holds=False, reason="ClusterQueueBeingDeleted", message="ClusterQueue team is being deleted"),
        ),
        (
            cluster_queue(flavors={"gone": {"cpu": 1}}),
            Said(
                holds=False,
                reason="FlavorMissing",
                message="no flavor is left for cpu; flavors that do not exist, or are being deleted: gone",
            ),
        ),
        (
            cluster_queue(flavors={"gone": {"cpu": 1}, "spot": {"cpu": 1}}),
            Said(
                holds=True,
                reason="SomeFlavorsMissing",
                message=(
                    "work that fits into other flavors is admitted; "
                    "flavors that do not exist, or are being deleted: gone"
                ),
            ),
        ),
        (
            cluster_queue(flavors={"leaving": {"cpu": 1}}),
            Said(
                holds=False,
                reason="FlavorMissing",
                message="no flavor is left for cpu; flavors that do not exist, or are being deleted: leaving",
            ),
        ),
    ],
)
def test_a_cluster_queue_says_whether_it_can_admit_anything(queue: objects.Custom, want: Said) -> None:  # type: ignore[type-arg]
    assert queue_status.of_cluster_queue(queues.queue(queue), FLAVORS) == want


def test_a_local_queue_says_what_is_wrong_on_the_way_to_its_quota() -> None:
    def said(door: objects.Custom, queue: objects.Custom | None, **labels: str) -> str:  # type: ignore[type-arg]
        known = queues.queue(queue) if queue is not None else None
        return queue_status.of_local_queue(door, known, FLAVORS, labels).reason

    only = cluster_queue(namespaceSelector={"matchLabels": {"kind": "research"}})
    assert said(local_queue(), cluster_queue()) == "Ready"
    assert said(local_queue(deleted=True), cluster_queue()) == "LocalQueueBeingDeleted"
    assert said(local_queue(), None) == "ClusterQueueMissing"
    assert said(local_queue(), only) == "NamespaceRefused"
    assert said(local_queue(), only, kind="research") == "Ready"
    assert said(local_queue(), cluster_queue(stop="Hold")) == "ClusterQueueStopped"
