"""Kubernetes quantities, as far as two spellings of one amount must be told to be equal. Pure."""

import re
from fractions import Fraction

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_DECIMAL = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def is_equal(one: object, other: object) -> bool:
    """Tell whether two values are the same amount, such as `0.5` and `500m`; False if either is none."""
    first, second = amount(one), amount(other)
    return first is not None and first == second


def amount(value: object) -> Fraction | None:
    """Return the exact amount of a quantity, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    suffix = match[2] or ""
    if suffix == "m":
        scale = Fraction(1, 1000)
    elif suffix.endswith("i"):
        scale = Fraction(1024 ** _DECIMAL["k" if suffix == "Ki" else suffix[0]])
    else:
        scale = Fraction(1000 ** _DECIMAL[suffix])
    return Fraction(match[1]) * scale
