"""The upstream cluster-autoscaler's objects: flags, rights and Deployment, as seed 002 runs it. Pure.

Its rights are those of upstream's own example, word for word but for what this cluster has no use for. None is a
wildcard.
"""

from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from components import specs
from components.config.clusters import Cluster
from components.place import Place
from components.runtime import deployment

NAME: Final = "cluster-autoscaler"
NAMESPACE: Final = "kube-system"
REPOSITORY: Final = "registry.k8s.io/autoscaling/cluster-autoscaler"
PORT: Final = 8085
_USER: Final = 65534
_SELECTOR: Final = {"app.kubernetes.io/name": NAME}
LABELS: Final = {**_SELECTOR, **specs.STAMP}
CLUSTER_METADATA: Final = {"name": NAME, "labels": LABELS}
METADATA: Final = {**CLUSTER_METADATA, "namespace": NAMESPACE}
_READ: Final = ("get", "list", "watch")


def image(kubernetes_version: str) -> str:
    """Name the image whose minor version is the cluster's, as upstream demands."""
    return f"{REPOSITORY}:v{kubernetes_version}.0"


def command(place: Place) -> list[str]:
    """Write the command: groups are found by the cluster's tags, zones are balanced, the least waste wins."""
    return [
        "./cluster-autoscaler",
        "--cloud-provider=aws",
        f"--node-group-auto-discovery=asg:tag={keys.TAG_ENABLED},{keys.cluster_tag(place.cluster)}",
        "--balance-similar-node-groups",
        f"--balancing-ignore-label={keys.ZONE_BETA}",
        "--expander=least-waste",
        "--stderrthreshold=info",
    ]


def spec(config: Cluster, place: Place) -> Manifest:
    """Write the Deployment's spec."""
    return {
        "replicas": config.autoscaler.replicas,
        "selector": {"matchLabels": _SELECTOR},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {
            "metadata": {
                "labels": LABELS,
                "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)},
            },
            "spec": {
                "serviceAccountName": NAME,
                "priorityClassName": specs.CLUSTER_CRITICAL,
                **specs.ON_SERVICES,
                "securityContext": {**deployment.RESTRICTED_POD, "runAsUser": _USER, "runAsGroup": _USER},
                "containers": [_container(config, place)],
            },
        },
    }


def disruption_budget(config: Cluster) -> Manifest | None:
    """Write the budget's spec; None for a single replica, whose node could then never be drained."""
    if config.autoscaler.replicas < 2:
        return None
    return {"maxUnavailable": 1, "selector": {"matchLabels": _SELECTOR}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}


def cluster_rules() -> list[Manifest]:
    """Return what it may do in the whole cluster."""
    return [
        _rule("", "events", "create", "patch"),
        _rule("", "pods/eviction", "create"),
        _rule("", "pods/status", "update"),
        _rule("", "nodes", *_READ, "update"),
        _rule("", "namespaces pods services replicationcontrollers podtemplates", *_READ),
        _rule("", "persistentvolumeclaims persistentvolumes", *_READ),
        _rule("apps", "daemonsets replicasets statefulsets", *_READ),
        _rule("batch", "jobs", *_READ, "patch"),
        _rule("batch", "cronjobs", *_READ),
        _rule("policy", "poddisruptionbudgets", "list", "watch"),
        _rule("resource.k8s.io", "deviceclasses resourceclaims resourceslices", *_READ),
        _rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", *_READ),
    ]


def own_rules() -> list[Manifest]:
    """Return what it may do in its own namespace: its Lease and its status."""
    return [
        _rule("coordination.k8s.io", "leases", "create"),
        {**_rule("coordination.k8s.io", "leases", "get", "update"), "resourceNames": [NAME]},
        _rule("", "configmaps", "create", "list", "watch"),
        {**_rule("", "configmaps", "delete", "get", "update"), "resourceNames": [f"{NAME}-status"]},
    ]


def _container(config: Cluster, place: Place) -> Manifest:
    return {
        "name": NAME,
        "image": image(config.kubernetes_version),
        "imagePullPolicy": "IfNotPresent",
        "command": command(place),
        "env": [{"name": "AWS_REGION", "value": place.region}],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "600Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": deployment.RESTRICTED_CONTAINER,
        "livenessProbe": {"httpGet": {"path": "/health-check", "port": "http"}, "initialDelaySeconds": 30},
    }


def _rule(group: str, resources: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
