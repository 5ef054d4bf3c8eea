"""What is done to the cluster for Machines, as data: one write to one object each. Pure.

It decides which object a command or a difference is written to, in which step, and which version of it must still be
there. It must not decide what is wanted, and sends nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.api.manifests import Manifest
from autoscaler.control import plans
from autoscaler.control.writes import Verb
from autoscaler.kube import objects
from autoscaler.machines import model
from autoscaler.machines.model import Command, DeleteSleeper, OpenGuest, OpenSleeper, PromiseGuest, RecordTried
from autoscaler.machines.objects import owned, patches


class On(StrEnum):
    """The kinds that are written to."""

    POD = "pod"
    NODE = "node"
    STATEFUL_SET = "statefulset"
    SERVICE = "service"
    NODE_POOL = "machinenodepool"
    MACHINE = "machine"


class Step(StrEnum):
    """What a write is for. Each object has one moment per step at which a refused one is tried again."""

    PROMISE = "promise"
    OPEN = "open"
    TRIED = "tried"
    GIVE_UP = "give up"
    MARK = "mark"
    MAKE = "make"
    TELL = "tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write to one object."""

    step: Step
    on: On
    verb: Verb
    key: objects.Key
    uid: str = ""
    """The very object it is for; empty: it is made."""
    resource_version: int | None = None
    """The version that was decided on; None: any of this object."""
    body: Manifest
    """The object, or the merge patch; of a status patch, the status."""
    why: str
    group: str
    """The group that is decided about again if it is refused; empty: its node is looked at again."""
    command: Command | None = None
    """What was decided, of a guest or a sleeper."""

    @property
    def sort(self) -> tuple[On, Verb, Step]:
        """What it shares with other writes that are refused for the same reasons."""
        return self.on, self.verb, self.step


def shown(write: Write) -> plans.Command:
    """Show a write."""
    if write.command is not None:
        return model.shown(write.command)
    namespace = f"{write.key.namespace}/" if write.key.namespace else ""
    return plans.Command(verb=str(write.verb), what=f"{write.on} {namespace}{write.key.name}", why=write.why)


def of_command(command: Command, pod: objects.Pod, group: str) -> Write:
    """Write what was decided of a guest or sleeper to its pod, in the version that was decided on."""
    match command:
        case PromiseGuest():
            step, body = Step.PROMISE, patches.promise(command)
        case OpenGuest():
            step, body = Step.OPEN, patches.open_guest(command, pod)
        case RecordTried():
            step, body = Step.TRIED, patches.record_tried(command)
        case OpenSleeper():
            step, body = Step.OPEN, patches.open_sleeper(command, pod)
        case DeleteSleeper():
            step, body = Step.GIVE_UP, {}
    return Write(
        step=step,
        on=On.POD,
        verb=Verb.DELETE if step is Step.GIVE_UP else Verb.PATCH,
        key=pod.meta.key,
        uid=pod.meta.uid,
        resource_version=pod.meta.resource_version,
        body=body,
        why=command.why,
        group=group,
        command=command,
    )


def patch(on: On, stored: objects.Stored, body: Manifest, *, why: str, group: str, step: Step = Step.MAKE) -> Write:
    """Change an object that is still as it was read."""
    return _of(on, Verb.PATCH, stored, body, step=step, why=why, group=group)


def patch_status(on: On, stored: objects.Stored, body: Manifest, *, why: str, group: str) -> Write:
    """Change the status of an object that is still as it was read."""
    return _of(on, Verb.PATCH_STATUS, stored, body, step=Step.TELL, why=why, group=group)


def delete(on: On, stored: objects.Stored, *, why: str, group: str) -> Write:
    """Delete an object that is still as it was read."""
    return _of(on, Verb.DELETE, stored, {}, step=Step.GIVE_UP, why=why, group=group)


def create(on: On, manifest: Manifest, *, group: str) -> Write:
    """Make an object."""
    metadata = manifest["metadata"]
    key = objects.Key(metadata.get("namespace", ""), metadata["name"])
    return Write(step=Step.MAKE, on=on, verb=Verb.CREATE, key=key, body=manifest, why="it is missing", group=group)


def of_difference(
    on: On, difference: owned.Difference | None, found: objects.Stored | None, group: str
) -> Write | None:
    """Write what makes an object that belongs to a Machine as it should be; None: nothing, or it is not ours."""
    match difference:
        case owned.Create(manifest=manifest):
            return create(on, manifest, group=group)
        case owned.Patch(changes=changes) if found is not None:
            return patch(on, found, changes, why="it is not as its Machine wants it", group=group)
        case owned.Delete(why=why) if found is not None:
            return delete(on, found, why=why, group=group)
        case _:
            return None


def _of(  # noqa: PLR0913  # a write has as many parts
    on: On, verb: Verb, stored: objects.Stored, body: Manifest, *, step: Step, why: str, group: str
) -> Write:
    meta = stored.meta
    return Write(
        step=step,
        on=on,
        verb=verb,
        key=meta.key,
        uid=meta.uid,
        resource_version=meta.resource_version,
        body=body,
        why=why,
        group=group,
    )
