"""The CustomResourceDefinitions of all kinds, made from their models.

A list that would be empty is left out: the API server drops it, and whoever compares a definition with what the server
has, as Pulumi does, would find a change each time.
"""

from typing import Final

from autoscaler.api import keys, schema, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import KINDS, Resource
from autoscaler.api.resources.base import Column, rules

CATEGORY: Final = "sluice"
"""`kubectl get sluice` lists the objects of all kinds."""


def names() -> tuple[str, ...]:
    """Name the kinds, in the order of the design."""
    return tuple(kind.__name__ for kind in KINDS)


def crd(kind: type[Resource]) -> Manifest:
    """Make the definition of one kind."""
    definition = kind.definition
    singular = kind.__name__.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{definition.plural}.{version.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "sluice", keys.VERSION: version.VERSION},
        },
        "spec": {
            "group": version.GROUP,
            "names": {
                "kind": kind.__name__,
                "listKind": f"{kind.__name__}List",
                "plural": definition.plural,
                "singular": singular,
                **({"shortNames": list(definition.short_names)} if definition.short_names else {}),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [_version(kind)],
        },
    }


def all_crds() -> tuple[Manifest, ...]:
    """Make the definitions of all kinds."""
    return tuple(crd(kind) for kind in KINDS)


def _version(kind: type[Resource]) -> Manifest:
    subresources, columns = _subresources(kind), [_column(column) for column in kind.definition.columns]
    return {
        "name": version.API_VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object_schema(kind)},
        **({"subresources": subresources} if subresources else {}),
        **({"additionalPrinterColumns": columns} if columns else {}),
    }


def _object_schema(kind: type[Resource]) -> schema.Schema:
    fields = kind.model_fields
    properties: schema.Schema = {
        "apiVersion": {"type": "string", "description": f"{version.GROUP_VERSION}."},
        "kind": {"type": "string", "description": f"{kind.__name__}."},
        "metadata": {"type": "object"},
        "spec": _part(kind, "spec"),
    }
    if "status" in fields:
        properties["status"] = _part(kind, "status")
    return {
        "type": "object",
        "description": schema.paragraphs(kind.__doc__ or ""),
        "properties": properties,
        **({"required": ["spec"]} if fields["spec"].is_required() else {}),
        **(rules(*kind.definition.rules) if kind.definition.rules else {}),
    }


def _part(kind: type[Resource], name: str) -> schema.Schema:
    return schema.structural(kind.model_fields[name].annotation, defaults=name == "spec")  # type: ignore[arg-type]


def _subresources(kind: type[Resource]) -> Manifest:
    subresources: Manifest = {"status": {}} if "status" in kind.model_fields else {}
    if kind.definition.scale:
        scale = kind.definition.scale
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
            "labelSelectorPath": scale.selector,
        }
    return subresources


def _column(column: Column) -> Manifest:
    manifest: Manifest = {"name": column.name, "jsonPath": column.path, "type": column.type}
    if column.wide:
        manifest["priority"] = 1
    if column.description:
        manifest["description"] = column.description
    return manifest
