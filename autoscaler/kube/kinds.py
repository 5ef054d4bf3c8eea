"""The resources we read or write, and where the API server serves them."""

from dataclasses import dataclass
from typing import Final
from urllib import parse

from autoscaler.api import resources, version


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """A kind of object, as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of all its objects, or of those in one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return (
            f"{root}/namespaces/{parse.quote(namespace, safe='')}/{self.plural}"
            if namespace
            else f"{root}/{self.plural}"
        )

    def path(self, name: str, namespace: str | None = None, subresource: str | None = None) -> str:
        """Return the path of one object, or of a subresource of it."""
        path = f"{self.collection(namespace if self.namespaced else None)}/{parse.quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def _core(plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
    return ResourceType(group="", version="v1", plural=plural, kind=kind, namespaced=namespaced)


def _grouped(group: str, plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
    return ResourceType(group=group, version="v1", plural=plural, kind=kind, namespaced=namespaced)


PODS: Final = _core("pods", "Pod")
NODES: Final = _core("nodes", "Node", namespaced=False)
NAMESPACES: Final = _core("namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = _core("configmaps", "ConfigMap")
SECRETS: Final = _core("secrets", "Secret")
SERVICES: Final = _core("services", "Service")
EVENTS: Final = _core("events", "Event")
VOLUMES: Final = _core("persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS: Final = _core("persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS: Final = _grouped("apps", "deployments", "Deployment")
STATEFUL_SETS: Final = _grouped("apps", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = _grouped("apps", "daemonsets", "DaemonSet")
JOBS: Final = _grouped("batch", "jobs", "Job")
DISRUPTION_BUDGETS: Final = _grouped("policy", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = _grouped("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False)
LEASES: Final = _grouped("coordination.k8s.io", "leases", "Lease")
DEFINITIONS: Final = _grouped(
    "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


def custom(kind: type[resources.Resource]) -> ResourceType:
    """Return where a kind of ours is served."""
    return ResourceType(
        group=version.GROUP,
        version=version.API_VERSION,
        plural=kind.definition.plural,
        kind=kind.__name__,
        namespaced=kind.definition.namespaced,
    )
