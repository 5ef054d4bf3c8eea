"""Two spellings of one amount are equal."""

import pytest

from tools.engine.providers.kubernetes import quantities


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        ("0.5", "500m", True),
        ("1024Mi", "1Gi", True),
        ("1Ki", "1k", False),
        (1, "1", True),
        ("1M", "1000k", True),
        ("a", "a", False),
        (True, 1, False),
        (None, None, False),
    ],
)
def test_amounts_are_compared_exactly(one: object, other: object, *, want: bool) -> None:
    assert quantities.is_equal(one, other) is want
