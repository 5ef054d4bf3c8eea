"""Amounts are written as people write them."""

import pytest

from autoscaler import units


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (725, "12 min"),
        (3600, "1 h"),
        (9060, "2 h 31 min"),
        (4_000_000, "1,111 h 6 min"),
    ],
)
def test_durations_are_written_in_their_two_largest_units(seconds: float, want: str) -> None:
    assert units.duration(seconds) == want


@pytest.mark.parametrize(
    ("count", "want"),
    [(1023, "1023 B"), (8 << 30, "8 GiB"), (3 << 39, "1.5 TiB"), (64_532_000_000, "60.1 GiB"), (1 << 60, "1 EiB")],
)
def test_sizes_are_written_in_the_largest_unit_of_which_there_is_one(count: int, want: str) -> None:
    assert units.size(count) == want
