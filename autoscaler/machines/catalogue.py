"""Keep the catalogue of machine groups and types, which the admission policies read. It decides nothing.

It is one ConfigMap in the runtime's namespace, looked at now and then rather than watched: a right to this one name
will do. Without it guests are refused, so it is there also where there is no Machine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from autoscaler import backoff, control
from autoscaler.api import machine_catalogue, names
from autoscaler.api.manifests import Manifest
from autoscaler.control import plans, polling
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import writer
from autoscaler.machines.objects import owned
from autoscaler.machines.state.known import Machine

log = structlog.get_logger()
LOOK_SECONDS: Final = 15.0
_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
_TARGET: Final[writer.Target[owned.Owned]] = writer.Target(resource=kinds.CONFIG_MAPS, decode=owned.decode)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What should be in it."""

    made: machine_catalogue.Catalogue
    kept: frozenset[str]
    """Groups of which it says on what it says, as their Machines cannot be read."""


class Catalogue:
    """Follows the Machines, and writes the ConfigMap when they change or somebody changed it."""

    def __init__(self, context: control.ControllerContext) -> None:
        self.left_out: frozenset[str] = frozenset()
        """Groups that would make it too large."""
        self.problem: str | None = None
        """Why it could not be written, the last time; None: it says what it should."""
        self._context = context
        self._wanted: _Wanted | None = None
        """What should be in it; None: not known yet, or nothing any more."""
        self._written: _Wanted | None = None
        self._retry = backoff.Retry(context.clock, _BACKOFF)
        polling.Polling(context, "catalogue of machines", self._look)

    def follow(self, machines: Iterable[Machine], *, kept: frozenset[str] = frozenset()) -> None:
        """Take over what Machines say; groups that are kept stay as they are found."""
        self._wanted = _wanted(machines, kept)
        self.left_out = frozenset(self._wanted.made.left_out)

    async def planned(self, machines: Iterable[Machine], *, kept: frozenset[str]) -> plans.Planned:
        """Say what would be written; nobody watches it, so it is read for that."""
        wanted, what = _wanted(machines, kept), f"configmap {self._context.namespace}/{names.MACHINE_CATALOGUE}"
        try:
            found = await self._find()
        except port.KubeError as error:
            return plans.Planned(unknown=(f"{what}: {error}",))
        there = found.manifest.get("data") or {} if found is not None else {}
        if found is not None and not _changes(machine_catalogue.with_kept(wanted.made, there, wanted.kept), there):
            return plans.Planned()
        verb = "create" if found is None else "patch"
        return plans.Planned(commands=(plans.Command(verb=verb, what=what, why="machine types have changed"),))

    async def keep(self) -> float | None:
        """Write it if it says something else; return when to try again, on the monotonic clock."""
        if self._wanted is None or self._wanted == self._written:
            return None
        if self._retry.is_due:
            try:
                await self._write(self._wanted)
            except port.KubeError as error:
                self._retry.failed()
                self.problem = str(error)
                log.info("catalogue_not_written", error=self.problem)
            else:
                self._retry.succeeded()
        return self._retry.next_at

    async def remove(self) -> None:
        """Delete it, when the runtime leaves."""
        self._wanted = None
        found = await self._find()
        if found is not None:
            await self._context.writer.delete(_TARGET, found.meta.key, only_if=writer.Precondition.of(found))
        self._written = None

    async def _look(self) -> float:
        """See whether somebody changed it."""
        if self._wanted is not None:
            await self._write(self._wanted)
        return LOOK_SECONDS

    async def _write(self, wanted: _Wanted) -> None:
        found = await self._find()
        there = found.manifest.get("data") or {} if found is not None else {}
        data = machine_catalogue.with_kept(wanted.made, there, wanted.kept)
        changes = _changes(data, there)
        if found is not None and changes and found.manifest.get("immutable"):
            await self._context.writer.delete(_TARGET, found.meta.key, only_if=writer.Precondition.of(found))
            found = None
        if found is None:
            await self._context.writer.create(_TARGET, self._manifest(data), attempts=1)
        elif changes:
            only_if = writer.Precondition.of(found)
            await self._context.writer.patch(_TARGET, found.meta.key, {"data": changes}, only_if=only_if, attempts=1)
        self._written = wanted
        if self.problem is not None:
            self.problem = None
            self._context.wake(kinds.CONFIG_MAPS.kind, objects.Key(self._context.namespace, names.MACHINE_CATALOGUE))

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


def _wanted(machines: Iterable[Machine], kept: frozenset[str]) -> _Wanted:
    staying = (each for each in machines if each.meta.deleted_at is None)
    in_order = sorted(staying, key=lambda each: (each.meta.created_at, each.meta.key.name))
    made = machine_catalogue.catalogue((each.meta.key.name, each.resource.spec) for each in in_order)
    return _Wanted(made, kept)


def _changes(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: value for key, value in wanted.items() if found.get(key) != value}
    return changed | dict.fromkeys(found.keys() - wanted.keys())
