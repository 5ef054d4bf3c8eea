"""The StatefulSet whose pods, the sleepers, hold the room of a machine type. Pure.

It has as many sleepers as there are machines. They are born behind our gate and hold nothing until one is opened for
room on a certain node; a gated pod is never ready, so they are made all at once and replaced only when deleted
(`Parallel`, `OnDelete`). A sleeper that goes needs no time to end. A set whose fixed fields are wrong is deleted with
its sleepers and made again: they only hold room, and those that follow are opened for it again.
"""

from typing import Final

from autoscaler.api import keys, machine_pods, names
from autoscaler.api.machine_catalogue import MachineResources
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine
from autoscaler.api.resources.machines import MachineType
from autoscaler.kube import kinds, objects
from autoscaler.machines.objects import owned

CONTAINER: Final = "sleeper"
USER: Final = 65535
"""Whom sleepers run as: the user of the pause image."""
FIXED: Final[tuple[owned.Path, ...]] = (
    ("spec", "selector"),
    ("spec", "serviceName"),
    ("spec", "podManagementPolicy"),
    ("spec", "volumeClaimTemplates"),
)
_NOTHING_ELSE: Final = dict.fromkeys(
    (
        "activeDeadlineSeconds",
        "hostNetwork",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "priorityClassName",
        "resourceClaims",
        "resources",
        "runtimeClassName",
        "topologySpreadConstraints",
        "volumes",
    )
)
"""What would change where sleepers can go, or what they hold, and so must not be there."""


def wanted(
    machine: objects.Custom[Machine],
    offer: MachineType,
    resources: MachineResources,
    *,
    namespace: str,
    image: str,
) -> Manifest:
    """Write the StatefulSet of a type; None in it: there must be nothing."""
    group = machine.meta.key.name
    name, labels = names.stateful_set(offer.name, group), role_labels(group, offer.name)
    return {
        "apiVersion": kinds.STATEFUL_SETS.api_version,
        "kind": kinds.STATEFUL_SETS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [owned.owner(machine)],
        },
        "spec": {
            "replicas": offer.available,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
            "minReadySeconds": None,
            "ordinals": None,
            "volumeClaimTemplates": None,
            "selector": {"matchLabels": labels},
            "template": _template(group, offer.name, resources, image),
        },
    }


def difference(wanted: Manifest, found: owned.Owned | None) -> owned.Difference | None:
    """Return what is to be done about a type's StatefulSet; None: nothing."""
    return owned.difference(wanted, found, fixed=FIXED)


def revision(found: owned.Owned) -> str | None:
    """Return which template new sleepers are made from; None: its controller has not seen the last change yet."""
    status = found.manifest.get("status") or {}
    is_seen = status.get("observedGeneration") == found.meta.generation
    return status.get("updateRevision") if is_seen else None


def is_outdated(sleeper: objects.Meta, newest: str | None) -> bool:
    """Tell whether a sleeper was made from another template than new ones are."""
    return newest is not None and sleeper.labels.get(keys.POD_REVISION) != newest


def role_labels(group: str, machine_type: str) -> dict[str, str]:
    """Return the labels of everything that holds room for a type."""
    return {
        keys.MACHINE_GROUP: group,
        keys.MACHINE_TYPE: machine_type,
        keys.POD_ROLE: keys.ROLE_RESERVATION,
    }


def _template(group: str, machine_type: str, resources: MachineResources, image: str) -> Manifest:
    pod = _pod(group, machine_type, resources, image)
    return {"metadata": {"labels": role_labels(group, machine_type)}, "spec": {**pod, **_NOTHING_ELSE}}


def _pod(group: str, machine_type: str, resources: MachineResources, image: str) -> Manifest:
    return {
        "schedulingGates": [{"name": keys.MACHINE_GATE}],
        "schedulerName": "default-scheduler",
        "tolerations": machine_pods.tolerations(group, machine_type, resources.parent),
        "affinity": _affinity(group, machine_type, resources),
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(resources, image)],
    }


def _affinity(group: str, machine_type: str, resources: MachineResources) -> Manifest:
    required = machine_pods.node_requirements(group, machine_type, resources.gpu_label)
    term = {"matchExpressions": required, "matchFields": None}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": None,
        },
        "podAffinity": None,
        "podAntiAffinity": None,
    }


def _container(resources: MachineResources, image: str) -> Manifest:
    return {
        "name": CONTAINER,
        "image": image,
        "resources": {"requests": resources.requests(), "limits": resources.requests()},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
