"""A condition as it should be. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a condition says."""

    holds: bool
    reason: str
    """One word, for programs."""
    message: str
