"""Volumes, claims and classes as they are stored, with everything defaulted."""

from typing import Any

import msgspec

from autoscaler.capacity.scaleup import storage, volumes


def volume(*terms: dict[str, list[str]], name: str = "pv", **spec: Any) -> volumes.Volume:
    selector = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": selector}}} if terms else {}
    return volumes.volume(_encoded(name, spec={**affinity, **spec}))


def claim(name: str, bound: str = "", *, phase: str | None = None, **more: Any) -> volumes.Claim:
    """A claim, bound if a volume is named."""
    spec = {"volumeName": bound, "storageClassName": more.pop("storage_class", None)}
    status = {"phase": phase or ("Bound" if bound else "Pending")}
    return volumes.claim(_encoded(name, spec=spec, status=status, namespace="default", **more))


def storage_class(name: str, **spec: Any) -> volumes.StorageClass:
    return volumes.storage_class(_encoded(name, **{"provisioner": volumes.EBS, **spec}))


def csi_node(name: str, **drivers: int | None) -> volumes.AttachLimits:
    listed = [{"name": driver, "allocatable": {"count": count}} for driver, count in drivers.items()]
    return volumes.attach_limits(_encoded(name, spec={"drivers": listed}))


def stored(*things: volumes.Volume | volumes.Claim | volumes.StorageClass | volumes.AttachLimits) -> storage.Storage:
    """What is known of volumes: these."""

    def of(kind: type[Any]) -> dict[Any, Any]:
        return {each.meta.key: each for each in things if isinstance(each, kind)}

    return storage.Storage(
        claims=of(volumes.Claim),
        volumes=of(volumes.Volume),
        classes=of(volumes.StorageClass),
        attach_limits=of(volumes.AttachLimits),
    )


def _encoded(name: str, *, namespace: str = "", **body: Any) -> bytes:
    metadata = {"name": name, "uid": name, "resourceVersion": "1", **body.pop("metadata", {})}
    return msgspec.json.encode({"metadata": {**metadata, **({"namespace": namespace} if namespace else {})}, **body})
