"""The clouds of all provider accounts: read again and again, and heard from. It decides nothing.

Each account is read on its own: one that cannot be read does not hold up the others, and its last whole reading stays,
which tells its age. Nothing is read while we may not act.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api.resources.accounts import ProviderAccount, ProviderAccountSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.accounts import account_state
from autoscaler.capacity.custom import ACCOUNTS
from autoscaler.capacity.indexes import remembered
from autoscaler.cloud import catalogue, counted, view
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, store

log = structlog.get_logger()
REOPEN_SECONDS: Final = 15.0
REFRESH_SECONDS: Final = 60.0
"""How often a quiet account is read."""
BUSY_SECONDS: Final = 5.0
"""How often one is read in which a group lacks instances."""
_BACKOFF: Final = backoff.Backoff(first_seconds=2.0, longest_seconds=60.0)
"""After a reading that failed: when it is tried again, at first and at last."""
OUTAGE_SECONDS: Final = 30.0
"""An account that cannot be read for so long is asked for nothing until it can: other pools may help."""
CHECK_SECONDS: Final = 0.5
SILENT_SECONDS: Final = 10.0
"""An account that has not answered a call for so long is told to be silent."""
TICK_SECONDS: Final = 0.001
KIND: Final = "NodeGroup"
"""What the controller is woken for after a reading."""
Account = objects.Custom[ProviderAccount]
Open = Callable[[str, ProviderAccountSpec], Awaitable[cloud.Cloud]]
"""Makes the cloud of an account, by name; raises CloudError if it cannot be used."""


class AccountReader:
    """All accounts."""

    def __init__(self, context: control.ControllerContext, open_cloud: Open) -> None:
        self._context = context
        self._open = open_cloud
        self._accounts: store.Table[Account] = context.watch(ACCOUNTS, objects.custom(ProviderAccount))
        self._seen: dict[str, account_state.AccountState] = {}
        self._owners: dict[cloud.GroupName, str] = {}
        """Which account told of each group last."""
        self._questions: dict[cloud.InstanceId, NodeGroupKey | None] = {}
        self._reopen_at: dict[str, float] = {}
        """When accounts that could not be used are tried again."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._groups = remembered.Remembered(account_state.together)
        self._lives = remembered.Remembered(account_state.merged)  # a reading makes these anew
        self._asked = remembered.Remembered(account_state.in_all)
        self._outdated = remembered.Remembered(account_state.united)
        self._launched_at = remembered.Remembered(account_state.launched_at)
        self.broken: dict[str, str] = {}
        """Accounts that cannot be used, and why."""
        self.calls: dict[str, counted.Calls] = {}
        """What became of calls to each account, for whoever measures."""
        self._hurried = asyncio.Event()
        """Set where something may be due sooner than it was."""
        self._accounts.listen(lambda _old, _new: self._hurried.set())
        context.feed(self)

    @property
    def seen(self) -> Mapping[str, account_state.AccountState]:
        return self._seen

    def is_read(self) -> bool:
        """Tell whether every account was read once, launch templates included, or could not be."""
        names = {account.meta.key.name for account in self._accounts}
        tried = {name for name, seen in self._seen.items() if seen.is_tried or seen.problem is not None}
        return names <= tried | self.broken.keys()

    def groups(self, accounts: Mapping[str, str]) -> tuple[cloud.NodeGroup, ...]:
        """Return all node groups, as they were last read and written; `accounts` says whose each pool is.

        While they do not change, it is the same tuple.
        Two accounts may see the same groups: each group is told once, by the account that its pool names, and is
        written to through that one alone.
        """
        found: dict[cloud.GroupName, tuple[str, cloud.NodeGroup]] = {}
        for name, seen in sorted(self._seen.items()):
            for group in seen.view.reading.groups.values() if seen.view.reading is not None else ():
                if accounts.get(group.key.pool, name) == name:
                    found.setdefault(group.name, (name, group))
        self._owners = {name: account for name, (account, _) in found.items()}
        return self._groups(*(group for _, (_, group) in sorted(found.items())))

    @property
    def accounts(self) -> store.Table[Account]:
        return self._accounts

    def problem(self, account: str) -> str | None:
        """Return why an account cannot be used; None if it can."""
        if account in self.broken:
            return self.broken[account]
        seen = self._seen.get(account)
        if seen is None:
            return f"there is no ProviderAccount {account}"
        return seen.problem if seen.view.reading is None else None

    def outages(self) -> dict[str, str]:
        """Return the accounts that have not answered for a while, and what came instead."""
        latest = self._context.clock.monotonic() - OUTAGE_SECONDS
        return {
            name: seen.problem or ""
            for name, seen in self._seen.items()
            if seen.failing_since is not None and seen.failing_since <= latest
        }

    def silent(self) -> dict[str, str]:
        """Return the accounts that are being read and have not answered for a while."""
        latest = self._context.clock.monotonic() - SILENT_SECONDS + TICK_SECONDS
        late = [name for name, seen in self._seen.items() if seen.asked_at is not None and seen.asked_at <= latest]
        return dict.fromkeys(late, "no answer to a reading of its node groups yet")

    def ages(self) -> dict[str, float]:
        """Return how old the last whole reading of each account is; infinite where there is none."""
        now, names = self._context.clock.now(), {account.meta.key.name for account in self._accounts}
        readings = {name: seen.view.reading for name, seen in self._seen.items()}
        return {
            name: now - reading.read_at if (reading := readings.get(name)) is not None else math.inf for name in names
        }

    def of(self, name: cloud.GroupName) -> account_state.AccountState | None:
        """Return the account that has a group."""
        account = self.account_of(name)
        return self._seen[account] if account is not None else None

    def knows(self, instance: cloud.InstanceId) -> bool:
        """Tell whether an instance is or lately was of one of our groups."""
        return any(instance in seen.homes for seen in self._seen.values())

    def account_of(self, name: cloud.GroupName) -> str | None:
        """Return the name of the account that told of a group."""
        account = self._owners.get(name)
        return account if account in self._seen else None

    def ask(self, instances: Mapping[cloud.InstanceId, NodeGroupKey | None]) -> None:
        """Have the clouds asked when these began and ended, with the next reading; each is or was of this group."""
        is_new = bool(instances.keys() - self._questions.keys())
        self._questions = dict(instances)
        if is_new:
            self.hurry()

    def asked(self) -> frozenset[cloud.InstanceId]:
        """Return the instances whose lives every account was asked for."""
        return self._asked(*(seen.asked for seen in self._seen.values()))

    def listed_before(self) -> float | None:
        """Return when all accounts were listed before what is known now; None if one of them was listed only once."""
        times = [seen.listed_before for seen in self._seen.values()]
        known = [at for at in times if at is not None]
        return min(known) if known and len(known) == len(times) else None

    def lives(self) -> Mapping[cloud.InstanceId, cloud.InstanceTimes]:
        """Return when instances began and ended, as far as the clouds have told; the same until they tell more."""
        return self._lives(*(seen.lives for seen in self._seen.values()))

    def ends(self) -> dict[cloud.InstanceId, float]:
        """Return when node groups say that they ended instances, of those of which nobody else can tell."""
        return {instance: at for seen in self._seen.values() for instance, at in seen.ends.items()}

    def launched_at(self) -> Mapping[cloud.InstanceId, float]:
        """Return when instances were launched: as the clouds have told, and not before we saw them come.

        A provider's clock may be behind ours; nobody must be given up for that.
        """
        return self._launched_at(*(each for seen in self._seen.values() for each in (seen.lives, seen.appeared)))

    def outdated(self) -> frozenset[cloud.InstanceId]:
        """Return instances that were made from a template that says something else than their group's does now."""
        return self._outdated(*(seen.outdated for seen in self._seen.values()))

    def unsure(self) -> frozenset[str]:
        """Return the provider ids of instances of which nobody could tell yet what they were made from."""
        readings = [seen.view.reading for seen in self._seen.values() if seen.outdated is None]
        groups = [group for reading in readings if reading is not None for group in reading.groups.values()]
        return frozenset(one.provider_id for group in groups for one in group.members)

    def unread(self) -> dict[cloud.GroupName, str]:
        """Return the groups that lack instances of which nobody could tell why, and what came instead."""
        readings = [seen.view.reading for seen in self._seen.values()]
        return {name: why for reading in readings if reading is not None for name, why in reading.unread.items()}

    def half_read(self) -> dict[str, str]:
        """Return the accounts that did not tell all of their instances and launch templates, and what came instead."""
        return {name: seen.not_told for name, seen in self._seen.items() if seen.not_told}

    def types(self) -> dict[str, catalogue.InstanceType]:
        """Return the instance types of all groups, as far as anybody knows them."""
        found = {}
        for seen in self._seen.values():
            reading = seen.view.reading
            for group in reading.groups.values() if reading is not None else ():
                kind = seen.types.get(group.key.instance_type)
                if kind is not None:
                    found[kind.name] = kind
        return found

    def read_now(self) -> None:
        """Read all accounts at once: a group has changed."""
        for seen in self._seen.values():
            seen.due_at = self._context.clock.monotonic()
        self._hurried.set()

    def hurry(self) -> None:
        """Read all accounts soon: something has changed in them."""
        for seen in self._seen.values():
            seen.due_at = min(seen.due_at, self._context.clock.monotonic() + BUSY_SECONDS)
        self._hurried.set()

    # The source

    async def run(self) -> None:
        """Follow the accounts, and read each in its own time."""
        began = self._context.clock.monotonic()
        try:
            while True:
                is_held = self._context.held_back() is not None
                if not is_held:
                    await self._follow()
                    self._start_readings()
                await self._rest(began, is_held=is_held)
        finally:
            for name in list(self._seen):
                await self._drop(name)

    async def _rest(self, began: float, *, is_held: bool) -> None:
        """Wait until something is due; what comes within half a second is looked at together."""
        time = self._context.clock.monotonic
        earliest = began + CHECK_SECONDS * math.floor((time() - began + TICK_SECONDS) / CHECK_SECONDS + 1)
        while True:
            self._hurried.clear()
            due_at = earliest if is_held else clock.earliest(self._due_times())
            try:
                async with asyncio.timeout(None if due_at is None else _ceil(max(due_at, earliest), began) - time()):
                    await self._hurried.wait()
            except TimeoutError:
                return

    def _due_times(self) -> Iterator[float]:
        """Yield when accounts are to be opened, closed or read; what is being read says so when it has ended."""
        wanted = {account.meta.key.name: account.resource.spec for account in self._accounts}
        for name in wanted.keys() - self._seen.keys():
            yield self._reopen_at.get(name, 0.0)
        for name, seen in self._seen.items():
            if wanted.get(name) != seen.spec:
                yield 0.0
            elif name not in self._tasks or self._tasks[name].done():
                yield seen.due_at

    def unsynced(self) -> str | None:
        """Return None: a controller looks for itself whether what it needs was read."""
        return None

    async def _follow(self) -> None:
        """Open clouds of new and changed accounts, and close those of accounts that are gone."""
        wanted = {account.meta.key.name: account.resource.spec for account in self._accounts}
        for name in [name for name, seen in self._seen.items() if wanted.get(name) != seen.spec]:
            await self._drop(name)
        self.broken = {name: why for name, why in self.broken.items() if name in wanted}
        self.calls = {name: calls for name, calls in self.calls.items() if name in wanted}
        for name, spec in wanted.items():
            if name not in self._seen and self._context.clock.monotonic() >= self._reopen_at.get(name, 0.0):
                await self._add(name, spec)

    async def _add(self, name: str, spec: ProviderAccountSpec) -> None:
        try:
            opened = await self._open(name, spec)
        except cloud.CloudError as error:
            self._reopen_at[name] = self._context.clock.monotonic() + REOPEN_SECONDS
            if self.broken.get(name) != error.message:
                log.warning("account_unusable", account=name, reason=error.reason, error=error.message)
            self.broken[name] = error.message
            return
        self.broken.pop(name, None)
        source = opened if isinstance(opened, catalogue.Source) else None
        calls = self.calls.setdefault(name, Counter())
        self._seen[name] = account_state.AccountState(
            spec=spec,
            view=view.View(counted.CountedCloud(opened, calls), self._context.clock),
            types=catalogue.Catalogue(source),
        )

    async def _reopen(self, name: str, seen: account_state.AccountState) -> None:
        """Read the credentials of an account anew: they were refused, and may have been changed."""
        try:
            fresh = await self._open(name, seen.spec)
        except cloud.CloudError as error:
            log.warning("account_unusable", account=name, reason=error.reason, error=error.message)
            return
        old, seen.view.cloud = seen.view.cloud, counted.CountedCloud(fresh, self.calls[name])
        await old.aclose()

    async def _drop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._seen.pop(name).view.cloud.aclose()

    def _start_readings(self) -> None:
        now = self._context.clock.monotonic()
        for name, seen in self._seen.items():
            task = self._tasks.get(name)
            if now >= seen.due_at and (task is None or task.done()):
                self._tasks[name] = asyncio.create_task(self._read(name, seen), name=f"reading {name}")
                self._tasks[name].add_done_callback(lambda _: self._hurried.set())

    async def _read(self, name: str, seen: account_state.AccountState) -> None:
        seen.asked_at = self._context.clock.monotonic()
        wake = partial(self._context.wake, KIND, objects.Key("", name))
        late = asyncio.get_running_loop().call_later(SILENT_SECONDS, wake)
        try:
            changed, pause = await self._refresh(seen)
        except cloud.CloudError as error:
            log.warning("account_not_read", account=name, reason=error.reason, error=error.message)
            changed, pause = self._failed(name, seen, error.message)
            if error.reason is cloud.Reason.DENIED:
                await self._reopen(name, seen)
        except Exception as error:
            log.exception("account_not_understood", account=name)
            changed, pause = self._failed(name, seen, f"its answer could not be used ({type(error).__name__})")
        finally:
            late.cancel()
        seen.due_at = self._context.clock.monotonic() + pause
        changed, seen.asked_at = changed or name in self.silent(), None
        if changed:
            wake()
        with contextlib.suppress(KeyError):
            self._tasks.pop(name)

    async def _refresh(self, seen: account_state.AccountState) -> tuple[bool, float]:
        """Read all of an account; return whether anything changed, and for how long to wait then."""
        before, was = seen.view.reading, (seen.outdated, seen.not_told)
        reading = await seen.view.refresh()
        seen.listed_before = before.read_at if before is not None else None
        await seen.types.learn({group.key.instance_type for group in reading.groups.values()})
        is_answered, is_whole = await self._ask_more(seen, reading)
        recovered = seen.problem is not None
        seen.problem, seen.failures, seen.failing_since, seen.is_out = None, 0, None, False
        busy = any(group.missing for group in reading.groups.values())
        changed = before is None or _told(before) != _told(reading)
        changed = changed or recovered or is_answered or was != (seen.outdated, seen.not_told)
        seen.half_read = 0 if is_whole else seen.half_read + 1
        pause = BUSY_SECONDS if busy else REFRESH_SECONDS
        return changed, pause if is_whole else min(pause, max(BUSY_SECONDS, _BACKOFF.pause(seen.half_read)))

    async def _ask_more(self, seen: account_state.AccountState, reading: view.Reading) -> tuple[bool, bool]:
        """Ask about instances and launch templates; return whether a question was answered, and all were.

        What nobody tells stops only what depends on it.
        """
        now, answers, errors = self._context.clock.now(), [], []
        for asked in (
            account_state.ask_lives(seen, reading, self._questions, now),
            account_state.ask_templates(seen, reading, now),
        ):
            try:
                answers.append(bool(await asked))
            except cloud.CloudError as error:
                log.warning("account_half_read", reason=error.reason, error=error.message)
                errors.append(error.message)
        seen.is_tried, seen.not_told = True, "; ".join(errors)
        return any(answers), not errors

    def _failed(self, name: str, seen: account_state.AccountState, problem: str) -> tuple[bool, float]:
        """Note that an account could not be read; return whether that is news, and for how long to wait then."""
        changed, seen.problem = seen.problem != problem, problem
        seen.failures += 1
        pause = _BACKOFF.pause(seen.failures)
        if seen.failing_since is None:
            seen.failing_since = self._context.clock.monotonic()
        was_out, seen.is_out = seen.is_out, name in self.outages()
        return changed or seen.is_out is not was_out, pause


def _ceil(at: float, began: float) -> float:
    """Return the next half second since a time."""
    return began + CHECK_SECONDS * math.ceil((at - began) / CHECK_SECONDS)


def _told(reading: view.Reading) -> tuple[object, ...]:
    """Return what of a reading others look at."""
    return reading.groups, reading.failures, reading.unread
