"""The drain object: one ConfigMap, whose deletion asks the whole runtime to leave. It decides nothing.

The stack makes it last, and so deletes it first. Each part of the runtime puts a finalizer of its own on it, and takes
it off once nothing of that part would be left behind. It is looked at, not watched: a right to this one name will do.
"""

from enum import StrEnum
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api import keys, names
from autoscaler.control import polling
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import finalizers, writer

log = structlog.get_logger()
LOOK_SECONDS: Final = 15.0
SOON_SECONDS: Final = 3.0
"""How often it is looked at until we lead, so that it is held at once, and while we leave."""
_FORBIDDEN: Final = 403
_TARGET: Final[writer.Target[objects.Simple]] = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple)


class Stage(StrEnum):
    """Whether the runtime is to stay."""

    STAYING = "Staying"
    """The object is there, or was never seen."""
    LEAVING = "Leaving"
    """Its deletion was asked for: nothing is begun any more, and what is ours is taken away."""
    LEFT = "Left"
    """It was there and is gone: nothing is done any more."""


class DrainObject:
    """Follows the drain object for one part of the runtime, and wakes it when the object comes, leaves or goes."""

    def __init__(self, context: control.ControllerContext, part: str) -> None:
        """Follow it for a part; each part has a finalizer of its own, for no part may leave for another."""
        self.stage = Stage.STAYING
        self.since: float | None = None
        """When its deletion was asked for."""
        self._context = context
        self._finalizer = keys.part_finalizer(part)
        self._found: objects.Simple | None = None
        self._is_known = False
        self._has_led = False
        polling.Polling(context, "drain object", self._follow, also_standing_by=True, missing=self._missing)

    @property
    def stays(self) -> bool:
        """Whether the object is there and not being deleted: whoever lets go of things when it is will be told."""
        return self._found is not None and self.stage is Stage.STAYING

    async def let_go(self) -> None:
        """Say that nothing of ours is left behind."""
        if self._found is not None and self._finalizer in self._found.meta.finalizers:
            await finalizers.remove(self._context.writer, _TARGET, self._found, self._finalizer)
            await self._look()

    def _missing(self) -> str | None:
        """Return what is missing until we looked once: whoever must leave must not begin anything."""
        return None if self._is_known else f"ConfigMap {names.DRAIN_OBJECT}: not looked for yet"

    async def _follow(self) -> float:
        await self._look()
        self._has_led = self._has_led or self._context.held_back() is None
        if self.stage is Stage.STAYING and self._context.held_back() is None and self._found is not None:
            await finalizers.add(self._context.writer, _TARGET, self._found, self._finalizer)
        return SOON_SECONDS if self.stage is Stage.LEAVING or not self._has_led else LOOK_SECONDS

    async def _look(self) -> None:
        key = objects.Key(self._context.namespace, names.DRAIN_OBJECT)
        try:
            found = await port.get(self._context.api, kinds.CONFIG_MAPS.path(key.name, key.namespace))
            self._note(objects.simple(found), key)
        except port.NotFoundError:
            self._note(None, key)
        except port.ApiError as error:
            if error.status != _FORBIDDEN or self._is_known:
                raise
            log.warning("drain_object_forbidden", error=str(error), advice="bring the stack up: the Role is old")
            self._note(None, key)

    def _note(self, found: objects.Simple | None, key: objects.Key) -> None:
        stage = Stage.STAYING
        if found is not None:
            stage = Stage.STAYING if found.meta.deleted_at is None else Stage.LEAVING
        elif self._found is not None or self.stage is Stage.LEFT:
            stage = Stage.LEFT
        changed = stage is not self.stage or (found is None) is not (self._found is None)
        self._found, self.stage, self._is_known = found, stage, True
        if stage is not Stage.LEFT:
            self.since = found.meta.deleted_at if found is not None else None
        elif self.since is None:  # it went too fast for us to see it going
            self.since = self._context.clock.now()
        if changed:
            log.info("drain_object_seen", stage=stage)
            self._context.wake(kinds.CONFIG_MAPS.kind, key)
