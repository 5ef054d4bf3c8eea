"""News of instances that are about to go, and of launches that failed, sooner than a reading would tell.

What is announced of an instance is written on its node before the news is forgotten by where it came from, so that
whoever leads next goes on with it. What is done about it is the controller's.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import structlog

from autoscaler import backoff, control
from autoscaler.api import keys
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.records import instance_records
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
PAUSE_SECONDS: Final = 5.0
NOTICE_SECONDS: Final = 120.0
"""So long after its announcement an instance is taken away."""
REMEMBERED_SECONDS: Final = 3600.0
"""An instance that is there so long after it should have been taken away was not."""
LAST_SECONDS: Final = 3600.0
"""So long before its maintenance, what still works on an instance is asked to leave as if it were taken away now."""
PATIENCE_SECONDS: Final = 10.0
"""So long is the writing of what is not urgent tried, before the queue is asked to tell it again."""
CHECK_SECONDS: Final = 1.0
BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=15.0)
ANNOTATIONS: Final = (keys.INTERRUPTED_AT, keys.MAINTENANCE_AT, keys.REBALANCE_AT)
"""What nodes say of what was announced."""
Open = Callable[[], cloud.Interruptions]


class Notices:
    """Knows what the provider has announced of instances: as nodes say, and where there is no node, as was heard."""

    def __init__(self, context: control.ControllerContext, nodes: store.Table[objects.Node]) -> None:
        self._context = context
        self._target = writer.Target(resource=kinds.NODES, decode=objects.node, table=nodes)
        self._by_instance = nodes.index(_instances)
        self._written = {key: nodes.index(partial(_noted, key)) for key in ANNOTATIONS}
        self._heard: dict[str, dict[cloud.InstanceId, float]] = {key: {} for key in ANNOTATIONS}

    def doomed(self) -> frozenset[cloud.InstanceId]:
        """Return the instances that will be taken away now, or for maintenance soon."""
        oldest, soon = self._context.clock.now() - REMEMBERED_SECONDS, self._context.clock.now() + LAST_SECONDS
        taken = [one for one, at in self._known(keys.INTERRUPTED_AT).items() if at > oldest]
        return frozenset(taken + [one for one, at in self._known(keys.MAINTENANCE_AT).items() if oldest < at <= soon])

    def maintained(self) -> frozenset[cloud.InstanceId]:
        """Return the instances that will be taken away for maintenance later."""
        soon = self._context.clock.now() + LAST_SECONDS
        return frozenset(one for one, at in self._known(keys.MAINTENANCE_AT).items() if at > soon)

    def at_risk(self) -> frozenset[cloud.InstanceId]:
        """Return the instances that are more likely than others to be taken away."""
        return frozenset(self._known(keys.REBALANCE_AT))

    def has_node(self, instance: cloud.InstanceId) -> bool:
        """Tell whether an instance is a node of this cluster."""
        return bool(self._by_instance.get(instance))

    def hear(self, key: str, instance: cloud.InstanceId, at: float) -> None:
        """Know of an announcement from now on; maintenance may be moved to another date."""
        oldest = self._context.clock.now() - REMEMBERED_SECONDS
        heard = {one: before for one, before in self._heard[key].items() if before > oldest}
        heard[instance] = at if key == keys.MAINTENANCE_AT else heard.get(instance, at)
        self._heard[key] = heard

    async def write(self, key: str, instance: cloud.InstanceId) -> bool:
        """Have the instance's node say what was heard, and try again for a while; False: it matters and is not said."""
        at, failures = self._heard[key].get(instance), 0
        if at is None:
            return True  # told twice, and said
        is_urgent = key == keys.INTERRUPTED_AT
        until = at if is_urgent else self._context.clock.now() + PATIENCE_SECONDS
        while self._context.held_back() is None and self._context.clock.now() < until:
            nodes = [node for node in self._by_instance.get(instance).values() if self._must_say(node, key, at)]
            written = [await self._write(node, key, at) for node in nodes]
            if all(written):
                self._leave_to_nodes(key, instance)
                return True
            failures += 1
            await asyncio.sleep(BACKOFF.pause(failures))
        return is_urgent

    def _leave_to_nodes(self, key: str, instance: cloud.InstanceId) -> None:
        """Go by what a node says of its maintenance from now on: another leader may move it, and people take it off."""
        if key == keys.MAINTENANCE_AT and self._written[key].get(instance):
            self._heard[key] = {one: at for one, at in self._heard[key].items() if one != instance}

    def _known(self, key: str) -> dict[cloud.InstanceId, float]:
        index = self._written[key]
        return {one: _at(node, key) for one in index for node in index.get(one).values()} | self._heard[key]

    def _must_say(self, node: objects.Node, key: str, at: float) -> bool:
        said = _at(node, key)
        return not said or (key == keys.MAINTENANCE_AT and said != int(at))

    async def _write(self, node: objects.Node, key: str, at: float) -> bool:
        changes = {"metadata": {"annotations": {key: str(int(at))}}}
        try:
            only_if = writer.Precondition(uid=node.meta.uid)
            await self._context.writer.patch(self._target, node.meta.key, changes, only_if=only_if)
        except (port.NotFoundError, port.ConflictError):
            return True  # that node is gone
        except (port.KubeError, writer.FencedError) as error:
            log.warning("interruption_not_written", node=node.meta.key.name, notice=key, error=str(error))
            return False
        return True


