"""What makes GPUs usable: the objects of NVIDIA's device plugin and feature discovery. Pure.

The device plugin tells the kubelet of GPUs. The feature discovery finds out what they are, and writes that down as a
NodeFeature; a node's labels are then set by the master of the node feature discovery (NFD), and its garbage collector
removes what is left of nodes that are gone. NFD's workers are not needed and not installed. Nothing here pulls an
image; the names are the defaults of users' clusters.
"""

from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from components import specs
from components.runtime import deployment

NAMESPACE: Final = "kube-system"
DEVICE_PLUGIN: Final = "nvidia-device-plugin"
FEATURE_DISCOVERY: Final = "gpu-feature-discovery"
NFD_MASTER: Final = "nfd-master"
NFD_COLLECTOR: Final = "nfd-gc"
NVIDIA_IMAGE: Final = "nvcr.io/nvidia/k8s-device-plugin:v0.20.1"
NFD_IMAGE: Final = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
NFD_GROUP: Final = "nfd.k8s-sigs.io"
_USER: Final = 65534
_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


def labels(name: str) -> dict[str, str]:
    """Return the labels of an object."""
    return {**_selector(name), **specs.STAMP}


def metadata(name: str) -> Manifest:
    """Return the metadata of an object in the namespace."""
    return {**cluster_metadata(name), "namespace": NAMESPACE}


def cluster_metadata(name: str) -> Manifest:
    """Return the metadata of an object of the whole cluster."""
    return {"name": name, "labels": labels(name)}


def device_plugin() -> Manifest:
    """Write the device plugin's DaemonSet."""
    container = {
        "name": DEVICE_PLUGIN,
        "image": NVIDIA_IMAGE,
        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "device-plugins", "mountPath": _PLUGINS}],
    }
    volumes = [{"name": "device-plugins", "hostPath": {"path": _PLUGINS, "type": "Directory"}}]
    return _daemon_set(DEVICE_PLUGIN, container, {"volumes": volumes, "automountServiceAccountToken": False})


def feature_discovery() -> Manifest:
    """Write the feature discovery's DaemonSet."""
    fields = {"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    container = {
        "name": FEATURE_DISCOVERY,
        "image": NVIDIA_IMAGE,
        "command": ["gpu-feature-discovery"],
        "env": [
            {"name": "GFD_USE_NODE_FEATURE_API", "value": "true"},
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        ],
        "securityContext": {"privileged": True},  # it asks the driver, and the instance's own description
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "sys", "mountPath": "/sys"}],
    }
    volumes = [{"name": "sys", "hostPath": {"path": "/sys", "type": "Directory"}}]
    return _daemon_set(FEATURE_DISCOVERY, container, {"volumes": volumes, "serviceAccountName": FEATURE_DISCOVERY})


def nfd(name: str, *arguments: str) -> Manifest:
    """Write the Deployment of NFD's master or garbage collector."""
    probe = {"httpGet": {"path": "/healthz", "port": "http"}}
    container = {
        "name": name,
        "image": NFD_IMAGE,
        "command": [name, *arguments],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": deployment.RESTRICTED_CONTAINER,
        "livenessProbe": {**probe, "failureThreshold": 6},
        "readinessProbe": probe,
    }
    pod = {
        "serviceAccountName": name,
        "enableServiceLinks": False,
        "priorityClassName": specs.CLUSTER_CRITICAL,
        **specs.ON_SERVICES,
        "securityContext": {**deployment.RESTRICTED_POD, "runAsUser": _USER, "runAsGroup": _USER},
        "containers": [container],
    }
    return {"replicas": 1, **_template(name, pod)}


def node_rules() -> dict[str, list[Manifest]]:
    """Return what NFD's parts may do in the whole cluster, by part."""
    return {
        NFD_MASTER: [
            _rule("", "nodes nodes/status", "get", "list", "patch", "update", "watch"),
            _rule(NFD_GROUP, "nodefeatures nodefeaturerules", "get", "list", "watch"),
            _rule("", "namespaces", "list", "watch"),
        ],
        NFD_COLLECTOR: [
            _rule("", "nodes", "get", "list", "watch"),
            _rule(NFD_GROUP, "nodefeatures", "delete", "list", "watch"),
            _rule("topology.node.k8s.io", "noderesourcetopologies", "delete", "list"),
        ],
    }


def feature_rules() -> list[Manifest]:
    """Return what the feature discovery may do in its own namespace: keep its NodeFeatures, owned by its pods."""
    return [
        _rule(NFD_GROUP, "nodefeatures", "create", "delete", "get", "list", "update", "watch"),
        _rule("", "pods", "get"),
    ]


def definitions() -> tuple[Manifest, ...]:
    """Return the definitions that NFD's master reads, as far as they are used here."""
    return (_definition("NodeFeature", _NODE_FEATURE, "Namespaced"), _definition("NodeFeatureRule", _ANY, "Cluster"))


_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_NODE_FEATURE: Final = {"type": "object", "properties": {"features": _ANY, "labels": _TEXTS}}


def _definition(kind: str, spec: Manifest, scope: str) -> Manifest:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "metadata": {"name": f"{plural}.{NFD_GROUP}"},
        "spec": {
            "group": NFD_GROUP,
            "names": names,
            "scope": scope,
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _daemon_set(name: str, container: Manifest, pod: Manifest) -> Manifest:
    """Run on every node that will have GPUs, whatever taints its pool has."""
    has_gpus = {"matchExpressions": [{"key": keys.ACCELERATOR, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [has_gpus]}}
    return _template(
        name,
        {
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": required},
            "containers": [container],
            **pod,
        },
    )


def _template(name: str, pod: Manifest) -> Manifest:
    return {
        "selector": {"matchLabels": _selector(name)},
        "template": {"metadata": {"labels": labels(name)}, "spec": pod},
    }


def _selector(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def _rule(group: str, resources: str, *verbs: str) -> Manifest:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}
