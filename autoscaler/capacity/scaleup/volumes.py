"""Volumes, cut down to the zones that they are in: a pod whose volume is in one zone can run in no other. Pure.

A claim that is not bound yet binds where its pod goes, so it says nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from autoscaler.api import keys
from autoscaler.kube import objects, wire

_ZONE_KEYS: Final = frozenset({keys.ZONE, keys.ZONE_BETA, "topology.ebs.csi.aws.com/zone"})


class Volume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    meta: objects.Meta
    zones: frozenset[str] | None
    """Where it can be used; None: anywhere."""


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    meta: objects.Meta
    volume: str
    """Empty until it is bound."""


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: wire.NodeSelector | None = None


class _VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Volume(msgspec.Struct, frozen=True):
    spec: _VolumeSpec = _VolumeSpec()


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""


class _Claim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


_VOLUME: Final = msgspec.json.Decoder(_Volume)
_CLAIM: Final = msgspec.json.Decoder(_Claim)


def volume(raw: bytes | msgspec.Raw) -> Volume:
    """Decode a volume."""
    affinity = _VOLUME.decode(raw).spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    found = [_zones(term) for term in terms]
    known = [zones for zones in found if zones is not None]
    zones = frozenset().union(*known) if known and len(known) == len(found) else None
    return Volume(meta=objects.simple(raw).meta, zones=zones)


def claim(raw: bytes | msgspec.Raw) -> Claim:
    """Decode a claim."""
    return Claim(meta=objects.simple(raw).meta, volume=_CLAIM.decode(raw).spec.volume_name)


def zones_of_claims(
    claims: Iterable[Claim], volumes: Mapping[objects.Key, Volume]
) -> dict[objects.Key, frozenset[str]]:
    """Return the zones of claims that are bound to a volume which is not everywhere."""
    found = {}
    for each in claims:
        bound = volumes.get(objects.Key("", each.volume)) if each.volume else None
        if bound is not None and bound.zones is not None:
            found[each.meta.key] = bound.zones
    return found


def zones_of_pod(
    names: Iterable[str], namespace: str, zones: Mapping[objects.Key, frozenset[str]]
) -> frozenset[str] | None:
    """Return the zones in which a pod finds all of its volumes; None: anywhere."""
    bound = [zones[key] for name in names if (key := objects.Key(namespace, name)) in zones]
    return frozenset.intersection(*bound) if bound else None


def _zones(term: wire.NodeTerm) -> frozenset[str] | None:
    """Return the zones that a term allows; None if it does not speak of zones."""
    allowed = [
        frozenset(each.values) for each in term.match_expressions if each.key in _ZONE_KEYS and each.operator == "In"
    ]
    return frozenset.intersection(*allowed) if allowed else None
