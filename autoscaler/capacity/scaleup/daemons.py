"""DaemonSets, cut down to the pods that they put on every node that takes them."""

from typing import Final

import msgspec

from autoscaler.kube import objects, shapes, wire

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What the DaemonSet controller lets all its pods tolerate."""


class DaemonSet(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A DaemonSet."""

    meta: objects.Meta
    shape: shapes.Shape
    """Of its pods."""


class _Template(msgspec.Struct, frozen=True):
    metadata: wire.ObjectMeta = wire.ObjectMeta()
    spec: wire.PodSpec = wire.PodSpec()


class _Spec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _DaemonSet(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_DECODER: Final = msgspec.json.Decoder(_DaemonSet)


def decode(raw: bytes | msgspec.Raw) -> DaemonSet:
    """Decode a DaemonSet."""
    template = _DECODER.decode(raw).spec.template
    more = tuple(wire.Toleration(key=key, operator="Exists", effect=effect) for key, effect in _TOLERATED)
    spec = msgspec.structs.replace(template.spec, tolerations=(*template.spec.tolerations, *more))
    pod = wire.Pod(metadata=template.metadata, spec=spec)
    return DaemonSet(meta=objects.simple(raw).meta, shape=shapes.of(pod))
