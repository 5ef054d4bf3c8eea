"""Quantities are read exactly, rounded up where asked, and refused where they make no sense."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import quantities


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0), ("500m", 500), ("2", 2000), ("1.5", 1500), (".5", 500), ("5.", 5000), ("1500u", 2), ("1n", 1),
        ("1k", 1_000_000), ("1e3", 1_000_000), ("1E3", 1_000_000), ("1e-3", 1), ("-500m", -500), ("+1", 1000),
    ],
)  # fmt: skip
def test_millis(text: str, want: int) -> None:
    assert quantities.millis(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1Ki", 1024), ("48Gi", 48 * 2**30), ("1.5Gi", 3 * 2**29), ("1G", 10**9), ("1E", 10**18), ("1Ei", 2**60),
        ("100m", 1), ("0.1", 1), ("12Mi", 12 * 2**20), ("3Ti", 3 * 2**40), ("3P", 3 * 10**15), ("128974848", 128974848),
    ],
)  # fmt: skip
def test_units(text: str, want: int) -> None:
    assert quantities.units(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 Gi",
        "Gi",
        "1gi",
        "1KI",
        "0x10",
        "1.2.3",
        "1e",
        "--1",
        "1,5",
        "NaN",
        "inf",
        "1e999",
        "1e100",
        "１",  # noqa: RUF001
        "9" * 65,
    ],
)
def test_garbage_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantities.exact(text)


@given(st.integers(-(10**15), 10**15))
def test_whole_numbers_stay_what_they_are(number: int) -> None:
    assert quantities.exact(str(number)) == number
    assert quantities.units(str(number)) == number
    assert quantities.millis(f"{number}m") == number


@given(st.integers(0, 10**6), st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_rounding_never_promises_less(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    value = quantities.exact(text)
    assert quantities.units(text) == math.ceil(value)
    assert Fraction(quantities.millis(text), 1000) - value < Fraction(1, 1000)
    assert Fraction(quantities.millis(text), 1000) >= value
