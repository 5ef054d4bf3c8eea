"""Whose field is it: `managedFields` of an object, as far as an update has to know and to mend them. Pure.

An object made by POST belongs to its maker as an updater, not as an applier, and would conflict with its own maker at
the first apply. So before an apply those entries become the applier's, and with them those of `kubectl…` managers.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.engine.providers import changes

_LEGACY = "pulumi-kubernetes"


def taken_over(entries: Sequence[Mapping[str, Any]], manager: str, api_version: str) -> list[dict[str, Any]] | None:
    """Return the entries with all that may be taken given to the manager, or None if there is nothing to take."""
    taken = [entry for entry in entries if _may_be_taken(entry, manager)]
    if not taken:
        return None
    own = [entry for entry in entries if _is_applier(entry, manager)]
    fields: dict[str, Any] = {}
    for entry in (*own, *taken):
        fields = _union(fields, entry.get("fieldsV1") or {})
    merged = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "time": max(str(entry.get("time", "")) for entry in (*own, *taken)),
    }
    return [dict(entry) for entry in entries if entry not in taken and entry not in own] + [merged]


def without_foreign(
    body: dict[str, Any], ignored: Sequence[changes.Path], entries: Sequence[Mapping[str, Any]], manager: str
) -> dict[str, Any]:
    """Leave those ignored fields out of an object that are not the manager's."""
    kept: dict[str, Any] = json.loads(json.dumps(body))
    own = [entry.get("fieldsV1") or {} for entry in entries if entry.get("manager") == manager]
    for path in ignored:
        if not any(_owns(fields, kept, path) for fields in own):
            _remove(kept, path)
    return kept


def conflicts(status: Mapping[str, Any]) -> list[str]:
    """Return the fields and managers that a conflict answer names."""
    causes = (status.get("details") or {}).get("causes") or ()
    return [
        f"{cause.get('field')} ({cause.get('message')})"
        for cause in causes
        if cause.get("reason") == "FieldManagerConflict"
    ]


def _may_be_taken(entry: Mapping[str, Any], manager: str) -> bool:
    name = str(entry.get("manager"))
    is_ours = name in {manager, _LEGACY} or name.startswith("kubectl")
    return is_ours and entry.get("operation") == "Update" and not entry.get("subresource")


def _is_applier(entry: Mapping[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for name, value in other.items():
        both[name] = _union(both[name], value) if name in both else value
    return both


def _owns(fields: Mapping[str, Any], value: Any, path: changes.Path) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a field, or the whole list or map it is in, is among the fields."""
    if not path or not fields:
        return True
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        key = f"f:{step}"
        return key in fields and _owns(fields[key], value.get(step), rest)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        element = value[step]
        for key, below in fields.items():
            if key.startswith("k:") and _is_keyed(element, json.loads(key[2:])):
                return _owns(below, element, rest)
    return False


def _is_keyed(element: object, key: Mapping[str, Any]) -> bool:
    return isinstance(element, Mapping) and all(element.get(name) == value for name, value in key.items())


def _remove(body: Any, path: changes.Path) -> None:  # noqa: ANN401 - JSON
    for step in path[:-1]:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(body, dict):
        body.pop(path[-1], None)
