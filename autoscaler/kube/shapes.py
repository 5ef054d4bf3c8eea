"""A pod's shape: what it requests and where it may go. Equal shapes are one object, so pods are planned by the dozen.

The effective request follows Kubernetes: init containers, sidecars, overhead, pod-level resources and resizes in place.
"""

import weakref
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from autoscaler.api import quantities
from autoscaler.kube import wire

CPU: Final = "cpu"
_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")
_BINARY: Final = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
LARGEST: Final = quantities.LARGEST
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_AMOUNTS: dict[str, int] = {}
_AMOUNTS_MAX: Final = 10_000


class Shape(msgspec.Struct, frozen=True, eq=False, weakref=True, kw_only=True):
    """What a pod requests and where it may go. Compared by identity: there is one object per shape."""

    requests: Mapping[str, int]
    """The effective request: cpu in millis, all else in units."""
    node_selector: Mapping[str, str]
    affinity: wire.Affinity | None
    tolerations: tuple[wire.Toleration, ...]
    spread: tuple[wire.Spread, ...]
    claims: tuple[str, ...]
    """Names of the volume claims, which may bind the pod to a zone."""
    host_ports: tuple[tuple[str, str, int], ...]
    resource_claims: bool
    """It asks for devices by dynamic resource allocation, which is not planned for."""
    namespace: str
    labels: Mapping[str, str]
    """Namespace and labels, where affinity, spread or claims make them matter; empty otherwise."""


_KNOWN: weakref.WeakValueDictionary[bytes, Shape] = weakref.WeakValueDictionary()


def of(pod: wire.Pod) -> Shape:
    """Return the shape of a pod; the same object for pods of equal shape."""
    spec = pod.spec
    claims = tuple(sorted(_claim(pod, volume) for volume in spec.volumes if _is_claim(volume)))
    is_relative = bool(spec.affinity or spec.topology_spread_constraints or claims)
    shape = Shape(
        requests=requests(pod),
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        spread=spec.topology_spread_constraints,
        claims=claims,
        host_ports=_host_ports((*spec.containers, *filter(_is_sidecar, spec.init_containers))),
        resource_claims=bool(spec.resource_claims),
        namespace=pod.metadata.namespace if is_relative else "",
        labels=pod.metadata.labels if is_relative else {},
    )
    return _KNOWN.setdefault(_ENCODER.encode(shape), shape)


def requests(pod: wire.Pod) -> dict[str, int]:
    """Sum up what a pod needs at its worst moment."""
    spec = pod.spec
    resized = {status.name: status for status in pod.status.container_statuses}
    resized |= {status.name: status for status in pod.status.init_container_statuses}
    steady: dict[str, int] = {}
    for container in spec.containers:
        _add(steady, _request(container, resized))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        own = _request(container, resized)
        if _is_sidecar(container):
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            both = dict(sidecars)
            _add(both, own)
            _raise_to(peak, both)
    _add(steady, sidecars)
    _raise_to(steady, peak)
    steady.update(amounts(spec.resources.requests))
    _add(steady, amounts(spec.overhead))
    return steady


def amounts(texts: Mapping[str, str | float]) -> dict[str, int]:
    """Read amounts by resource name."""
    return {name: amount(name, text) for name, text in texts.items()}


def amount(resource: str, text: str | float) -> int:
    """Read an amount: cpu in millis, all else in units. The same few texts come again and again."""
    known = f"{resource}={text}"
    value = _AMOUNTS.get(known)
    if value is None:
        value = _read(resource, str(text))
        if len(_AMOUNTS) < _AMOUNTS_MAX:
            _AMOUNTS[known] = value
    return value


def worded(resource: str, amount: int) -> str:
    """Write an amount as people do: `2.5` of cpu, `8Gi` of memory, `3` of nvidia.com/gpu."""
    if resource == CPU:
        whole, rest = divmod(amount, 1000)
        return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
    for exponent, suffix in _BINARY if is_bytes(resource) else ():
        if amount and amount % (1 << exponent) == 0:
            return f"{amount >> exponent}{suffix}"
    return str(amount)


def is_bytes(resource: str) -> bool:
    """Tell whether a resource is counted in bytes."""
    return resource.startswith(_BYTES)


def _read(resource: str, text: str) -> int:
    """Read any amount that the API server takes, however strange; none is larger than the largest it reckons with."""
    try:
        value = quantities.millis(text) if resource == CPU else quantities.units(text)
    except ValueError:  # an exponent of three digits is legal, and means all there is or nothing
        number = Decimal(text)
        value = LARGEST if number >= 1 else int(number > 0)
    return min(LARGEST, value)


def _request(container: wire.Container, resized: Mapping[str, wire.ContainerStatus]) -> dict[str, int]:
    """Take the larger of what a container asks for and what it still has, while a resize is under way."""
    own = amounts(container.resources.requests)
    status = resized.get(container.name)
    if status is not None and (status.allocated_resources or status.resources.requests):
        _raise_to(own, amounts(status.allocated_resources))
        _raise_to(own, amounts(status.resources.requests))
    return own


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = min(LARGEST, total.get(name, 0) + value)


def _raise_to(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, 0):
            total[name] = value


def _is_claim(volume: wire.Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _claim(pod: wire.Pod, volume: wire.Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}"


def _is_sidecar(container: wire.Container) -> bool:
    """Tell whether an init container goes on running."""
    return container.restart_policy == "Always"


def _host_ports(containers: Iterable[wire.Container]) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        sorted((port.host_ip, port.protocol, port.host_port) for c in containers for port in c.ports if port.host_port)
    )
