"""A clock that a test sets."""

from tests.autoscaler.admission.builders import NOW


class ManualClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return NOW + self.seconds

    def monotonic(self) -> float:
        return self.seconds
