"""Creating and updating: every write of an object passes here, whether a client or the cluster itself asks for it.

The order is the real API server's: complete, let policies change, check, let policies refuse, compare with what is
stored. A write that changes nothing is no write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Operation
from autoscaler.clock import Clock
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures, metadata, served
from autoscaler.simulation.cluster.admission import Admission
from autoscaler.simulation.cluster.kinds import kind_rules
from autoscaler.simulation.cluster.schemas import custom_schemas
from autoscaler.simulation.cluster.store import Entry, Key, Store

STATUS: Final = "status"
BINDING: Final = "binding"
"""Where a pod runs is no change of what it is: binding counts no generation."""
_ATTEMPTS: Final = 8
"""How many generated names are tried before the name counts as taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a write is asked for."""

    user: str
    is_dry_run: bool = False
    is_strict: bool = False
    """Unknown fields are errors."""
    is_patch: bool = False


class Writes:
    """Puts objects into the store."""

    def __init__(
        self, *, store: Store, registry: served.Registry, admission: Admission, clock: Clock, random: Random
    ) -> None:
        self._store = store
        self._registry = registry
        self._admission = admission
        self._clock = clock
        self._random = random

    def create(self, resource: ResourceType, body: Manifest, *, namespace: str | None, manner: Manner) -> Entry:
        """Store a new object."""
        kind = self._registry.of(resource)
        for _ in range(_ATTEMPTS):
            new = self._begin(kind, body, namespace, manner)
            key = Key(new["metadata"].get("namespace", ""), new["metadata"]["name"])
            if self._store.find(resource, key) is None:
                return Entry(new, 0) if manner.is_dry_run else self._store.put(resource, new)
            if body["metadata"].get("name"):
                break
        raise failures.already_exists(resource, key.name)

    def update(
        self,
        resource: ResourceType,
        key: Key,
        change: Callable[[Manifest], Manifest],
        *,
        manner: Manner,
        subresource: str | None = None,
    ) -> Entry:
        """Replace an object by what `change` makes of it."""
        kind = self._registry.of(resource)
        entry = self._store.find(resource, key)
        if entry is None:
            raise failures.not_found(resource, key.name)
        old = entry.object
        asked = change(old)
        if asked is old:
            return entry
        _check_identity(kind, asked, entry, manner)
        new = self._carried(kind, asked, old, manner, subresource)
        new = self._admit(kind, new, old, manner, subresource)
        if subresource not in {STATUS, BINDING}:
            new = _counted(kind, new, old)
        if _is_same(new, old):
            return entry
        if manner.is_dry_run:
            return Entry(new, entry.version)
        if _is_let_go(new["metadata"]):
            self._store.remove(resource, old)  # watchers see it as it was stored, with what held it
            return Entry(new, entry.version)
        return self._store.put(resource, new)

    def _begin(self, kind: served.Kind, body: Manifest, namespace: str | None, manner: Manner) -> Manifest:
        resource = kind.resource
        check_kind(kind, body)
        given = body.get("metadata") or {}
        if given.get("resourceVersion"):
            raise failures.Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if namespace and given.get("namespace", namespace) != namespace:
            raise _wrong_namespace()
        begun = metadata.begin(given, kind=kind, namespace=namespace, now=self._clock.now(), random=self._random)
        if resource.namespaced:
            self._check_namespace(resource, namespace or "", begun["name"])
        new = {**_head(kind), **body, **_head(kind), "metadata": begun}
        new = self._complete(kind, new, manner)
        if not kind.is_custom:
            new = kind_rules.of(resource).begin(new, self._store, self._clock.now())
        elif kind.has_status:
            new.pop(STATUS, None)
        return self._admit(kind, new, None, manner, None)

    def _carried(
        self, kind: served.Kind, asked: Manifest, old: Manifest, manner: Manner, subresource: str | None
    ) -> Manifest:
        """Keep of an update what it may change: the status through its subresource, all else beside it."""
        carried = {**asked, **_head(kind), "metadata": metadata.carry_over(asked["metadata"], old["metadata"])}
        if subresource == STATUS:
            kept = old["metadata"] if kind.is_custom else _status_metadata(carried["metadata"], old["metadata"])
            carried = _with_status({**old, "metadata": kept}, asked)
        elif kind.has_status and subresource is None:
            carried = _with_status(carried, old)
        carried = self._complete(kind, carried, manner)
        if kind.is_custom or subresource is not None:
            return carried
        return kind_rules.of(kind.resource).carry(carried, old)

    def _complete(self, kind: served.Kind, body: Manifest, manner: Manner) -> Manifest:
        if kind.schema is None:
            return body
        if manner.is_strict:
            unknown = custom_schemas.unknown_fields(kind.schema, body)
            if unknown:
                raise _unknown_field(kind.resource, unknown[0])
        return custom_schemas.complete(kind.schema, body)

    def _admit(
        self, kind: served.Kind, new: Manifest, old: Manifest | None, manner: Manner, subresource: str | None
    ) -> Manifest:
        """Let policies change the object, check it, and let policies refuse it."""
        resource = kind.resource
        operation = Operation.CREATE if old is None else Operation.UPDATE
        is_asked = self._admission.is_asked(resource)
        if is_asked:
            request = self._admission.request(operation, new, old, user=manner.user)
            new = self._admission.mutate(resource, subresource, request) or new
        causes = metadata.causes(new["metadata"], old["metadata"] if old else None)
        if kind.schema is not None:
            causes += custom_schemas.causes(kind.schema, new, old)
        elif subresource is None:
            causes += kind_rules.of(resource).causes(new, old)
        if causes:
            raise failures.invalid(resource, new["metadata"]["name"], causes)
        if is_asked:
            request = self._admission.request(operation, new, old, user=manner.user)
            self._admission.validate(resource, subresource, request)
        return new

    def _check_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        entry = self._store.find(kinds.NAMESPACES, Key("", namespace))
        if entry is None:
            raise failures.not_found(kinds.NAMESPACES, namespace)
        if "deletionTimestamp" in entry.object["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise failures.forbidden(resource, name, why)


def check_kind(kind: served.Kind, body: Manifest) -> None:
    """Refuse a body of another kind; a custom one must name its own."""
    resource = kind.resource
    said = (body.get("apiVersion", ""), body.get("kind", ""))
    if said == (resource.api_version, resource.kind) or (said == ("", "") and not kind.is_custom):
        return
    if kind.is_custom and not said[1]:
        why = f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing"
        raise failures.bad_request(why)
    said_kind = f'{said[1]} in version "{said[0]}"'
    raise failures.bad_request(f"{said_kind} cannot be handled as a {resource.kind}")


def _head(kind: served.Kind) -> Manifest:
    return {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}


def _check_identity(kind: served.Kind, asked: Manifest, entry: Entry, manner: Manner) -> None:
    """Refuse an update that is about another object, or about what the object no longer is."""
    resource, given, old = kind.resource, asked.get("metadata") or {}, entry.object["metadata"]
    name = old["name"]
    if given.get("name") != name:
        why = f"the name of the object ({given.get('name', '')}) does not match the name on the URL ({name})"
        raise failures.bad_request(why)
    if given.get("namespace", old.get("namespace")) != old.get("namespace"):
        raise _wrong_namespace()
    version = given.get("resourceVersion")
    if not version and kind.needs_version and not manner.is_patch:
        raise _version_missing(resource, name)
    if not manner.is_patch and given.get("uid", old["uid"]) != old["uid"]:
        why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {old['uid']}"
        raise failures.conflict(resource, name, why)
    if version and version != old["resourceVersion"]:
        raise failures.conflict(resource, name)


def _version_missing(resource: ResourceType, name: str) -> failures.Refusal:
    cause = failures.as_cause("metadata.resourceVersion", "must be specified for an update", value=0)
    refusal = failures.invalid(resource, name, (cause,))
    message = f'{failures.resource_name(resource)} "{name}" is invalid: {cause.field}: {cause.message}'
    details = {**(refusal.details or {}), "kind": resource.plural}
    return failures.Refusal(422, "Invalid", message, details=details)


def _wrong_namespace() -> failures.Refusal:
    why = "the namespace of the provided object does not match the namespace sent on the request"
    return failures.bad_request(why)


def _unknown_field(resource: ResourceType, path: str) -> failures.Refusal:
    said = f'{resource.kind} in version "{resource.version}"'
    return failures.bad_request(
        f'{said} cannot be handled as a {resource.kind}: strict decoding error: unknown field "{path}"'
    )


def _status_metadata(new: Manifest, old: Manifest) -> Manifest:
    """Through a built-in kind's status, labels and annotations may change, owners may not."""
    kept = {**new, "ownerReferences": old.get("ownerReferences")}
    return {name: value for name, value in kept.items() if value is not None}


def _with_status(body: Manifest, source: Mapping[str, object]) -> Manifest:
    kept = {name: value for name, value in body.items() if name != STATUS}
    if STATUS in source:
        kept[STATUS] = source[STATUS]
    return kept


def _counted(kind: served.Kind, new: Manifest, old: Manifest) -> Manifest:
    """Count a generation if anything but metadata and status changed."""
    if not kind.counts_generations:
        return new
    ignored = {"metadata", STATUS} if kind.has_status else {"metadata"}
    if all(new.get(name) == old.get(name) for name in (new.keys() | old.keys()) - ignored):
        return new
    counted = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**new, "metadata": counted}


def _is_same(new: Manifest, old: Manifest) -> bool:
    if any(new.get(name) != old.get(name) for name in (new.keys() | old.keys()) - {"metadata"}):
        return False
    versionless = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return bool(versionless == old["metadata"])


def _is_let_go(given: Manifest) -> bool:
    """A deleted object goes with its last finalizer, a pod not before its kubelet has stopped it."""
    if "deletionTimestamp" not in given or given.get("finalizers"):
        return False
    return bool(given.get("deletionGracePeriodSeconds", 0) == 0)
