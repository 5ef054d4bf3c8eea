"""News of instances that are about to go, and of launches that failed, sooner than a reading would tell.

Who is doomed is written on its node before the news is forgotten by where it came from, so that whoever leads next goes
on with it. What is done about it is the controller's.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
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
CHECK_SECONDS: Final = 1.0
BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=15.0)
Open = Callable[[], cloud.Interruptions]


class Notices:
    """Knows which instances the provider will take away: as nodes say, and where there is no node, as was heard."""

    def __init__(self, context: control.ControllerContext, nodes: store.Table[objects.Node]) -> None:
        self._context = context
        self._target = writer.Target(resource=kinds.NODES, decode=objects.node, table=nodes)
        self._by_instance = nodes.index(_instances)
        self._written = nodes.index(_interrupted)
        self._heard: dict[cloud.InstanceId, float] = {}

    def doomed(self) -> frozenset[cloud.InstanceId]:
        """Return the instances that will be taken away."""
        oldest = self._context.clock.now() - REMEMBERED_SECONDS
        said = {one: _deadline(node) for one in self._written for node in self._written.get(one).values()}
        return frozenset(one for one, deadline in (said | self._heard).items() if deadline > oldest)

    def has_node(self, instance: cloud.InstanceId) -> bool:
        """Tell whether an instance is a node of this cluster."""
        return bool(self._by_instance.get(instance))

    def hear(self, instance: cloud.InstanceId) -> None:
        """Know of an interruption from now on."""
        now = self._context.clock.now()
        self._heard = {one: deadline for one, deadline in self._heard.items() if deadline > now - REMEMBERED_SECONDS}
        self._heard.setdefault(instance, now + NOTICE_SECONDS)

    async def write(self, instance: cloud.InstanceId) -> None:
        """Have the instance's node say what was heard; try again while it matters and we may act."""
        failures = 0
        while self._context.held_back() is None and self._context.clock.now() < self._heard.get(instance, 0.0):
            nodes = [node for node in self._by_instance.get(instance).values() if not _interrupted(node)]
            written = [await self._write(node, self._heard[instance]) for node in nodes]
            if all(written):
                return
            failures += 1
            await asyncio.sleep(BACKOFF.pause(failures))

    async def _write(self, node: objects.Node, deadline: float) -> bool:
        changes = {"metadata": {"annotations": {keys.INTERRUPTED_AT: str(int(deadline))}}}
        try:
            only_if = writer.Precondition(uid=node.meta.uid)
            await self._context.writer.patch(self._target, node.meta.key, changes, only_if=only_if)
        except (port.NotFoundError, port.ConflictError):
            return True  # that node is gone
        except (port.KubeError, writer.FencedError) as error:
            log.warning("interruption_not_written", node=node.meta.key.name, error=str(error))
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
                doomed = [event.instance for event in ours if isinstance(event, cloud.SpotInterruption)]
                await asyncio.gather(*map(self._notices.write, doomed))
                if self._context.held_back() is not None:
                    return

    def _is_ours(self, event: cloud.Event) -> bool:
        """Tell whether news may concern this cluster: a queue tells of all that happens in an account.

        What is asked for and not listed yet need not be told of: its account is read often enough meanwhile.
        """
        if not self._accounts.is_read():
            return True
        match event:
            case cloud.SpotInterruption():
                return self._accounts.knows(event.instance) or self._notices.has_node(event.instance)
            case cloud.GroupChanged():
                return self._accounts.account_of(event.group) is not None
            case cloud.InstancesChanged():
                return any(map(self._accounts.knows, event.instances))

    def _take(self, event: cloud.Event) -> None:
        match event:
            case cloud.SpotInterruption():
                log.info("interruption_announced", instance=event.instance)
                self._notices.hear(event.instance)
                self._context.wake(account_reader.KIND, objects.Key("", event.instance))
            case cloud.GroupChanged():
                self._accounts.read_now()
            case cloud.InstancesChanged():
                self._accounts.hurry()


def _instances(node: objects.Node) -> Collection[cloud.InstanceId]:
    return (instance_records.instance_id(node.provider_id),) if node.provider_id else ()


def _interrupted(node: objects.Node) -> Collection[cloud.InstanceId]:
    """Return the instance of a node that says when it will be taken away."""
    return _instances(node) if _deadline(node) else ()


def _deadline(node: objects.Node) -> float:
    said = node.meta.annotations.get(keys.INTERRUPTED_AT, "")
    return float(said) if said.isdecimal() else 0.0
