"""Ask clouds beside the cycle, which waits for none of them: at most one call is in flight for a group.

What became of a call is an outcome that a later cycle sees. Until then its group counts as if the call had landed, so
that nobody asks twice. A group is read again before its size is set, and whether an instance may end is asked again
before it does. It decides nothing.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from autoscaler import backoff, control, units
from autoscaler.capacity.accounts import account_reader, unavailable_offerings
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.plan import Disruption, Launch, Resize
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from autoscaler.kube.writing import writer

log = structlog.get_logger()
LAUNCH_WINDOW_SECONDS: Final = 60.0
MayEnd = Callable[[Disruption], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command."""

    command: Launch | Resize | Disruption
    is_done: bool
    """It was done, or nobody can tell: it may have been."""
    error: cloud.CloudError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    account: str
    began: float


class Calls:
    """The calls in flight, of all accounts."""

    def __init__(
        self, context: control.ControllerContext, known: account_reader.AccountReader, retries: backoff.Retries
    ) -> None:
        self._context = context
        self._accounts = known
        self._retries = retries
        self._flights: dict[cloud.GroupName, _Flight] = {}
        self._expected: Mapping[cloud.GroupName, Launch | Disruption] = {}
        """What is under way and counts as landed; made anew with each change."""
        self._wanted: set[cloud.GroupName] = set()
        """Groups that something else waits for: what need not go on ends."""
        self._outdated: set[cloud.GroupName] = set()
        """Groups that somebody else had changed when they were to be raised."""
        self._outcomes: list[Outcome] = []
        self._launched: deque[float] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._applied = remembered.Remembered(_applied)
        context.feed(self)

    async def run(self) -> None:
        """End what is in flight when the controller ends."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def unsynced(self) -> str | None:
        """Return None: nothing is read here."""
        return None

    # What plans read

    def applied(self, groups: tuple[cloud.NodeGroup, ...]) -> tuple[cloud.NodeGroup, ...]:
        """Return groups as they are once all that is in flight has landed; the same ones while nothing changes."""
        return self._applied(groups, self._expected) if self._expected else groups

    def launched(self) -> int:
        """Count the nodes that were asked for within the last minute."""
        while self._launched and self._launched[0] < self._context.clock.monotonic() - LAUNCH_WINDOW_SECONDS:
            self._launched.popleft()
        asked = [each for each in self._expected.values() if isinstance(each, Launch)]
        return len(self._launched) + sum(each.after - each.before for each in asked)

    def is_ending(self, instance: cloud.InstanceId) -> bool:
        """Tell whether an instance's end is being asked for."""
        return any(isinstance(each, Disruption) and each.instance == instance for each in self._expected.values())

    def silent(self) -> dict[str, str]:
        """Return the accounts that have not answered a call for a while, and which one."""
        latest = self._context.clock.monotonic() - account_reader.SILENT_SECONDS + account_reader.TICK_SECONDS
        late = {name: flight for name, flight in self._flights.items() if flight.began <= latest}
        waiting = Counter(flight.account for flight in self._flights.values())
        calls = {account: units.counted(count, "call") for account, count in waiting.items()}
        return {
            flight.account: f"no answer to a call about {name} yet; {calls[flight.account]} in flight"
            for name, flight in sorted(late.items())
        }

    def outcomes(self) -> list[Outcome]:
        """Hand out what became of calls since the last time."""
        taken, self._outcomes = self._outcomes, []
        return taken

    # What is asked for

    def launch(self, launches: Iterable[Launch]) -> list[Launch]:
        """Raise groups, those of an account after one reading of them; return those that are under way now."""
        by_account: dict[str, list[Launch]] = {}
        for launch in launches:
            account = self._accounts.account_of(launch.group)
            if account is not None and self._is_free(launch.group):
                by_account.setdefault(account, []).append(launch)
        for account, these in by_account.items():
            for launch in these:
                self._expect(launch.group, launch)
            self._start(account, [launch.group for launch in these], self._launch(account, these))
        return [launch for these in by_account.values() for launch in these]

    def resize(self, resizes: Iterable[Resize]) -> None:
        """Set groups to what they have."""
        for each in resizes:
            account = self._accounts.account_of(each.group)
            if account is not None and self._is_free(each.group):
                self._start(account, [each.group], self._resize(account, each))

    def end(self, disruptions: Iterable[Disruption], may_end: MayEnd) -> None:
        """End instances, those of a group one after the other, each if it may still end then."""
        by_group: dict[cloud.GroupName, list[Disruption]] = {}
        for each in disruptions:
            if not self._retries.holds(each.instance):
                by_group.setdefault(each.group, []).append(each)
        for name, these in by_group.items():
            account = self._accounts.account_of(name)
            if account is not None and name not in self._flights:
                self._start(account, [name], self._end_all(these, may_end))

    def _is_free(self, name: cloud.GroupName) -> bool:
        """Tell whether a group may be written to now; what can stop for it does."""
        if name in self._flights:
            self._wanted.add(name)
            return False
        return not self._retries.holds(name)

    # Flights

    def _start(self, account: str, names: Collection[cloud.GroupName], work: Coroutine[Any, Any, None]) -> None:
        flight = _Flight(account=account, began=self._context.clock.monotonic())
        self._flights |= dict.fromkeys(names, flight)
        task = asyncio.create_task(self._fly(account, names, work), name=f"calls to {account}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fly(self, account: str, names: Collection[cloud.GroupName], work: Coroutine[Any, Any, None]) -> None:
        """See to it that groups are free again, whatever happens; who does not answer for a while is told."""
        late = asyncio.get_running_loop().call_later(account_reader.SILENT_SECONDS, self._wake, account)
        try:
            await work
        except Exception:
            log.exception("call_failed", account=account)
        finally:
            late.cancel()
            if account in self.silent():
                self._wake(account)
            for name in names:
                self._land(name)

    def _may_act(self, what: str) -> bool:
        """Ask just before each call: the Lease may be gone since the plan was made."""
        try:
            return self._context.may_act(what)
        except writer.FencedError as error:
            log.info("call_fenced", reason=str(error))
            return False

    def _land(self, name: cloud.GroupName) -> None:
        self._flights.pop(name, None)
        self._wanted.discard(name)
        self._expect(name, None)

    def _expect(self, name: cloud.GroupName, command: Launch | Disruption | None) -> None:
        if command is not None:
            self._expected = {**self._expected, name: command}
        elif name in self._expected:
            self._expected = {other: each for other, each in self._expected.items() if other != name}

    def _wake(self, name: str) -> None:
        self._context.wake(account_reader.KIND, objects.Key("", name))

    def _note(self, outcome: Outcome) -> None:
        """Keep an outcome for the next cycle; a new size is seen at once, what was not done is planned again soon."""
        self._outcomes.append(outcome)
        self._accounts.hurry()
        if outcome.is_done and not isinstance(outcome.command, Disruption):
            self._wake(outcome.command.group)

    # Sizes

    async def _launch(self, account: str, launches: list[Launch]) -> None:
        """Read an account's groups again, then raise them: somebody else may have changed them."""
        found = await self._read_again(account, [launch.group for launch in launches])
        if found is not None:
            await asyncio.gather(*(self._raise(each, found.get(each.group)) for each in launches))

    async def _raise(self, launch: Launch, group: cloud.NodeGroup | None) -> None:
        if group is None or offers.size(group) != launch.before or launch.after > group.maximum:
            log.info("launch_outdated", group=launch.group, planned=(launch.before, launch.after))
            self._land(launch.group)
            if launch.group not in self._outdated:
                self._wake(launch.group)  # what was just read is planned on; a second time in a row, a little later
            self._outdated.add(launch.group)
            return
        self._outdated.discard(launch.group)
        outcome = await self._set_desired(launch, group, launch.after)
        if outcome.is_done:
            self._launched.extend([self._context.clock.monotonic()] * (launch.after - launch.before))
        self._land(launch.group)
        self._note(outcome)

    async def _resize(self, account: str, resize: Resize) -> None:
        """Read a group again, then set it to what it has, so that no instance ends by what was true a moment ago."""
        found = await self._read_again(account, [resize.group])
        group = found.get(resize.group) if found is not None else None
        if group is None:
            return
        has = unavailable_offerings.has(group)
        has = has if resize.after < resize.before else min(has, resize.after)
        if group.desired > has if resize.after < resize.before else group.desired < has:
            self._note(await self._set_desired(resize, group, has))
        else:
            self._wake(resize.group)

    async def _read_again(
        self, account: str, names: list[cloud.GroupName]
    ) -> Mapping[cloud.GroupName, cloud.NodeGroup] | None:
        """Return groups as they are now; None: nobody can tell."""
        seen = self._accounts.seen.get(account)
        try:
            return (await seen.view.reread(names)).groups if seen is not None else None
        except cloud.CloudError as error:
            why = {"reason": error.reason, "error": error.message}
            log.warning("groups_not_read_again", account=account, groups=names, **why)
            self._accounts.hurry()
            for name in names:
                self._retries.note(name, is_done=False)
            return None

    async def _set_desired(self, command: Launch | Resize, group: cloud.NodeGroup, desired: int) -> Outcome:
        seen = self._accounts.of(group.name)
        what = f"set desired of {group.name} from {group.desired} to {desired}"
        if seen is None or not self._may_act(what):
            return Outcome(command=command, is_done=False)
        outcome = await seen.view.set_desired(group.name, desired)
        error = outcome.error.message if outcome.error else None
        log.info(
            "desired_set", group=group.name, before=group.desired, after=desired, verdict=outcome.verdict, error=error
        )
        is_done = outcome.verdict is not cloud.Verdict.NOT_DONE
        self._retries.note(group.name, is_done=is_done)
        return Outcome(command=command, is_done=is_done, error=outcome.error)

    # Ends

    async def _end_all(self, disruptions: Iterable[Disruption], may_end: MayEnd) -> None:
        """End instances until one end is not answered well, or somebody waits for the group."""
        done = set()
        for each in disruptions:
            self._expect(each.group, each)
            outcome = await self._end(each) if await may_end(each) else None
            self._expect(each.group, None)
            if outcome is not None:
                self._note(outcome)
                done |= {each.group} if outcome.is_done else set()
            if (outcome is not None and outcome.error is not None) or each.group in self._wanted:
                break
        for name in done:
            self._wake(name)

    async def _end(self, each: Disruption) -> Outcome:
        """End an instance, and leave it for a moment if that was not done."""
        seen = self._accounts.of(each.group)
        if seen is None or not self._may_act(f"end {each.instance} of {each.group}: {each.reason}"):
            return Outcome(command=each, is_done=False)
        outcome = await seen.view.terminate(each.group, each.instance, decrement=each.decrement)
        is_done = outcome.verdict is not cloud.Verdict.NOT_DONE
        self._retries.note(each.instance, is_done=is_done)
        log.info(
            "useless_instance_ended" if each.is_useless else "instance_ended",
            node=each.node_name or None,
            instance=each.instance,
            reason=each.reason,
            verdict=outcome.verdict,
            error=outcome.error.message if outcome.error else None,
        )
        return Outcome(command=each, is_done=is_done, error=outcome.error)


def _applied(
    groups: tuple[cloud.NodeGroup, ...], expected: Mapping[cloud.GroupName, Launch | Disruption]
) -> tuple[cloud.NodeGroup, ...]:
    return tuple(_after(group, expected.get(group.name)) for group in groups)


def _after(group: cloud.NodeGroup, command: Launch | Disruption | None) -> cloud.NodeGroup:
    match command:
        case None:
            return group
        case Launch():
            return group.with_desired(max(group.desired, command.after))
        case Disruption():
            return group.without(command.instance, decrement=command.decrement and group.desired > group.minimum)
