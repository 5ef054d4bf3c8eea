"""Kubernetes objects as Pulumi sees them: inputs, names, outputs, and which changes need a replacement. Pure."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, changes, wire
from tools.engine.providers.kubernetes import pruning

AUTONAMED: Final = "pulumi.com/autonamed"
PATCH_FORCE: Final = "pulumi.com/patchForce"
PATCH_MANAGER: Final = "pulumi.com/patchFieldManager"
_NOTES: Final = (PATCH_FORCE, PATCH_MANAGER)
SKIP_AWAIT: Final = "pulumi.com/skipAwait"
MANAGER: Final = "__fieldManager"
"""Where the state keeps under which name the object's fields are applied."""
SECRET_FIELDS: Final = ("data", "stringData")
_SET_BY_SERVER: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")

_IDENTITY: Final[tuple[changes.Path, ...]] = (("kind",), ("metadata", "name"), ("metadata", "namespace"))
_SELECTOR: Final[changes.Path] = ("spec", "selector")
_DATA: Final[frozenset[changes.Path]] = frozenset({("data",), ("binaryData",), ("stringData",)})
# By group and kind: what an update cannot change, or what the provider chooses to replace.
_IMMUTABLE: Final[Mapping[tuple[str, str], tuple[changes.Path, ...]]] = {
    ("", "ConfigMap"): (("data",), ("binaryData",), ("immutable",)),
    ("", "Secret"): (("data",), ("stringData",), ("type",), ("immutable",)),
    ("", "Pod"): (("spec",),),
    ("", "PersistentVolumeClaim"): (("spec",),),
    ("apps", "Deployment"): (_SELECTOR,),
    ("apps", "DaemonSet"): (_SELECTOR,),
    ("apps", "StatefulSet"): (_SELECTOR, ("spec", "serviceName"), ("spec", "volumeClaimTemplates")),
    ("batch", "Job"): (_SELECTOR, ("spec", "template"), ("spec", "completionMode")),
    ("rbac.authorization.k8s.io", "RoleBinding"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (("roleRef",),),
    ("storage.k8s.io", "StorageClass"): (("provisioner",), ("parameters",), ("reclaimPolicy",)),
}


def is_patch(resource_type: str, kind: object) -> bool:
    """Tell whether a resource only adds fields to somebody else's object, such as NamespacePatch."""
    return resource_type.rpartition(":")[2] == f"{kind}Patch"


def check(asked: calls.Check) -> calls.Checked:
    """Refuse what is no object, give it a name if it has none, keep what is unknown."""
    news = dict(asked.news)
    missing = [name for name in ("apiVersion", "kind") if not news.get(name)]
    failures = tuple(calls.Failure(path=name, reason=f"an object needs {name}") for name in missing)
    if failures:
        return calls.Checked(inputs=news, failures=failures)
    metadata = news.get("metadata") or {}
    if isinstance(metadata, Mapping):
        if is_patch(asked.resource.type, news["kind"]) and not metadata.get("name"):
            reason = "a patch needs the name of the object that it patches"
            return calls.Checked(inputs=news, failures=(calls.Failure(path="metadata.name", reason=reason),))
        news["metadata"] = _named(dict(metadata), asked)
    if news["kind"] == "Secret":
        news |= {name: wire.Secret(wire.plain(news[name])) for name in SECRET_FIELDS if news.get(name) is not None}
    return calls.Checked(inputs=news)


def difference(asked: calls.Diff, mutable: frozenset[str]) -> calls.Difference:
    """Compare the new inputs with what is there as far as it was asked for; kinds in `mutable` may change their data.

    What is there is the object as the state has it, from the last update or refresh.
    """
    found = tuple(
        change
        for change in changes.between(inputs_now(asked.old_inputs, asked.old_outputs), asked.news)
        if not any(changes.starts_with(change.path, path) for path in asked.ignored)
    )
    if is_patch(asked.resource.type, asked.news.get("kind")):
        rules: tuple[changes.Path, ...] = _IDENTITY
    else:
        rules = _IDENTITY + _immutable(asked.news, mutable)
    replacing = {change.path for change in found if any(changes.starts_with(change.path, rule) for rule in rules)}
    if _group(asked.old_inputs) != _group(asked.news):
        replacing.add(("apiVersion",))
    return calls.Difference(
        changes=found,
        replacing=frozenset(replacing),
        delete_first=bool(replacing) and _keeps_its_name(asked),
    )


def outputs(live: Mapping[str, Any], inputs: Mapping[str, wire.Value], manager: str) -> wire.Properties:
    """Return an object as the state keeps it: secrets wrapped, without the book-keeping of field managers."""
    found = dict(live)
    found["metadata"] = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    found = wire.covered(found, inputs)
    if live.get("kind") == "Secret":
        found |= {name: wire.Secret(wire.plain(found[name])) for name in SECRET_FIELDS if name in found}
    return {**found, MANAGER: manager}


def preview_outputs(inputs: Mapping[str, wire.Value], old: Mapping[str, wire.Value] | None = None) -> wire.Properties:
    """Return what can be known of an object before it is made or changed."""
    metadata = inputs.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(inputs)
    known = dict(old or {})
    before = known.get("metadata") or dict.fromkeys(_SET_BY_SERVER, wire.UNKNOWN)
    return known | dict(inputs) | {"metadata": {**before, **metadata}}


def inputs_now(inputs: Mapping[str, wire.Value], live: Mapping[str, wire.Value]) -> wire.Properties:
    """Return an object's inputs as they are now; of a Secret's text the server returns the encoded data only."""
    known: dict[str, Any] = wire.plain(live)
    if known.get("kind") == "Secret" and known.get("data") and "stringData" in inputs:
        data = {name: base64.b64decode(text).decode(errors="replace") for name, text in known["data"].items()}
        known = known | {"stringData": data}
    return _with_notes(pruning.pruned(inputs, known), inputs)


def manifest(inputs: Mapping[str, wire.Value], *, patch: bool) -> dict[str, Any]:
    """Return the object to send: no envelopes, no nulls, and of a patch no notes to the provider."""
    body: dict[str, Any] = _without_nulls(wire.plain(inputs))
    annotations = body.get("metadata", {}).get("annotations")
    if patch and annotations is not None:
        kept = {name: text for name, text in annotations.items() if name not in _NOTES}
        body["metadata"]["annotations"] = kept
        if not kept:
            del body["metadata"]["annotations"]
    return body


def annotation(inputs: Mapping[str, wire.Value], name: str) -> str | None:
    """Return an annotation's text, or None."""
    metadata = wire.plain(inputs).get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(name)
    return None if text is None else str(text)


def _with_notes(found: wire.Properties, inputs: Mapping[str, wire.Value]) -> wire.Properties:
    """Add the notes to the provider: of a patch they are never sent, so the server does not know them."""
    notes = {name: text for name in _NOTES if (text := annotation(inputs, name)) is not None}
    if not notes:
        return found
    metadata = found.get("metadata") or {}
    return found | {"metadata": metadata | {"annotations": (metadata.get("annotations") or {}) | notes}}


def _named(metadata: wire.Properties, asked: calls.Check) -> wire.Properties:
    if metadata.get("name") or metadata.get("generateName"):
        return metadata
    before = asked.old_inputs.get("metadata") or {}
    old_annotations = before.get("annotations") or {}
    if old_annotations.get(AUTONAMED) == "true":
        name = before["name"]
    else:
        name = f"{asked.resource.name}-{hashlib.sha256(asked.seed).hexdigest()[:8]}"
    annotations = {**(metadata.get("annotations") or {}), AUTONAMED: "true"}
    return {**metadata, "name": name, "annotations": annotations}


def _immutable(inputs: Mapping[str, wire.Value], mutable: frozenset[str]) -> tuple[changes.Path, ...]:
    """Return what a change replaces; of a mutable kind, unless the object itself is frozen, its data is not of it."""
    kind = str(inputs.get("kind"))
    paths = _IMMUTABLE.get((_group(inputs), kind), ())
    is_mutable = kind in mutable and inputs.get("immutable") is not True
    return tuple(path for path in paths if not (is_mutable and path in _DATA))


def _group(inputs: Mapping[str, wire.Value]) -> str:
    version = str(inputs.get("apiVersion", ""))
    return version.rpartition("/")[0]


def _keeps_its_name(asked: calls.Diff) -> bool:
    """Tell whether old and new object would be in each other's way."""
    old, new = (wire.plain(inputs.get("metadata")) for inputs in (asked.old_inputs, asked.news))
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    if annotation(asked.news, AUTONAMED) == "true":
        return False  # the engine asks for another name
    return all(old.get(name) == new.get(name) for name in ("name", "namespace"))


def _without_nulls(value: wire.Value) -> wire.Value:
    match value:
        case Mapping():
            return {name: _without_nulls(each) for name, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case _:
            return value
