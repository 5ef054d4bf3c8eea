"""Volumes: pods whose claims cannot be bound, nodes that volumes cannot be used on, and nodes with too many of them.

A claim whose class waits for a pod stays as it is when its pod has a node: nobody makes volumes here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster.store import Key, Store
from autoscaler.simulation.scheduling import node_affinity
from autoscaler.simulation.scheduling.model import Node, Shape

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
TOO_MANY: Final = "node(s) exceed max volume count"
KINDS: Final = (kinds.CLAIMS, kinds.VOLUMES, kinds.STORAGE_CLASSES, kinds.CSI_NODES)


class Volumes:
    """Volumes and claims as the API server has them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refusal(self, shape: Shape) -> str | None:
        """Say why a pod can run on no node at all; None if it may."""
        for name in shape.claims:
            claim = self._find(kinds.CLAIMS, name, shape.namespace)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if "deletionTimestamp" in claim["metadata"]:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if (claim.get("status") or {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        is_bound = [self._is_bound(shape, name) or self._waits(shape, name) for name in shape.claims]
        return None if all(is_bound) else UNBOUND

    def verdict(self, shape: Shape, node: Node) -> str | None:
        """Say why a pod's volumes cannot be used on a node; None if they can."""
        if self._has_too_many(shape, node):
            return TOO_MANY
        for volume in self._volumes(shape):
            required = (volume["spec"].get("nodeAffinity") or {}).get("required")
            terms = required["nodeSelectorTerms"] if required else ()
            if required and not any(node_affinity.term_matches(term, node.labels, node.name) for term in terms):
                return CONFLICT
        return None

    def _has_too_many(self, shape: Shape, node: Node) -> bool:
        csi_node = self._find(kinds.CSI_NODES, node.name)
        drivers = csi_node["spec"].get("drivers") or () if csi_node else ()
        limits = {each["name"]: (each.get("allocatable") or {}).get("count") for each in drivers}
        there = set(self._attached(pod.shape for pod in node.pods.values()))
        more = set(self._attached([shape])) - there
        for driver in {driver for driver, _ in more}:
            limit = limits.get(driver)
            if limit is not None and sum(each == driver for each, _ in there | more) > limit:
                return True
        return False

    def _attached(self, shapes: Iterable[Shape]) -> Iterator[tuple[str, str]]:
        """Yield the driver and the name of each volume, or of its claim where there is none yet."""
        for shape in shapes:
            for name in shape.claims:
                claim = self._find(kinds.CLAIMS, name, shape.namespace)
                volume = self._find(kinds.VOLUMES, claim["spec"].get("volumeName", "")) if claim else None
                if volume is not None and "csi" in volume["spec"]:
                    yield volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"]
                elif claim is not None and volume is None:
                    made_by = self._find(kinds.STORAGE_CLASSES, claim["spec"].get("storageClassName", ""))
                    if made_by is not None:
                        yield made_by["provisioner"], f"{shape.namespace}/{name}"

    def _volumes(self, shape: Shape) -> Iterator[Manifest]:
        for name in shape.claims:
            claim = self._find(kinds.CLAIMS, name, shape.namespace)
            volume = self._find(kinds.VOLUMES, claim["spec"].get("volumeName", "")) if claim else None
            if volume is not None:
                yield volume

    def _is_bound(self, shape: Shape, name: str) -> bool:
        claim = self._find(kinds.CLAIMS, name, shape.namespace) or {}
        return (claim.get("status") or {}).get("phase") == "Bound"

    def _waits(self, shape: Shape, name: str) -> bool:
        claim = self._find(kinds.CLAIMS, name, shape.namespace) or {"spec": {}}
        made_by = self._find(kinds.STORAGE_CLASSES, claim["spec"].get("storageClassName", ""))
        return made_by is not None and made_by.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _find(self, resource: ResourceType, name: str, namespace: str = "") -> Manifest | None:
        entry = self._store.find(resource, Key(namespace, name)) if name else None
        return entry.object if entry else None
