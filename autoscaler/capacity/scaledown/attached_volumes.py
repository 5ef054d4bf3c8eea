"""Volumes that are still attached to a node whose instance is about to end.

The next pod that needs one waits for minutes if the instance goes first. They are waited for, but not for long: a
DaemonSet may have one there for ever, and nothing may keep an idle instance for that. Who goes is decided elsewhere.
"""

import asyncio
from typing import Final

import msgspec
import structlog

from autoscaler import control
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.plan import Disruption
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.reading import listing

log = structlog.get_logger()
WAIT_SECONDS: Final = 60.0
"""From when a node was marked because it is empty: kubelet and CSI driver take a few seconds each."""
FRESH_SECONDS: Final = 2.0
"""Several nodes go at once: one list is enough for them."""
_FORBIDDEN: Final = 403


class _Source(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_name: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str
    source: _Source = _Source()


class Attachment(msgspec.Struct, frozen=True):
    """A VolumeAttachment."""

    spec: _Spec


_DECODER: Final = msgspec.json.Decoder(Attachment)


class AttachedVolumes:
    """Knows for a moment which volumes are attached where."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._by_node: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, tuple[str, ...]] = {}
        """What was attached to nodes that were waited for in vain."""

    async def hold(self, node: objects.Node, each: Disruption, marked_at: float | None) -> bool:
        """Tell whether to wait for a node's volumes; what was waited for in vain is kept to be told."""
        name, now = node.meta.key.name, self._context.clock.monotonic()
        is_over = each.reason is Reason.INTERRUPTED or marked_at is None or now >= marked_at + WAIT_SECONDS
        try:
            async with self._reading:  # nodes of other groups wait for the same list
                there = (await self._read()).get(name, ())
        except port.ApiError:
            if not is_over:
                raise
            there = ()
        self._left = {other: left for other, left in self._left.items() if other != name}
        if there and is_over:
            self._left[name] = there
        return bool(there) and not is_over

    def left_on(self, node: str) -> tuple[str, ...]:
        """Return once which volumes were attached to a node whose instance was ended."""
        return self._left.pop(node, ())

    async def _read(self) -> dict[str, tuple[str, ...]]:
        """Return the volumes of every node that has any; who may not see them waits for none."""
        now = self._context.clock.monotonic()
        if now < self._read_at + FRESH_SECONDS:
            return self._by_node
        try:
            listed, _ = await listing.read_readable(self._context.api, kinds.VOLUME_ATTACHMENTS, _DECODER.decode)
        except port.ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            log.warning("volume_attachments_not_seen", error=str(error))
            listed = []
        found: dict[str, tuple[str, ...]] = {}
        for each in listed:
            volume = each.spec.source.persistent_volume_name or "an inline volume"
            found[each.spec.node_name] = (*found.get(each.spec.node_name, ()), volume)
        self._read_at, self._by_node = self._context.clock.monotonic(), found
        return found
