"""What a test orders the ASG rules to do to AWS: withhold capacity, throttle, break down, fall silent. Thread-safe."""

import dataclasses
import enum
import threading

from tools.local.asg import group_rules
from tools.local.asg.asg_wire import Refusal


class Trouble(enum.StrEnum):
    """What happens to a call."""

    THROTTLE = "Throttling"
    """As Auto Scaling says it."""
    LIMIT = "RequestLimitExceeded"
    """As EC2 says it."""
    BREAK = "InternalFailure"
    """500, and nothing is done."""
    UNAVAILABLE = "ServiceUnavailable"
    """503, and nothing is done."""
    DENY = "AccessDenied"
    HANG = "hang"
    """No answer for as long as `hang_seconds`, and nothing is done."""
    LOSE_REQUEST = "lose-request"
    """The connection is closed, and nothing is done."""
    LOSE_ANSWER = "lose-answer"
    """It is done, and the connection is closed."""
    TRUNCATE = "truncate"
    """It is done, and the connection is closed after half of the answer."""


REFUSALS = {
    Trouble.THROTTLE: Refusal(code="Throttling", message="Rate exceeded"),
    Trouble.LIMIT: Refusal(code="RequestLimitExceeded", message="Request limit exceeded.", status=503),
    Trouble.BREAK: Refusal(code="InternalFailure", message="An internal error has occurred", status=500),
    Trouble.UNAVAILABLE: Refusal(code="ServiceUnavailable", message="Service is unavailable", status=503),
    Trouble.DENY: Refusal(code="AccessDenied", message="User is not authorized to perform this", status=403),
}


@dataclasses.dataclass(slots=True)
class _Order:
    trouble: Trouble
    action: str | None
    left: int | None


class Orders:
    """The orders in force. A call meets the oldest that is about it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: list[_Order] = []
        self._hindered: dict[tuple[str, str], str] = {}

    def add(self, trouble: Trouble, action: str | None = None, *, times: int | None = 1) -> None:
        """Trouble the next calls of an action, or of any; without a number, all until `clear`."""
        with self._lock:
            self._orders.append(_Order(trouble, action, times))

    def clear(self) -> None:
        with self._lock:
            self._orders.clear()

    def withhold(self, *, zone: str, instance_type: str) -> None:
        """Have no capacity for a type in a zone."""
        with self._lock:
            self._hindered[zone, instance_type] = group_rules.shortage(instance_type, zone)

    def stop_offering(self, *, zone: str, instance_type: str) -> None:
        """Do not support a type in a zone."""
        with self._lock:
            self._hindered[zone, instance_type] = group_rules.unsupported(instance_type, zone)

    def relieve(self) -> None:
        """Have capacity for everything again."""
        with self._lock:
            self._hindered.clear()

    def obstacle(self, zone: str, instance_type: str) -> str | None:
        """Return why such an instance cannot be launched now."""
        with self._lock:
            return self._hindered.get((zone, instance_type))

    def next(self, action: str) -> Trouble | None:
        """Return what happens to a call, and count it."""
        with self._lock:
            order = next((one for one in self._orders if one.action in {None, action}), None)
            if order is None:
                return None
            if order.left is not None:
                order.left -= 1
            self._orders = [one for one in self._orders if one.left is None or one.left > 0]
            return order.trouble
