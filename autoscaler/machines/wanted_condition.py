"""A condition as it should be: a value that decides nothing and knows no kind of object, so that all may use it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a condition says."""

    holds: bool
    reason: str
    """One word, for programs."""
    message: str
