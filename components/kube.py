"""Kubernetes objects in a stack, from plain manifests.

The SDK would have each part as an object of its own type. A manifest is read by more than this stack, so it stays plain
data, in Kubernetes' own spelling, which the SDK takes as well. What a role may do is decided by whoever grants it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api.manifests import Manifest

R = TypeVar("R", bound=pulumi.Resource)
_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final[Mapping[str, Callable[..., pulumi.Resource]]] = {
    "Role": k8s.rbac.v1.Role,
    "ClusterRole": k8s.rbac.v1.ClusterRole,
}
_BINDINGS: Final[Mapping[str, Callable[..., pulumi.Resource]]] = {
    "Role": k8s.rbac.v1.RoleBinding,
    "ClusterRole": k8s.rbac.v1.ClusterRoleBinding,
}


def make(resource: Callable[..., R], name: str, opts: pulumi.ResourceOptions, **parts: Any) -> R:  # noqa: ANN401  # plain data
    """Make an object under a logical name; its parts are metadata, spec, data and the like."""
    return resource(name, opts=opts, **parts)


def account(namespace: str, name: str) -> Manifest:
    """Name a ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def group(name: str) -> Manifest:
    """Name a group of people as the subject of a binding."""
    return {"apiGroup": _RBAC, "kind": "Group", "name": name}


def grant(
    name: str,
    opts: pulumi.ResourceOptions,
    *,
    metadata: Manifest,
    rules: Sequence[Mapping[str, Any]],
    subject: Manifest,
) -> list[pulumi.Resource]:
    """Make a role and its binding, both under one name: in the metadata's namespace, or else in the whole cluster."""
    role = make(_ROLES[_kind(metadata)], name, opts, metadata=metadata, rules=[*rules])
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role]))
    return [role, bind(name, after, metadata=metadata, role=metadata["name"], subject=subject)]


def bind(
    name: str, opts: pulumi.ResourceOptions, *, metadata: Manifest, role: str, subject: Manifest
) -> pulumi.Resource:
    """Bind a role that is there: one of the metadata's namespace, or else one of the whole cluster."""
    kind = _kind(metadata)
    reference = {"apiGroup": _RBAC, "kind": kind, "name": role}
    return make(_BINDINGS[kind], name, opts, metadata=metadata, role_ref=reference, subjects=[subject])


def _kind(metadata: Manifest) -> str:
    return "Role" if "namespace" in metadata else "ClusterRole"
