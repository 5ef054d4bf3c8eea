"""What capacity would do now, in commands: records, pools that are held, and its plan. Pure: nothing is carried out."""

from collections.abc import Iterator, Sequence

from autoscaler.capacity import decide, lives, plan
from autoscaler.capacity.model import Policy
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control.plans import Command


def commands(
    snapshot: Snapshot, policy: Policy, memory: plan.Memory, records: lives.Sight, unheld: Sequence[str]
) -> tuple[Command, ...]:
    """Say what a cycle would do; `unheld` are pools that do not carry our finalizer yet."""
    held = "it is held until its instances are gone: finalizer"
    kept = [Command(verb="patch", what=f"instancepool {name}", why=held) for name in unheld]
    decided = decide.decide(snapshot, policy, memory)
    return (*kept, *_records(lives.decide(records)), *plan.commands(snapshot, decided))


def _records(found: lives.Plan) -> Iterator[Command]:
    for made in found.creates:
        yield Command(verb="create", what=f"instance {made.name}", why=f"an instance of pool {made.pool} has no record")
    for change in found.changes:
        before, after = change.before.phase, change.after.phase
        why = f"{before} becomes {after}" if before != after else "what it used or ran has changed"
        yield Command(verb="patch status of", what=f"instance {change.name}", why=why)
