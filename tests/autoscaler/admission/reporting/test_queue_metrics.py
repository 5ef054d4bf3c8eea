"""What the metrics of queues say is what was counted, in cores, bytes and units."""

from autoscaler.admission.reporting import queue_metrics
from autoscaler.admission.reporting.queue_metrics import Cycles, QueueNumbers, Quota

QUEUE = QueueNumbers(
    name="lab",
    pending=3,
    admitted=2,
    oldest_pending_seconds=61.5,
    gated_pods=7,
    quotas=(
        Quota(flavor="spot", resource="cpu", nominal=4000, used=1500),
        Quota(flavor="spot", resource="memory", nominal=1024, used=512),
    ),
    admissions=9,
    evictions={"Preempted": 4, "Inactive": 1},
)
LAB = {"cluster_queue": "lab"}


def measured(*queues: QueueNumbers) -> dict[str, list[tuple[dict[str, str], str, float]]]:
    made = queue_metrics.of(queues, Cycles(count=5, seconds=0.25))
    return {
        one.name: [(each.labels, each.name.removeprefix(one.name), each.value) for each in one.samples] for one in made
    }


def test_each_number_of_a_queue_is_shown_with_its_labels() -> None:
    cpu, memory = ({**LAB, "flavor": "spot", "resource": each} for each in ("cpu", "memory"))
    assert measured(QUEUE) == {
        "sluice_admission_pending_workloads": [(LAB, "", 3)],
        "sluice_admission_admitted_workloads": [(LAB, "", 2)],
        "sluice_admission_oldest_pending_seconds": [(LAB, "", 61.5)],
        "sluice_admission_gated_pods": [(LAB, "", 7)],
        "sluice_admission_usage": [(cpu, "", 1.5), (memory, "", 512)],
        "sluice_admission_quota": [(cpu, "", 4.0), (memory, "", 1024)],
        "sluice_admission_admissions": [(LAB, "_total", 9)],
        "sluice_admission_evictions": [
            ({**LAB, "reason": "Inactive"}, "_total", 1),
            ({**LAB, "reason": "Preempted"}, "_total", 4),
        ],
        "sluice_admission_cycle_seconds": [({}, "_count", 5), ({}, "_sum", 0.25)],
    }


def test_queues_are_shown_in_the_order_of_their_names() -> None:
    shown = measured(QUEUE, QueueNumbers(name="art"))["sluice_admission_pending_workloads"]
    assert [labels["cluster_queue"] for labels, _, _ in shown] == ["art", "lab"]


def test_only_what_never_falls_is_a_counter() -> None:
    counters = {one.name for one in queue_metrics.of((), Cycles()) if one.type == "counter"}
    assert counters == {"sluice_admission_admissions", "sluice_admission_evictions"}
