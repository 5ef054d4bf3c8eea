"""Turn instances of Auto Scaling groups into Kubernetes Nodes, and decide which to make and which to remove. Pure."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from autoscaler.api import node_resources
from autoscaler.cloud.catalogue import InstanceType

ENABLED_TAG = "k8s.io/cluster-autoscaler/enabled"
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
LABEL_TAG, TAINT_TAG, RESOURCE_TAG = f"{_TEMPLATE}label/", f"{_TEMPLATE}taint/", f"{_TEMPLATE}resources/"
# Taints that nodes register with and that no autoscaler reads: those of a kubelet's own configuration.
STARTUP_TAG = "local.sluice.dev/startup-taint/"
# Marks the nodes the registrar made; it never touches others.
REGISTRAR_LABEL = "local.sluice.dev/node-registrar"
ROOT_VOLUME_BYTES = 20 * 1024**3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An Auto Scaling group and what its tags say about its nodes."""

    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    resources: Mapping[str, str]

    @classmethod
    def from_tags(cls, name: str, zone: str, tags: Mapping[str, str]) -> Self:
        return cls(
            name=name,
            zone=zone,
            labels=_with_prefix(tags, LABEL_TAG),
            taints=tuple(
                _taint(key, text)
                for prefix in (TAINT_TAG, STARTUP_TAG)
                for key, text in sorted(_with_prefix(tags, prefix).items())
            ),
            resources=_with_prefix(tags, RESOURCE_TAG),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance of a group, running or about to."""

    identifier: str
    group: Group
    type: InstanceType
    launched_at: float  # seconds since the epoch, as all times here
    private_address: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, and when time alone will ask for more (None: never)."""

    create: tuple[Instance, ...]
    delete: tuple[str, ...]
    wake_at: float | None


def plan(
    instances: Iterable[Instance], nodes: Collection[str], *, region: str, now: float, boot_seconds: float
) -> Plan:
    """Compare instances with the names of the registrar's nodes: booted ones get a node, nodes without instance go."""
    wanted = {node_name(instance.identifier, region): instance for instance in instances}
    absent = {name: instance for name, instance in sorted(wanted.items()) if name not in nodes}
    due = {name: instance.launched_at + boot_seconds for name, instance in absent.items()}
    return Plan(
        create=tuple(instance for name, instance in absent.items() if due[name] <= now),
        delete=tuple(sorted(set(nodes) - wanted.keys())),
        wake_at=min((moment for moment in due.values() if moment > now), default=None),
    )


def launch_moment(reported: float, *, first_seen: float) -> float:
    """Return when an instance was launched: EC2 reports whole seconds, rounded down, and a node must never be early."""
    return min(reported + 1.0, first_seen)


def node_name(instance: str, region: str) -> str:
    return f"{instance}.{region}.compute.internal"


def instance_of(node: str) -> str:
    return node.partition(".")[0]


def manifest(instance: Instance, *, region: str) -> dict[str, Any]:
    """Return the Node that this instance's kubelet would register."""
    name = node_name(instance.identifier, region)
    taints = [dataclasses.asdict(taint) for taint in instance.group.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(instance, name=name, region=region),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {
            "providerID": f"aws:///{instance.group.zone}/{instance.identifier}",
            **({"taints": taints} if taints else {}),
        },
        "status": {
            "capacity": {**capacity(instance.type), **instance.group.resources},
            "allocatable": {**allocatable(instance.type), **instance.group.resources},
            "addresses": [
                {"type": "InternalIP", "address": instance.private_address},
                {"type": "Hostname", "address": name},
                {"type": "InternalDNS", "address": name},
            ],
            "nodeInfo": _node_info(instance.type),
        },
    }


def capacity(kind: InstanceType) -> dict[str, str]:
    return _written(kind.capacity(), ROOT_VOLUME_BYTES)


def allocatable(kind: InstanceType) -> dict[str, str]:
    """Return the capacity less what EKS reserves for kubelet and system, and the eviction threshold."""
    return _written(kind.allocatable(), node_resources.allocatable_disk(ROOT_VOLUME_BYTES))


def _written(amounts: Mapping[str, int], disk_bytes: int) -> dict[str, str]:
    """Write amounts as a kubelet does."""
    cpu, memory = amounts["cpu"], amounts["memory"]
    written = {
        "cpu": str(cpu // 1000) if cpu % 1000 == 0 else f"{cpu}m",
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk_bytes // 1024}Ki",
    }
    return {**{name: str(amount) for name, amount in amounts.items()}, **written}


def _labels(instance: Instance, *, name: str, region: str) -> dict[str, str]:
    kind, zone = instance.type, instance.group.zone
    well_known = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": kind.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": kind.architecture,
        "node.kubernetes.io/instance-type": kind.name,
        "beta.kubernetes.io/instance-type": kind.name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
    }
    return dict(instance.group.labels) | well_known | {REGISTRAR_LABEL: "true"}


def _node_info(kind: InstanceType) -> dict[str, str]:
    texts = ("bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion", "machineID")
    empty = dict.fromkeys((*texts, "osImage", "systemUUID"), "")
    return empty | {"architecture": kind.architecture, "operatingSystem": "linux"}


def _taint(key: str, text: str) -> Taint:
    """Parse `value:Effect`, as cluster-autoscaler's tags write taints."""
    value, _, effect = text.rpartition(":")
    return Taint(key=key, value=value, effect=effect)


def _with_prefix(tags: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in tags.items() if key.startswith(prefix)}


def single_zone(zones: Sequence[str]) -> str:
    """Return the zone of a group, which has exactly one; moto itself puts every instance into the region's first."""
    if len(zones) != 1:
        raise ValueError(f"a group of the registrar has one zone, not {len(zones)}: {', '.join(zones)}")
    return zones[0]
