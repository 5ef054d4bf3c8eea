"""Hold scopes that namespaces use, and let them go. What is held is decided in `scope_users`.

A write that is refused is tried again later and later, and keeps nothing else from being done.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api import keys
from autoscaler.api.resources.scopes import Scope
from autoscaler.capacity import watched
from autoscaler.capacity.custom import SCOPES
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.scaleup.scopes import scope_users
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects, port
from autoscaler.kube.writing import finalizers, writer

log = structlog.get_logger()
_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
Stored = objects.Custom[Scope]


class ScopeFinalizer:
    """Holds scopes and lets them go."""

    def __init__(self, context: control.ControllerContext, tables: watched.Watched) -> None:
        self._context = context
        self._scopes = tables.scopes
        self._namespaces = tables.namespaces
        self._pools = tables.pools
        self._target = writer.Target(resource=SCOPES, decode=objects.custom(Scope), table=tables.scopes)
        self._uses = remembered.Remembered(scope_users.uses)
        self._retries = backoff.Retries(context.clock, _BACKOFF)
        self._told: frozenset[str] = frozenset()
        """The UIDs of scopes that were told that their deletion is held."""

    def observe(self, snapshot: Snapshot) -> Snapshot:
        """Add who uses which scope."""
        found = self._uses(self._scopes.snapshot(), self._namespaces.snapshot(), self._pools.snapshot())
        return replace(snapshot, scope_use=found)

    async def carry_out(self, snapshot: Snapshot, plan: scope_users.Plan) -> float | None:
        """Put finalizers on and take them off; return when to try again what was refused."""
        self._tell(snapshot)
        there = {each.meta.key.name: each for each in self._scopes}
        named = [there[name] for name in (*plan.held, *plan.let_go) if name in there]
        wakes = [await self._step(scope, is_held=scope.meta.key.name in plan.held) for scope in named]
        return clock.on_wall(self._context.clock, clock.earliest(wakes))

    async def _step(self, scope: Stored, *, is_held: bool) -> float | None:
        """Take one step, if it is time; return when it is tried again, on the monotonic clock."""
        uid = scope.meta.uid
        if not self._retries.holds(uid):
            self._retries.note(uid, is_done=await self._is_written(scope, is_held=is_held))
        return self._retries.next_at(uid)

    async def _is_written(self, scope: Stored, *, is_held: bool) -> bool:
        write = finalizers.add if is_held else finalizers.remove
        sent: Awaitable[None] = write(self._context.writer, self._target, scope, keys.FINALIZER, attempts=1)
        try:
            await sent
        except port.KubeError as error:  # it changed meanwhile, is refused, or cannot be reached
            log.info("scope_finalizer_refused", scope=scope.meta.key.name, is_held=is_held, error=str(error))
            return False
        log.info("scope_held" if is_held else "scope_let_go", scope=scope.meta.key.name)
        return True

    def _tell(self, snapshot: Snapshot) -> None:
        """Tell scopes whose deletion is held, once, why they are still there."""
        held = {
            name: use
            for name, use in snapshot.scope_use.items()
            if scope_users.reason(use) is scope_users.Reason.DELETION_HELD
        }
        scopes = [each for each in self._scopes if each.meta.key.name in held] if held else []
        for scope in scopes:
            if scope.meta.uid not in self._told:
                said = scope_users.message(held[scope.meta.key.name])
                reason = scope_users.Reason.DELETION_HELD
                self._context.tell(SCOPES, scope, reason, said, is_warning=True, is_change=True)
        self._told = frozenset(scope.meta.uid for scope in scopes)
