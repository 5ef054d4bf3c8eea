"""Volumes, their claims and classes, and how many volumes a node takes, cut down to what placement reads. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from autoscaler.api import keys
from autoscaler.kube import objects, wire

EBS: Final = "ebs.csi.aws.com"
_IN_TREE: Final = {"kubernetes.io/aws-ebs": EBS}
"""Provisioners of old classes, and the drivers that do their work now."""
_ZONE_KEYS: Final = frozenset({keys.ZONE, keys.ZONE_BETA, keys.EBS_ZONE})
_HOST_KEYS: Final = frozenset({keys.HOSTNAME})


class Volume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    meta: objects.Meta
    zones: frozenset[str] | None
    """Where it can be used; None: anywhere."""
    hosts: frozenset[str] | None = None
    """The host names of the only nodes that can use it; None: any."""
    driver: str = ""
    """The CSI driver that attaches it to nodes; empty: none does."""


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    meta: objects.Meta
    volume: str
    """Empty until it is bound."""
    storage_class: str
    """Empty: none."""
    phase: str


class StorageClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A StorageClass."""

    meta: objects.Meta
    driver: str
    """Who makes its volumes."""
    waits: bool
    """Whether a volume is made where the first pod of its claim goes, not before."""
    zones: frozenset[str] | None
    """Where its volumes may be; None: anywhere."""


class AttachLimits(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A CSINode: how many volumes the drivers on a node can attach."""

    meta: objects.Meta
    limits: Mapping[str, int]
    """By driver, of those that have a limit."""


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: wire.NodeSelector | None = None


class _Driver(msgspec.Struct, frozen=True):
    driver: str = ""


class _VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None
    csi: _Driver | None = None
    aws_elastic_block_store: dict[str, object] | None = None


class _Volume(msgspec.Struct, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None


class _ClaimStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Claim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Term(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple["_Values", ...] = ()


class _Values(msgspec.Struct, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class _Class(msgspec.Struct, frozen=True, rename="camel"):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[_Term, ...] = ()


class _Count(msgspec.Struct, frozen=True):
    count: int | None = None


class _NodeDriver(msgspec.Struct, frozen=True):
    name: str
    allocatable: _Count | None = None


class _CsiNodeSpec(msgspec.Struct, frozen=True):
    drivers: tuple[_NodeDriver, ...] | None = None
    """A node without drivers has null here."""


class _CsiNode(msgspec.Struct, frozen=True):
    spec: _CsiNodeSpec = _CsiNodeSpec()


_VOLUME: Final = msgspec.json.Decoder(_Volume)
_CLAIM: Final = msgspec.json.Decoder(_Claim)
_CLASS: Final = msgspec.json.Decoder(_Class)
_CSI_NODE: Final = msgspec.json.Decoder(_CsiNode)


def volume(raw: bytes | msgspec.Raw) -> Volume:
    """Decode a volume."""
    spec = _VOLUME.decode(raw).spec
    affinity = spec.node_affinity
    selector = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    terms = [[(each.key, each.values) for each in term.match_expressions if each.operator == "In"] for term in selector]
    driver = spec.csi.driver if spec.csi is not None else EBS if spec.aws_elastic_block_store is not None else ""
    return Volume(
        meta=objects.simple(raw).meta,
        zones=_allowed(terms, _ZONE_KEYS),
        hosts=_allowed(terms, _HOST_KEYS),
        driver=driver,
    )


def claim(raw: bytes | msgspec.Raw) -> Claim:
    """Decode a claim."""
    read = _CLAIM.decode(raw)
    return Claim(
        meta=objects.simple(raw).meta,
        volume=read.spec.volume_name,
        storage_class=read.spec.storage_class_name or "",
        phase=read.status.phase,
    )


def storage_class(raw: bytes | msgspec.Raw) -> StorageClass:
    """Decode a StorageClass."""
    read = _CLASS.decode(raw)
    terms = [[(each.key, each.values) for each in term.match_label_expressions] for term in read.allowed_topologies]
    return StorageClass(
        meta=objects.simple(raw).meta,
        driver=_IN_TREE.get(read.provisioner, read.provisioner),
        waits=read.volume_binding_mode == "WaitForFirstConsumer",
        zones=_allowed(terms, _ZONE_KEYS),
    )


def attach_limits(raw: bytes | msgspec.Raw) -> AttachLimits:
    """Decode a CSINode."""
    drivers = _CSI_NODE.decode(raw).spec.drivers or ()
    limits = {each.name: each.allocatable.count for each in drivers if each.allocatable is not None}
    counted = {name: count for name, count in limits.items() if count is not None}
    return AttachLimits(meta=objects.simple(raw).meta, limits=counted)


def _allowed(
    terms: Iterable[Iterable[tuple[str, tuple[str, ...]]]], spoken_of: frozenset[str]
) -> frozenset[str] | None:
    """Return the values of some keys that any term allows; None if there is a term that does not speak of them."""
    found = []
    for term in terms:
        values = [frozenset(allowed) for key, allowed in term if key in spoken_of]
        found.append(frozenset.intersection(*values) if values else None)
    known = [values for values in found if values is not None]
    return frozenset().union(*known) if known and len(known) == len(found) else None
