"""Kubernetes quantities as exact integers. A quantity that cannot be read is an error, never a zero."""

import functools
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

FORM: Final = "^([+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$"
"""What a quantity looks like: an expression that Python and CEL read alike. Exponents have two digits at most."""
_QUANTITY: Final = re.compile(FORM, re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST: Final = 64
LARGEST: Final = 2**63 - 1
"""Amounts end here, as in Kubernetes itself: larger ones it writes as something else."""


@functools.lru_cache(maxsize=4096)
def exact(text: str) -> Fraction:
    """Read a quantity without rounding.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity such as 500m, 2 or 1.5Gi")
    number, suffix = Fraction(Decimal(match[1])), match[2] or ""
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Fraction(f"1e{exponent}")


def millis(text: str) -> int:
    """Read a quantity in thousandths, rounded up as Kubernetes does: `500m` is 500, `2` is 2000."""
    return _ceiling(exact(text) * 1000)


def units(text: str) -> int:
    """Read a quantity in whole units, rounded up as Kubernetes does: `1Ki` is 1024, `500m` is 1."""
    return _ceiling(exact(text))


def _ceiling(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
