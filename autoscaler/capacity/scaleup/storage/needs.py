"""What the volumes of pods ask of nodes, or why no node helps a pod with them. Pure.

A claim that is bound binds its pods to where its volume is. One whose class waits for a pod says little: its volume is
made where the pod goes. Any other claim must be bound before its pod can have a node, so that no new node helps.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.capacity.model import ATTACHABLE, Reason, Rejection
from autoscaler.capacity.scaleup.storage.volume_objects import AttachLimits, Claim, StorageClass, Volume
from autoscaler.kube import objects, shapes

_BOUND: Final = "Bound"
_LOST: Final = "Lost"
_IN_TREE: Final = "kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Storage:
    """The volumes, claims and classes of a cluster. Compared by identity: the same while nothing of it changes."""

    claims: Mapping[objects.Key, Claim] = field(default_factory=dict)
    volumes: Mapping[objects.Key, Volume] = field(default_factory=dict)
    classes: Mapping[objects.Key, StorageClass] = field(default_factory=dict)
    attach_limits: Mapping[objects.Key, AttachLimits] = field(default_factory=dict)
    """By node, of those that said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a pod's volumes ask of its node."""

    zones: frozenset[str] | None = None
    """Where all of them can be used; None: anywhere."""
    hosts: frozenset[str] | None = None
    """The same by host name."""
    attachments: Mapping[str, int] = field(default_factory=dict)
    """How many of them are attached to the node, by a resource for each driver."""
    refused: Rejection | None = None
    """Why the pod can have no node at all; None: it can."""


NOTHING: Final = Needs()


def needs(storage: Storage, shape: shapes.Shape, namespace: str) -> Needs:
    """Say what a pod's volumes ask for; of what speaks against them, the first."""
    if not shape.claims:
        return NOTHING
    claims = [objects.Key(namespace, name) for name in shape.claims]
    found = [_claimed(storage, key) for key in claims]
    attachments = {each for key in claims if (each := attached(storage, key)) is not None}
    return Needs(
        attachments=Counter(driver for driver, _ in attachments),
        zones=_common(each.zones for each in found),
        hosts=_common(each.hosts for each in found),
        refused=next((each.refused for each in found if each.refused is not None), None),
    )


def resource(driver: str) -> str:
    """Return the name under which volumes of a driver are counted, which is Kubernetes' own."""
    return f"{ATTACHABLE}csi-{driver}"


def driver(resource: str) -> str:
    """Return the driver whose volumes are counted under a name."""
    return resource.removeprefix(f"{ATTACHABLE}csi-")


def attached(storage: Storage, key: objects.Key) -> tuple[str, str] | None:
    """Return as what a claim's volume counts on a node, and which it is; None if it is not attached to any."""
    claim = storage.claims.get(key)
    if claim is None:
        return None
    volume = storage.volumes.get(objects.Key("", claim.volume)) if claim.volume else None
    if volume is not None:
        return (resource(volume.driver), claim.volume) if volume.driver else None
    made_by = storage.classes.get(objects.Key("", claim.storage_class))
    if made_by is None or made_by.driver.startswith(_IN_TREE):
        return None
    return resource(made_by.driver), f"{key.namespace}/{key.name}"


def state(storage: Storage, shape: shapes.Shape, namespace: str) -> tuple[object, ...]:
    """Return all about a pod's claims that decides where it can run: what was learned of another state is old."""
    found = []
    for name in shape.claims:
        key = objects.Key(namespace, name)
        claim, said = storage.claims.get(key), _claimed(storage, key)
        own = (claim.meta.uid, claim.storage_class, claim.volume) if claim is not None else ()
        found.append((own, tuple(sorted(said.zones or ())), tuple(sorted(said.hosts or ()))))
    return tuple(found)


def _claimed(storage: Storage, key: objects.Key) -> Needs:
    """Say what one claim asks for."""
    claim = storage.claims.get(key)
    if claim is None:
        return _refused(Reason.NO_CLAIM, key)
    if claim.meta.deleted_at is not None:
        return _refused(Reason.CLAIM_LEAVING, key)
    volume = storage.volumes.get(objects.Key("", claim.volume)) if claim.volume else None
    if claim.phase == _LOST or (claim.phase == _BOUND and volume is None):
        return _refused(Reason.CLAIM_LOST, key)
    if volume is not None:
        return Needs(zones=volume.zones, hosts=volume.hosts)
    return _unbound(storage, key, claim.storage_class)


def _unbound(storage: Storage, key: objects.Key, name: str) -> Needs:
    if not name:
        return _refused(Reason.CLAIM_WITHOUT_CLASS, key)
    found = storage.classes.get(objects.Key("", name))
    if found is None:
        return _refused(Reason.NO_STORAGE_CLASS, key, name)
    return Needs(zones=found.zones) if found.waits else _refused(Reason.CLAIM_UNBOUND, key, name)


def _refused(reason: Reason, key: objects.Key, message: str = "") -> Needs:
    return Needs(refused=Rejection(reason=reason, what=key.name, message=message))


def _common(found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    known = [each for each in found if each is not None]
    return frozenset.intersection(*known) if known else None
