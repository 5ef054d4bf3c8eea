"""What capacity would do now, in commands: pools that are held, and its plan. Pure: nothing is carried out."""

from collections.abc import Sequence

from autoscaler.capacity import decide, plan
from autoscaler.capacity.model import Policy
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control.plans import Command


def commands(
    snapshot: Snapshot, policy: Policy, memory: plan.Memory, records: instance_records.Sight, unheld: Sequence[str]
) -> tuple[Command, ...]:
    """Say what a cycle would do; `unheld` are pools that do not carry our finalizer yet."""
    held = "it is held until its instances are gone: finalizer"
    kept = [Command(verb="patch", what=f"instancepool {name}", why=held) for name in unheld]
    return (*kept, *plan.commands(snapshot, decide.decide(snapshot, policy, memory, records)))
