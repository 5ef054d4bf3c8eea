"""Pods and nodes as the scheduler holds them: shapes that pods share, and what is taken on each node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.scheduling import requests

_PARTS: Final = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """What pods have in common that are alike to the scheduler. Compared by identity: there is one of each."""

    namespace: str
    labels: Mapping[str, str]
    spec: Manifest
    requests: Mapping[str, int]
    affinity_terms: tuple[Manifest, ...]
    anti_affinity_terms: tuple[Manifest, ...]
    spread: tuple[Manifest, ...]
    """The constraints that must hold."""
    claims: tuple[str, ...] = ()
    """Names of its volume claims."""

    @property
    def looks_at_pods(self) -> bool:
        """Whether other pods decide where it may run, besides the room that they take."""
        return bool(self.affinity_terms or self.anti_affinity_terms or self.spread)


@dataclass(slots=True, kw_only=True, eq=False)
class Placed:
    """A pod on a node."""

    key: Key
    shape: Shape
    node: str
    is_leaving: bool


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A node and what is taken of it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Manifest, ...]
    is_unschedulable: bool
    allocatable: Mapping[str, int]
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[Key, Placed] = field(default_factory=dict)
    verdicts: dict[Shape, str | None] = field(default_factory=dict)
    """What the node's own labels and taints say to a shape, as long as they stay."""

    def take(self, pod: Placed) -> None:
        self.pods[pod.key] = pod
        for name, amount in pod.shape.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def free(self, pod: Placed) -> None:
        del self.pods[pod.key]
        for name, amount in pod.shape.requests.items():
            self.used[name] -= amount


class Shapes:
    """Gives alike pods the same shape, parsed once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, pod: Manifest) -> Shape:
        """Return the shape of a pod."""
        spec, metadata = pod["spec"], pod["metadata"]
        labels = metadata.get("labels") or {}
        identity = msgspec.json.encode(
            [metadata["namespace"], sorted(labels.items()), [spec.get(part) for part in _PARTS], _claims(pod)]
        )
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = _parse(pod)
        return known


def node_of(body: Manifest) -> Node:
    """Read a node, empty."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    return Node(
        name=body["metadata"]["name"],
        labels=body["metadata"].get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        is_unschedulable=bool(spec.get("unschedulable")),
        allocatable=requests.amounts(status.get("allocatable") or status.get("capacity") or {}),
    )


def _claims(pod: Manifest) -> tuple[str, ...]:
    """Name a pod's volume claims; those that are made for it alone have its name."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return tuple(found)


def _parse(pod: Manifest) -> Shape:
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    return Shape(
        namespace=pod["metadata"]["namespace"],
        labels=pod["metadata"].get("labels") or {},
        claims=_claims(pod),
        spec=spec,
        requests={name: amount for name, amount in requests.effective(spec).items() if amount > 0},
        affinity_terms=tuple((affinity.get("podAffinity") or {}).get(REQUIRED) or ()),
        anti_affinity_terms=tuple((affinity.get("podAntiAffinity") or {}).get(REQUIRED) or ()),
        spread=tuple(
            constraint
            for constraint in spec.get("topologySpreadConstraints") or ()
            if constraint["whenUnsatisfiable"] == "DoNotSchedule"
        ),
    )
