"""Amounts as people write them: durations, money, bytes, numbers of things. Pure."""

from typing import Final

_BINARY: Final = ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))


def duration(seconds: float) -> str:
    """Write how long something took, in the two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 and whole < 600 else "")
    return f"{whole // 3600:,} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def money(micros: int) -> str:
    """Write millionths of a currency."""
    return f"{micros / 1_000_000:,.2f}"


def size(count: int) -> str:
    """Write a number of bytes: `1.5 TiB`, `8 GiB`."""
    for exponent, unit in _BINARY:
        if count >= 1 << exponent:
            whole, rest = divmod(count, 1 << exponent)
            return f"{whole} {unit}" if not rest else f"{count / (1 << exponent):.1f} {unit}"
    return f"{count} B"


def counted(count: int, noun: str) -> str:
    """Write how many there are of something: `1 pod`, `2 pods`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
