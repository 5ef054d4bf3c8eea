"""Faults on demand: what goes wrong between a client and the simulated cloud, in which calls and how often."""

from dataclasses import dataclass
from enum import StrEnum


class Call(StrEnum):
    """What a client may ask, as AWS names it."""

    GROUPS = "DescribeAutoScalingGroups"
    SET_DESIRED = "SetDesiredCapacity"
    TERMINATE = "TerminateInstanceInAutoScalingGroup"
    ACTIVITIES = "DescribeScalingActivities"
    LIVES = "DescribeInstances"
    TEMPLATES = "DescribeLaunchTemplateVersions"
    NEWS = "ReceiveMessage"


class Effect(StrEnum):
    """What goes wrong."""

    THROTTLE = "throttle"
    """It says that there are too many calls, and does nothing."""
    REFUSE = "refuse"
    """There is no connection: nothing happens."""
    LOSE_ANSWER = "lose-answer"
    """It does it, and the answer never arrives."""
    LOSE_REQUEST = "lose-request"
    """It never hears of it, and the client cannot know."""
    DENY = "deny"


@dataclass(slots=True)
class _Rule:
    effect: Effect
    call: Call | None
    left: int | None


class Faults:
    """The faults in force. A call meets the oldest rule that is about it."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def add(self, effect: Effect, call: Call | None = None, *, times: int | None = 1) -> None:
        """Make the next calls fail so, of one kind or of any; without a number, all until `clear`."""
        self._rules.append(_Rule(effect, call, times))

    def clear(self) -> None:
        self._rules.clear()

    def next(self, call: Call) -> Effect | None:
        """Return what happens to a call, and count it."""
        rule = next((rule for rule in self._rules if rule.call in {None, call}), None)
        if rule is None:
            return None
        if rule.left is not None:
            rule.left -= 1
        self._rules = [rule for rule in self._rules if rule.left is None or rule.left > 0]
        return rule.effect
