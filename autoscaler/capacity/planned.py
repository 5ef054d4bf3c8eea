"""What capacity would do now, in commands. Pure: nothing is carried out."""

from autoscaler.capacity import decide, plan
from autoscaler.capacity.model import Policy
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.reporting import pod_events, pool_status
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control.plans import Command


def commands(
    snapshot: Snapshot,
    policy: Policy,
    memory: plan.Memory,
    records: instance_records.Sight,
    stated: pool_status.Stated,
    told: pod_events.Told,
) -> tuple[Command, ...]:
    """Say what a cycle would do. What is written in the cycle may change statuses once more."""
    decided = decide.decide(snapshot, policy, memory, records)
    return tuple(plan.commands(snapshot, decide.report(snapshot, decided, stated, told)))
