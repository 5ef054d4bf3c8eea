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


def _v1(group: str, plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
    return ResourceType(group=group, version="v1", plural=plural, kind=kind, namespaced=namespaced)


PODS: Final = _v1("", "pods", "Pod")
NODES: Final = _v1("", "nodes", "Node", namespaced=False)
NAMESPACES: Final = _v1("", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = _v1("", "configmaps", "ConfigMap")
SECRETS: Final = _v1("", "secrets", "Secret")
SERVICES: Final = _v1("", "services", "Service")
EVENTS: Final = _v1("", "events", "Event")
VOLUMES: Final = _v1("", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS: Final = _v1("", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUME_ATTACHMENTS: Final = _v1("storage.k8s.io", "volumeattachments", "VolumeAttachment", namespaced=False)
CSI_NODES: Final = _v1("storage.k8s.io", "csinodes", "CSINode", namespaced=False)
STORAGE_CLASSES: Final = _v1("storage.k8s.io", "storageclasses", "StorageClass", namespaced=False)
DEPLOYMENTS: Final = _v1("apps", "deployments", "Deployment")
STATEFUL_SETS: Final = _v1("apps", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = _v1("apps", "daemonsets", "DaemonSet")
JOBS: Final = _v1("batch", "jobs", "Job")
DISRUPTION_BUDGETS: Final = _v1("policy", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = _v1("scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False)
LEASES: Final = _v1("coordination.k8s.io", "leases", "Lease")
DEFINITIONS: Final = _v1(
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
