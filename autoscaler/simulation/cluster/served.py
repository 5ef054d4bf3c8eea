"""What the simulated API server serves: each kind, and how it departs from the common rules.

A custom kind is served once its definition has been created, and no longer than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.api.schema import Schema
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType

SERVICE_ACCOUNTS: Final = ResourceType(
    group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", namespaced=True
)
REPLICA_SETS: Final = ResourceType(group="apps", version="v1", plural="replicasets", kind="ReplicaSet", namespaced=True)
PRIORITY_CLASSES: Final = ResourceType(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", namespaced=False
)
_POLICY_GROUP: Final = "admissionregistration.k8s.io"


def _policy_type(plural: str, kind: str) -> ResourceType:
    return ResourceType(group=_POLICY_GROUP, version="v1", plural=plural, kind=kind, namespaced=False)


VALIDATING_POLICIES: Final = _policy_type("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
VALIDATING_BINDINGS: Final = _policy_type("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
MUTATING_POLICIES: Final = _policy_type("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_BINDINGS: Final = _policy_type("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where a kind keeps what its scale subresource shows, as steps into the object."""

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind, and how the API server treats it."""

    resource: ResourceType
    has_status: bool = True
    """Status is written through its subresource alone."""
    counts_generations: bool = True
    needs_version: bool = False
    """A PUT must carry the resourceVersion."""
    is_made_by_put: bool = False
    returns_deleted: bool = False
    """A DELETE that takes effect at once answers with the object, not with a Status."""
    scale: Scale | None = None
    schema: Schema | None = None
    """Of a custom kind: what the whole object must look like."""

    @property
    def is_custom(self) -> bool:
        return self.schema is not None

    @property
    def list_kind(self) -> str:
        return f"{self.resource.kind}List"


_REPLICAS: Final = Scale(
    replicas=("spec", "replicas"), status_replicas=("status", "replicas"), selector=("status", "selector")
)
BUILT_IN: Final = (
    Kind(resource=kinds.PODS, returns_deleted=True),
    Kind(resource=kinds.NODES, counts_generations=False),
    Kind(resource=kinds.NAMESPACES, counts_generations=False),
    Kind(resource=kinds.CONFIG_MAPS, has_status=False, counts_generations=False),
    Kind(resource=kinds.SECRETS, has_status=False, counts_generations=False),
    Kind(resource=kinds.SERVICES, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.EVENTS, has_status=False, counts_generations=False, is_made_by_put=True),
    Kind(resource=SERVICE_ACCOUNTS, has_status=False, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.VOLUMES, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.CLAIMS, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.VOLUME_ATTACHMENTS, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.CSI_NODES, has_status=False, counts_generations=False, returns_deleted=True),
    Kind(resource=kinds.STORAGE_CLASSES, has_status=False, counts_generations=False, returns_deleted=True),
    Kind(resource=PRIORITY_CLASSES, has_status=False, counts_generations=False),
    Kind(resource=kinds.DEPLOYMENTS, scale=_REPLICAS),
    Kind(resource=REPLICA_SETS, scale=_REPLICAS),
    Kind(resource=kinds.STATEFUL_SETS, scale=_REPLICAS),
    Kind(resource=kinds.DAEMON_SETS),
    Kind(resource=kinds.JOBS),
    Kind(resource=kinds.DISRUPTION_BUDGETS),
    Kind(resource=kinds.LEASES, has_status=False, counts_generations=False, needs_version=True, is_made_by_put=True),
    Kind(resource=kinds.DEFINITIONS),
    Kind(resource=VALIDATING_POLICIES),
    Kind(resource=MUTATING_POLICIES, has_status=False),
    Kind(resource=VALIDATING_BINDINGS, has_status=False),
    Kind(resource=MUTATING_BINDINGS, has_status=False),
)


class Registry:
    """The kinds that are served now."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in BUILT_IN:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        resource = kind.resource
        self._kinds[resource.group, resource.version, resource.plural] = kind

    def remove(self, resource: ResourceType) -> None:
        del self._kinds[resource.group, resource.version, resource.plural]

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of(self, resource: ResourceType) -> Kind:
        return self._kinds[resource.group, resource.version, resource.plural]

    def named(self, api_version: str, kind: str) -> Kind | None:
        """Find a kind as an owner reference or a policy's param names it."""
        for served in self:
            if served.resource.kind == kind and served.resource.api_version == api_version:
                return served
        return None

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._kinds.values()))


def of_definition(definition: Manifest) -> Kind:
    """Read the kind that a CustomResourceDefinition defines; it has one version."""
    spec = definition["spec"]
    version = spec["versions"][0]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Kind(
        resource=ResourceType(
            group=spec["group"],
            version=version["name"],
            plural=spec["names"]["plural"],
            kind=spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
        ),
        has_status="status" in subresources,
        needs_version=True,
        schema=version["schema"]["openAPIV3Schema"],
        scale=Scale(
            replicas=_steps(scale["specReplicasPath"]),
            status_replicas=_steps(scale["statusReplicasPath"]),
            selector=_steps(scale.get("labelSelectorPath", "")),
        )
        if scale
        else None,
    )


def _steps(path: str) -> tuple[str, ...]:
    return tuple(step for step in path.split(".") if step)
