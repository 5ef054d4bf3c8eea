"""Remember from cycle to cycle what `renewing` may forget, and tell what it chose. It decides nothing."""

import structlog

from autoscaler.capacity import renewing
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.snapshot import Snapshot

log = structlog.get_logger()


class Renewer:
    """Remembers which nodes did not become empty in time."""

    def __init__(self) -> None:
        self._memory = renewing.Memory()
        self._waits: dict[str, str] = {}

    def choose(self, snapshot: Snapshot, plan: Plan) -> renewing.Choice:
        """Choose the next step of every pool."""
        before = self._memory
        choice = renewing.choose(snapshot, plan, before)
        self._memory = choice.memory
        for surge in choice.surges:
            log.info("renewal_surges", group=surge.group, before=surge.before, after=surge.after)
        for node in choice.memory.begun.keys() - before.begun.keys():
            log.info("renewal_drains", node=node)
        for node in choice.memory.resting.keys() - before.resting.keys():
            until = choice.memory.resting[node]
            log.warning("renewal_postponed", node=node, reason="its pods did not leave in time", until=until)
        for pool, why in choice.waits.items():
            if self._waits.get(pool) != why:
                log.info("renewal_waits", pool=pool, reason=why)
        self._waits = dict(choice.waits)
        return choice
