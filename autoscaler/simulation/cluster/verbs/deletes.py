"""Deleting: preconditions, finalizers, grace for pods, and what becomes of dependents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Operation
from autoscaler.clock import Clock
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.admission import Admission
from autoscaler.simulation.cluster.kinds import pods
from autoscaler.simulation.cluster.store import Entry, Key, Store
from autoscaler.simulation.cluster.verbs.writes import Manner

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_FINALIZERS: Final[Mapping[str, str]] = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_UNASKED: Final[Mapping[ResourceType, str]] = {kinds.JOBS: "Orphan"}
"""What becomes of dependents where the deletion does not say; of all other kinds they go after their owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a deletion is asked for."""

    uid: str | None = None
    version: str | None = None
    grace_seconds: int | None = None
    propagation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What became of the object: it is gone, or it is on its way."""

    entry: Entry
    is_gone: bool


def options_of(body: Manifest, query: Mapping[str, str]) -> Options:
    """Read the options from a body, and what it leaves out from the query."""
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    return Options(
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        grace_seconds=None if grace is None else int(grace),
        propagation=body.get("propagationPolicy", query.get("propagationPolicy")),
    )


class Deletes:
    """Takes objects out of the store, or marks them so that others may finish first."""

    def __init__(self, *, store: Store, admission: Admission, clock: Clock) -> None:
        self._store = store
        self._admission = admission
        self._clock = clock

    def delete(self, resource: ResourceType, key: Key, options: Options, manner: Manner) -> Deletion:
        """Delete an object, at once if nothing holds it."""
        entry = self._store.find(resource, key)
        if entry is None:
            raise failures.not_found(resource, key.name)
        _check_preconditions(resource, entry, options)
        if self._admission.is_asked(resource):
            request = self._admission.request(Operation.DELETE, None, entry.object, user=manner.user)
            self._admission.validate(resource, None, request)
        marked = self._marked(resource, entry.object, options)
        held = bool(marked["metadata"].get("finalizers")) or _is_stopping(marked) or _holds_content(resource, marked)
        if manner.is_dry_run:
            return Deletion(entry=Entry(marked, entry.version), is_gone=not held)
        is_marked = marked is not entry.object and (held or resource == kinds.PODS)  # pods always go in two steps
        seen = self._store.put(resource, marked) if is_marked else entry
        if not held:
            return Deletion(entry=self._store.remove(resource, seen.object), is_gone=True)
        return Deletion(entry=seen, is_gone=False)

    def _marked(self, resource: ResourceType, body: Manifest, options: Options) -> Manifest:
        """Return the object as marked for deletion; the same one if it was marked so already."""
        metadata = body["metadata"]
        finalizers = _finalizers(metadata.get("finalizers", []), options.propagation or _UNASKED.get(resource))
        grace = pods.grace_seconds(body, options.grace_seconds) if resource == kinds.PODS else 0
        if "deletionTimestamp" in metadata:
            left = metadata["deletionGracePeriodSeconds"]
            is_shorter = options.grace_seconds is not None and grace < left
            if not is_shorter and finalizers == metadata.get("finalizers", []):
                return body
            grace = grace if is_shorter else left
        marked = {**metadata, "deletionGracePeriodSeconds": grace, "finalizers": finalizers}
        marked["deletionTimestamp"] = clock.to_rfc3339(self._clock.now() + grace)
        if "generation" in metadata and "deletionTimestamp" not in metadata:
            marked["generation"] = metadata["generation"] + 1
        if not finalizers:
            del marked["finalizers"]
        done = {**body, "metadata": marked}
        return {**done, "status": {**body["status"], "phase": "Terminating"}} if resource == kinds.NAMESPACES else done


def _check_preconditions(resource: ResourceType, entry: Entry, options: Options) -> None:
    name, uid, version = entry.object["metadata"]["name"], entry.uid, str(entry.version)
    about = failures.details(resource, name) | {"kind": resource.kind}
    if options.uid is not None and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
    elif options.version is not None and options.version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record"
            f" ({version}). The object might have been modified"
        )
    else:
        return
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    raise failures.Refusal(409, "Conflict", message, details=about)


def _finalizers(present: list[str], propagation: str | None) -> list[str]:
    """Let the garbage collector finish first where dependents must go first, or be let go."""
    if propagation is None:
        return present
    kept = [name for name in present if name not in _FINALIZERS.values()]
    added = _FINALIZERS.get(propagation)
    return [*kept, added] if added else kept


def _is_stopping(marked: Manifest) -> bool:
    return bool(marked["metadata"]["deletionGracePeriodSeconds"] > 0)


def _holds_content(resource: ResourceType, marked: Manifest) -> bool:
    return resource == kinds.NAMESPACES and bool(marked["spec"].get("finalizers"))
