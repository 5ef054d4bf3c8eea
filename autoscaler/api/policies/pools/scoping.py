"""Which scope a namespace and a pool belong to, once as CEL and once as Python; the policies about pools share it.

A namespace says it by its label. A pool of one scope alone says it by the same label, since a policy sees one Scope or
one InstancePool at a time, and never both (ADR 0020).
"""

from typing import Final

from autoscaler.api import keys, resources, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Param, Request

EVERY_POOL: Final = Param(api_version=version.GROUP_VERSION, kind=resources.InstancePool.__name__)
OWNED_POOLS: Final = Param(api_version=version.GROUP_VERSION, kind=resources.InstancePool.__name__, label=keys.SCOPE)
EVERY_SCOPE: Final = Param(api_version=version.GROUP_VERSION, kind=resources.Scope.__name__)

NAMESPACE_SCOPE: Final = f"namespaceObject.metadata.?labels[?'{keys.SCOPE}'].orValue('')"
"""CEL: the scope of the namespace that is written to; empty where it has none."""


def is_exclusive(pool: str) -> str:
    """Write in CEL that a pool, given as an expression, is of one scope alone."""
    return f"!{pool}.spec.?instanceWide.orValue(true)"


def owner(pool: str) -> str:
    """Write in CEL the scope that a pool of one scope belongs to; empty where the pool does not say."""
    return f"{pool}.metadata.?labels[?'{keys.SCOPE}'].orValue('')"


def pools(scope: str) -> str:
    """Write in CEL the pools that a scope lists."""
    return f"{scope}.spec.?pools.orValue([])"


def namespace_scope_of(request: Request) -> str:
    """Return the scope of the namespace that is written to; empty where it has none."""
    return request.namespace_labels.get(keys.SCOPE, "")


def is_exclusive_pool(pool: Manifest) -> bool:
    """Tell whether a pool is of one scope alone."""
    return not pool["spec"].get("instanceWide", True)


def owner_of(pool: Manifest) -> str:
    """Return the scope that a pool of one scope belongs to; empty where the pool does not say."""
    labels: dict[str, str] = pool["metadata"].get("labels") or {}
    return labels.get(keys.SCOPE, "")


def pools_of(scope: Manifest | None) -> list[Manifest]:
    """Return the pools that a scope lists."""
    listed: list[Manifest] = (scope or {}).get("spec", {}).get("pools") or []
    return listed
