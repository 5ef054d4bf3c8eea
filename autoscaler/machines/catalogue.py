"""Keep the catalogue of machine groups and types, which the admission policies read. It decides nothing.

It is one ConfigMap in the runtime's namespace, looked at now and then rather than watched: a right to this one name
will do. Without it guests are refused, so it is there also where there is no Machine.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import structlog

from autoscaler import backoff, control
from autoscaler.api import machine_catalogue, names
from autoscaler.api.manifests import Manifest
from autoscaler.control import polling
from autoscaler.kube import kinds, port, writer
from autoscaler.machines import owned
from autoscaler.machines.known import Machine

log = structlog.get_logger()
LOOK_SECONDS: Final = 15.0
_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
_TARGET: Final[writer.Target[owned.Owned]] = writer.Target(resource=kinds.CONFIG_MAPS, decode=owned.decode)


class Catalogue:
    """Follows the Machines, and writes the ConfigMap when they change or somebody changed it."""

    def __init__(self, context: control.ControllerContext) -> None:
        self.left_out: frozenset[str] = frozenset()
        """Groups that would make it too large."""
        self._context = context
        self._data: Mapping[str, str] | None = None
        """What should be in it; None: not known yet, or nothing any more."""
        self._written: Mapping[str, str] | None = None
        self._retry = backoff.Retry(context.clock, _BACKOFF)
        polling.Polling(context, "catalogue of machines", self._look)

    def follow(self, machines: Iterable[Machine]) -> None:
        """Take over what Machines say."""
        kept = (each for each in machines if each.meta.deleted_at is None)
        in_order = sorted(kept, key=lambda each: (each.meta.created_at, each.meta.key.name))
        made = machine_catalogue.catalogue((each.meta.key.name, each.resource.spec) for each in in_order)
        self._data, self.left_out = made.data, frozenset(made.left_out)

    async def keep(self) -> float | None:
        """Write it if it says something else; return when to try again, on the monotonic clock."""
        if self._data is None or self._data == self._written:
            return None
        if self._retry.is_due:
            try:
                await self._write()
            except port.KubeError as error:
                self._retry.failed()
                log.info("catalogue_not_written", error=str(error))
            else:
                self._retry.succeeded()
        return self._retry.next_at

    async def remove(self) -> None:
        """Delete it, when the runtime leaves."""
        self._data = None
        found = await self._find()
        if found is not None:
            await self._context.writer.delete(_TARGET, found.meta.key, only_if=writer.Precondition.of(found))
        self._written = None

    async def _look(self) -> float:
        """See whether somebody changed it."""
        if self._data is not None:
            await self._write()
        return LOOK_SECONDS

    async def _write(self) -> None:
        data, found = self._data or {}, await self._find()
        if found is None:
            await self._context.writer.create(_TARGET, self._manifest(data), attempts=1)
        elif changes := _changes(data, found.manifest.get("data") or {}):
            only_if = writer.Precondition.of(found)
            await self._context.writer.patch(_TARGET, found.meta.key, {"data": changes}, only_if=only_if, attempts=1)
        self._written = data

    async def _find(self) -> owned.Owned | None:
        path = kinds.CONFIG_MAPS.path(names.MACHINE_CATALOGUE, self._context.namespace)
        try:
            answer = port.required(await self._context.api.send(port.Request(method="GET", path=path)))
        except port.NotFoundError:
            return None
        return owned.decode(msgspec.Raw(answer))

    def _manifest(self, data: Mapping[str, str]) -> Manifest:
        metadata = {"name": names.MACHINE_CATALOGUE, "namespace": self._context.namespace}
        return {
            "apiVersion": kinds.CONFIG_MAPS.api_version,
            "kind": kinds.CONFIG_MAPS.kind,
            "metadata": metadata,
            "data": dict(data),
        }


def _changes(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: value for key, value in wanted.items() if found.get(key) != value}
    return changed | dict.fromkeys(found.keys() - wanted.keys())