class News:
    """A source of interruptions. Only who acts listens: news are told once."""

    def __init__(
        self, context: control.ControllerContext, known: account_reader.AccountReader, notices: Notices, open_news: Open
    ) -> None:
        self._context = context
        self._accounts = known
        self._notices = notices
        self._open = open_news
        self.failures = 0
        """How often the queue could not be read, for whoever measures."""
        context.feed(self)

    async def run(self) -> None:
        """Listen while we may act."""
        while True:
            if self._context.held_back() is not None:
                await asyncio.sleep(CHECK_SECONDS)
                continue
            async with contextlib.aclosing(self._open()) as queue:
                try:
                    await self._listen(queue)
                except cloud.CloudError as error:
                    self.failures += 1
                    log.warning("interruptions_not_read", reason=error.reason, error=error.message)
            await asyncio.sleep(PAUSE_SECONDS)

    def unsynced(self) -> str | None:
        """Return None: without news, readings tell the same a little later."""
        return None

    async def _listen(self, queue: cloud.Interruptions) -> None:
        """Take news; the queue forgets a batch only once all that must outlive us is written down."""
        async with contextlib.aclosing(queue.batches()) as batches:
            async for batch in batches:
                ours = [event for event in batch if self._is_ours(event)]
                for event in ours:
                    self._take(event)
                said = [(key, instance) for event in ours for key, instance, _ in self._announced(event)]
                written = await asyncio.gather(*(self._notices.write(key, instance) for key, instance in said))
                if self._context.held_back() is not None or not all(written):
                    return

    def _is_ours(self, event: cloud.Event) -> bool:
        """Tell whether news may concern this cluster: a queue tells of all that happens in an account.

        What is asked for and not listed yet need not be told of: its account is read often enough meanwhile.
        """
        if not self._accounts.is_read():
            return True
        match event:
            case cloud.SpotInterruption() | cloud.RebalanceRecommended():
                return self._knows(event.instance)
            case cloud.GroupChanged():
                return self._accounts.account_of(event.group) is not None
            case cloud.InstancesChanged():
                return any(map(self._accounts.knows, event.instances))
            case cloud.MaintenanceScheduled():
                return any(map(self._knows, event.instances))

    def _knows(self, instance: cloud.InstanceId) -> bool:
        """Tell whether an instance is ours: by its node, too, for its account may not answer just now."""
        return self._accounts.knows(instance) or self._notices.has_node(instance)

    def _take(self, event: cloud.Event) -> None:
        match event:
            case cloud.SpotInterruption() | cloud.RebalanceRecommended() | cloud.MaintenanceScheduled():
                for key, instance, at in self._announced(event):
                    log.info("interruption_announced", instance=instance, notice=key, at=at)
                    self._notices.hear(key, instance, at)
                    self._context.wake(account_reader.KIND, objects.Key("", instance))
            case cloud.GroupChanged():
                self._accounts.read_now()
            case cloud.InstancesChanged():
                self._accounts.hurry()

    def _announced(self, event: cloud.Event) -> list[tuple[str, cloud.InstanceId, float]]:
        """Return what is written on nodes: what, of which instance, and when it is."""
        now = self._context.clock.now()
        match event:
            case cloud.SpotInterruption():
                return [(keys.INTERRUPTED_AT, event.instance, now + NOTICE_SECONDS)]
            case cloud.RebalanceRecommended():
                return [(keys.REBALANCE_AT, event.instance, now)]
            case cloud.MaintenanceScheduled():
                return [(keys.MAINTENANCE_AT, one, event.at) for one in event.instances if self._knows(one)]
            case cloud.GroupChanged() | cloud.InstancesChanged():
                return []


def _instances(node: objects.Node) -> Collection[cloud.InstanceId]:
    return (instance_records.instance_id(node.provider_id),) if node.provider_id else ()


def _noted(key: str, node: objects.Node) -> Collection[cloud.InstanceId]:
    """Return the instance of a node that says when something was announced for."""
    return _instances(node) if _at(node, key) else ()


def _at(node: objects.Node, key: str) -> float:
    said = node.meta.annotations.get(key, "")
    return float(said) if said.isdecimal() else 0.0
