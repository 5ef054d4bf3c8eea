"""An object's metadata: how it begins, what of it may change, and what must not."""

import re
from random import Random
from typing import Final
from uuid import UUID

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster import failures, served
from autoscaler.simulation.cluster.failures import Cause

_KEPT: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
"""Field ownership is not simulated: nothing of ours uses server-side apply."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX: Final = 5
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = re.compile(_SUBDOMAIN)
_SUBDOMAIN_TOLD: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_RESTORED: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName")
_IMMUTABLE: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def begin(metadata: Manifest, *, kind: served.Kind, namespace: str | None, now: float, random: Random) -> Manifest:
    """Make the metadata of a new object."""
    name = metadata.get("name") or _generated(metadata.get("generateName"), random)
    begun: Manifest = {
        **_tidy(metadata),
        "name": name,
        "uid": str(UUID(int=random.getrandbits(128), version=4)),
        "creationTimestamp": clock.to_rfc3339(now),
    }
    if namespace:
        begun["namespace"] = namespace
    for theirs in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        begun.pop(theirs, None)
    if kind.counts_generations:
        begun["generation"] = 1
    return begun


def carry_over(new: Manifest, old: Manifest) -> Manifest:
    """Give an update what it left out and cannot change."""
    carried = _tidy(new)
    for name in _RESTORED:
        if name in old:
            carried.setdefault(name, old[name])
    carried["creationTimestamp"] = old["creationTimestamp"]
    carried.pop("generation", None)
    if "generation" in old:
        carried["generation"] = old["generation"]
    return carried


def causes(metadata: Manifest, old: Manifest | None) -> list[Cause]:
    """Say what is wrong with metadata that is about to be stored."""
    found: list[Cause] = []
    name = metadata["name"]
    if not name:
        found.append(_required_name())
    elif len(name) > 253 or not _NAME.fullmatch(name):
        found.append(failures.as_cause("metadata.name", _SUBDOMAIN_TOLD, value=name))
    for key, value in (metadata.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key):
            found.append(failures.as_cause("metadata.labels", "name part must consist of alphanumerics", value=key))
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            found.append(failures.as_cause("metadata.labels", "a valid label must be alphanumerics", value=value))
    return found + (_change_causes(metadata, old) if old else [])


def _change_causes(metadata: Manifest, old: Manifest) -> list[Cause]:
    found = [
        failures.as_cause(f"metadata.{name}", "field is immutable", value=metadata.get(name))
        for name in _IMMUTABLE
        if metadata.get(name) != old.get(name)
    ]
    if "deletionTimestamp" in old:
        added = sorted(set(metadata.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            why = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            found.append(failures.as_cause("metadata.finalizers", why, reason="FieldValueForbidden"))
    return found


def _tidy(metadata: Manifest) -> Manifest:
    """Keep the fields there are, and leave out empty ones."""
    return {name: metadata[name] for name in _KEPT if metadata.get(name) or metadata.get(name) == 0}


def _generated(prefix: str | None, random: Random) -> str:
    return prefix + "".join(random.choices(_ALPHABET, k=_SUFFIX)) if prefix else ""


def _required_name() -> Cause:
    return failures.as_cause("metadata.name", "name or generateName is required", reason="FieldValueRequired")
