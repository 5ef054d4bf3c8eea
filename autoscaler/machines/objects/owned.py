"""Objects that the runtime makes for a Machine, compared with what is wanted of them. Pure.

Only what is wanted is compared: the API server fills in the rest, and newer versions of it fill in more. None where a
value is wanted means that there must be none. Amounts are compared as amounts, since the API server writes `40` for
`40000m`. So an object that was made and not touched since is never written to again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.api import keys, quantities, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine
from autoscaler.kube import objects, wire

_AMOUNTS: Final = frozenset({"requests", "limits"})
_WHOLE: Final = _AMOUNTS | {"matchLabels", "selector"}
"""Maps that have no other keys than those wanted."""
_MISSING: Final = object()
Path = tuple[str, ...]


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """An object as the API server has it."""

    meta: objects.Meta
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make the object."""

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Merge changes into it."""

    changes: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete it: it cannot be changed into what is wanted. It is made again once it is gone."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Leave it alone: an object of that name is not ours."""

    message: str


Difference = Create | Patch | Delete | Taken


def decode(raw: bytes | msgspec.Raw) -> Owned:
    """Decode an object."""
    manifest = msgspec.json.decode(raw)
    manifest["metadata"].pop("managedFields", None)
    return Owned(meta=objects.meta(wire.SIMPLE.decode(raw).metadata), manifest=manifest)


def owner(machine: objects.Custom[Machine]) -> Manifest:
    """Name the Machine that an object belongs to, and goes with."""
    reference = {"apiVersion": version.GROUP_VERSION, "kind": Machine.__name__}
    return {**reference, "name": machine.meta.key.name, "uid": machine.meta.uid, "controller": True}


def difference(wanted: Manifest, found: Owned | None, *, fixed: Iterable[Path]) -> Difference | None:
    """Return what is to be done about an object; None: it is as it should be, or is going and made again after that.

    `fixed` are the fields that cannot change while the object lives.
    """
    if found is None:
        return Create(manifest=_stripped(wanted))
    if found.meta.deleted_at is not None:
        return None
    if not _is_ours(wanted, found):
        return Taken(message=_taken(wanted, found))
    for path in fixed:
        if not _matches(path[-1], _at(wanted, path), _at(found.manifest, path)):
            return Delete(why=f"{'.'.join(path)} cannot be changed")
    changes = _changes(wanted, found.manifest)
    return Patch(changes=changes) if changes else None


def _taken(wanted: Manifest, found: Owned) -> str:
    """Say whose an object is, and what to do about it."""
    what = f"{wanted['kind']} {wanted['metadata']['name']}"
    if _is_reservation(found.meta):
        group = found.meta.labels[keys.MACHINE_GROUP]
        return f"{what} belongs to machine group {group}: rename this machine group, or its type"
    return f"{what} is not Sluice's: delete or rename it"


def unwanted(found: Iterable[Owned], wanted: Iterable[objects.Key]) -> list[Owned]:
    """Return those that were made for a Machine or a type that is not there any more; none that goes already."""
    kept = set(wanted)
    return [
        each
        for each in found
        if each.meta.key not in kept and each.meta.deleted_at is None and _is_reservation(each.meta)
    ]


def _is_reservation(meta: objects.Meta) -> bool:
    labels = meta.labels
    return labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION and keys.MACHINE_GROUP in labels


def _is_ours(wanted: Manifest, found: Owned) -> bool:
    """Tell whether we made an object: its owner is the Machine, or it says in labels what it is for."""
    uids = {each["uid"] for each in wanted["metadata"]["ownerReferences"]}
    labels = wanted["metadata"]["labels"]
    return any(each.uid in uids for each in found.meta.owners) or labels.items() <= found.meta.labels.items()


def _changes(wanted: Manifest, found: Mapping[str, Any], *, is_whole: bool = False) -> Manifest:
    """Return the merge patch that makes a map what is wanted."""
    changed: Manifest = dict.fromkeys(found.keys() - wanted.keys()) if is_whole else {}
    for name, value in wanted.items():
        there = found.get(name, _MISSING)
        if _matches(name, value, there):
            continue
        is_map = isinstance(value, dict) and isinstance(there, dict)
        changed[name] = _changes(value, there, is_whole=name in _WHOLE) if is_map else _stripped(value)
    return changed


def _matches(name: str, wanted: Any, found: Any) -> bool:  # noqa: ANN401  # JSON
    """Tell whether a field has what is wanted of it."""
    if wanted is None:
        return found is _MISSING or not found
    if isinstance(wanted, dict):
        return isinstance(found, dict) and _map_matches(name, wanted, found)
    if isinstance(wanted, list):
        is_alike = isinstance(found, list) and len(found) == len(wanted)
        return is_alike and all(_matches(name, *pair) for pair in zip(wanted, found, strict=True))
    return bool(wanted == found)


def _map_matches(name: str, wanted: Manifest, found: Manifest) -> bool:
    if name in _WHOLE and found.keys() - wanted.keys():
        return False
    if name in _AMOUNTS:
        return all(key in found and _amount(found[key]) == _amount(value) for key, value in wanted.items())
    return all(_matches(key, value, found.get(key, _MISSING)) for key, value in wanted.items())


def _amount(value: object) -> object:
    return quantities.exact(str(value))


def _at(manifest: Mapping[str, Any], path: Path) -> Any:  # noqa: ANN401  # JSON
    there: Any = manifest
    for name in path:
        there = there.get(name, _MISSING) if isinstance(there, dict) else _MISSING
    return None if there is _MISSING else there


def _stripped(value: Any) -> Any:  # noqa: ANN401  # JSON
    """Leave out what there must be none of."""
    if isinstance(value, dict):
        return {key: _stripped(each) for key, each in value.items() if each is not None}
    return [_stripped(each) for each in value] if isinstance(value, list) else value
