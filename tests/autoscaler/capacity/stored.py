"""Volumes, claims and classes as they are stored, with everything defaulted."""

from typing import Any

import msgspec

from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage import volume_objects


def volume(*terms: dict[str, list[str]], name: str = "pv", **spec: Any) -> volume_objects.Volume:
    selector = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": selector}}} if terms else {}
    return volume_objects.volume(_encoded(name, spec={**affinity, **spec}))


def claim(name: str, bound: str = "", *, phase: str | None = None, **more: Any) -> volume_objects.Claim:
    """A claim, bound if a volume is named."""
    spec = {"volumeName": bound, "storageClassName": more.pop("storage_class", None)}
    status = {"phase": phase or ("Bound" if bound else "Pending")}
    return volume_objects.claim(_encoded(name, spec=spec, status=status, namespace="default", **more))


def storage_class(name: str, **spec: Any) -> volume_objects.StorageClass:
    return volume_objects.storage_class(_encoded(name, **{"provisioner": volume_objects.EBS, **spec}))


def csi_node(name: str, **drivers: int | None) -> volume_objects.AttachLimits:
    listed = [{"name": driver, "allocatable": {"count": count}} for driver, count in drivers.items()]
    return volume_objects.attach_limits(_encoded(name, spec={"drivers": listed}))


def stored(
    *things: volume_objects.Volume | volume_objects.Claim | volume_objects.StorageClass | volume_objects.AttachLimits,
) -> storage.Storage:
    """What is known of volumes: these."""

    def of(kind: type[Any]) -> dict[Any, Any]:
        return {each.meta.key: each for each in things if isinstance(each, kind)}

    return storage.Storage(
        claims=of(volume_objects.Claim),
        volumes=of(volume_objects.Volume),
        classes=of(volume_objects.StorageClass),
        attach_limits=of(volume_objects.AttachLimits),
    )


def _encoded(name: str, *, namespace: str = "", **body: Any) -> bytes:
    metadata = {"name": name, "uid": name, "resourceVersion": "1", **body.pop("metadata", {})}
    return msgspec.json.encode({"metadata": {**metadata, **({"namespace": namespace} if namespace else {})}, **body})
