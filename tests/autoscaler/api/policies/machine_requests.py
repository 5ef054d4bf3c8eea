"""Writes of pods that ask for machines, and a catalogue with a few of them."""

from typing import Any

from autoscaler.api import keys, machine_catalogue, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.resources import Machine
from tests import builders

NAMESPACE = "sluice-system"
ENABLED = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
GUEST = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "medium"}
GPU = {"type": "nvidia.com/gpu", "num": 2, "product": "NVIDIA-GeForce-RTX-3090"}
TYPES = [
    {"name": "medium", "spec": {"cpu": "6000m", "memory": "48Gi"}, "available": 4},
    {"name": "xlarge", "spec": {"cpu": "40500m", "memory": "128Gi", "gpu": GPU}, "available": 1},
    {"name": "slice", "spec": {"dependence": {"parent": "xlarge", "availableRatio": 25}}, "available": 2},
]


def catalogue() -> Manifest:
    spec = Machine.model_validate(builders.resource("Machine", machineTypes=TYPES, nodePool=[])).spec
    data = machine_catalogue.catalogue([("general", spec), ("spare", spec)]).data
    return {"metadata": {"name": names.MACHINE_CATALOGUE, "namespace": NAMESPACE}, "data": dict(data)}


def pod(labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """Write a guest of type medium, or a pod with other labels."""
    metadata: Manifest = {"name": "guest", "namespace": "work", "labels": dict(GUEST if labels is None else labels)}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}, {"name": "sidecar"}], **spec}}


def request(new: Manifest | None, old: Manifest | None = None, **fields: Any) -> base.Request:
    """Write a request in a namespace that lets guests in, evaluated with the catalogue."""
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    if new is None:
        operation = base.Operation.DELETE
    defaults: Manifest = {"namespace_labels": ENABLED, "param": catalogue(), "username": "somebody"}
    return base.Request(operation=operation, object=new, old_object=old, **(defaults | fields))
