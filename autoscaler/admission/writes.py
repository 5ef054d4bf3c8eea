"""What admission does to the cluster, as data: one write to one object each, with what must still be true of it. Pure.

Nothing is sent here. Every write that follows from what was read names the version that was read, so that a decision
made on an old view fails instead of counting twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autoscaler.control.writes import Verb
from autoscaler.kube.objects import Key, Stored


class On(StrEnum):
    """The kinds that are written to."""

    WORKLOAD = "workload"
    JOB = "job"
    POD = "pod"
    CLUSTER_QUEUE = "clusterqueue"
    LOCAL_QUEUE = "localqueue"
    FLAVOR = "resourceflavor"


class Step(StrEnum):
    """What a write is for. Each object has one moment per step at which a refused one is tried again."""

    CREATE = "create"
    SPEC = "spec"
    SUSPEND = "suspend"
    SHRINK = "shrink"
    SLICE = "slice"
    FOLD = "fold"
    RECORD = "record"
    OPEN = "open"
    TOUCH = "touch"
    WITHDRAW = "withdraw"
    ADMIT = "admit"
    CLAIM = "claim"
    EVICT = "evict"
    FENCE = "fence"
    RELEASE = "release"
    FINISH = "finish"
    HOLD = "hold"
    TELL = "tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What to tell about the job once a write is done."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write to one object."""

    step: Step
    on: On
    verb: Verb
    key: Key
    kind: str = ""
    """The kind of a job, which has several."""
    uid: str = ""
    """The very object it is for; empty: it is made."""
    resource_version: int | None = None
    """The version that was decided on; None: any of this object."""
    body: Mapping[str, Any]
    """The object, or the merge patch; of a status patch, the status; of a job, whether it is to be suspended."""
    why: str
    event: Event | None = None

    @property
    def sort(self) -> tuple[On, str, Verb, Step]:
        """What it shares with other writes that are refused for the same reasons."""
        return self.on, self.kind, self.verb, self.step


def patch(
    on: On, step: Step, stored: Stored, body: Mapping[str, Any], why: str, *, event: Event | None = None
) -> Write:
    """Change an object that is still as it was read."""
    return _write(on, step, Verb.PATCH, stored, body=body, why=why, event=event)


def patch_status(
    on: On, step: Step, stored: Stored, body: Mapping[str, Any], why: str, *, event: Event | None = None
) -> Write:
    """Change the status of an object that is still as it was read."""
    return _write(on, step, Verb.PATCH_STATUS, stored, body=body, why=why, event=event)


def delete(on: On, step: Step, stored: Stored, why: str) -> Write:
    """Delete an object that is still as it was read."""
    return _write(on, step, Verb.DELETE, stored, body={}, why=why, event=None)


def _write(  # noqa: PLR0913  # a write has as many parts
    on: On, step: Step, verb: Verb, stored: Stored, *, body: Mapping[str, Any], why: str, event: Event | None
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
        event=event,
    )
