"""Tell guests why they wait and what was done for them, once each. It decides nothing."""

from collections.abc import Iterable
from typing import Final

from autoscaler import control
from autoscaler.kube import kinds, objects, store
from autoscaler.machines.model import (
    Command,
    DeleteSleeper,
    OpenGuest,
    OpenSleeper,
    PromiseGuest,
    Reason,
    RecordTried,
    Waiting,
)

_PASSING: Final = frozenset({Reason.NEXT, Reason.SCHEDULING})
"""Reasons that end by themselves in a moment, and are not told."""
_NORMAL: Final = frozenset({Reason.IN_LINE, Reason.OTHER_GATES})
AGAIN_SECONDS: Final = 30.0
"""When guests are told that could not be."""


class Telling:
    """Remembers what each waiting guest was told."""

    def __init__(self, context: control.ControllerContext, pods: store.Table[objects.Pod]) -> None:
        self._context = context
        self._pods = pods
        self._told: dict[str, dict[str, tuple[Reason, str]]] = {}
        """By group and UID."""
        self.untold: set[str] = set()
        """Groups that have guests who could not be told."""

    def of_waiting(self, group: str, waiting: Iterable[Waiting]) -> None:
        """Tell each guest why it waits, if that is news; forget those who do not wait any more."""
        before, now = self._told.get(group, {}), dict[str, tuple[Reason, str]]()
        for each in waiting:
            uid, said = each.guest.uid, (each.reason, each.message)
            if each.reason in _PASSING:
                if uid in before:
                    now[uid] = before[uid]
                continue
            now[uid] = said
            if before.get(uid) != said:
                self._tell(group, each)
        self._told[group] = now
        if not now:
            del self._told[group]

    def of_command(self, command: Command) -> None:
        """Tell a guest what was done for it."""
        match command:
            case PromiseGuest():
                self._done(command.guest.key, "MachinePromised", f"node {command.node} is promised: {command.why}")
            case OpenGuest():
                self._done(command.guest.key, "MachineGateOpened", f"the scheduling gate is open: {command.why}")
            case RecordTried():
                self._done(command.guest.key, "MachineRefused", command.why, is_warning=True)
            case OpenSleeper() | DeleteSleeper():
                pass  # a sleeper is nobody's

    def _tell(self, group: str, waiting: Waiting) -> None:
        pod = self._pods.get(waiting.guest.key)
        if pod is None:
            return

        def ended(is_told: bool) -> None:  # noqa: FBT001  # a callback's shape
            if not is_told:
                self._told.get(group, {}).pop(waiting.guest.uid, None)
                self.untold.add(group)
                self._context.wake(kinds.PODS.kind, waiting.guest.key)

        self._context.tell(
            kinds.PODS,
            pod,
            str(waiting.reason),
            waiting.message,
            is_warning=waiting.reason not in _NORMAL,
            ended=ended,
        )

    def _done(self, key: objects.Key, reason: str, message: str, *, is_warning: bool = False) -> None:
        pod = self._pods.get(key)
        if pod is not None:
            self._context.tell(kinds.PODS, pod, reason, message, is_warning=is_warning, is_change=True)
