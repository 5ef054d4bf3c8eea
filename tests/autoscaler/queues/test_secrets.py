"""Credentials are checked before they are used, and never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.queues import port, secrets


def test_a_line_end_in_the_secret_is_not_part_of_the_key() -> None:
    assert secrets.api_key({"ApiKey": b"hey get your own\n"}) == "hey get your own"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"apikey": b"x"},
        {"ApiKey": b" \n"},
        {"ApiKey": b"a\r\nX-Evil: b"},
        {"ApiKey": b"\xff"},
        {"ApiKey": b"a\x00"},
    ],
)
def test_an_unusable_key_is_named(data: dict[str, bytes]) -> None:
    with pytest.raises(port.QueueError, match="key ApiKey") as caught:
        secrets.api_key(data)
    assert caught.value.reason is port.Reason.BAD_SECRET


@given(st.binary(max_size=60))
def test_a_key_that_is_taken_can_stand_in_a_header(value: bytes) -> None:
    try:
        key = secrets.api_key({"ApiKey": value})
    except port.QueueError:
        return
    assert key
    assert all(" " <= character <= "~" for character in key)


def test_a_key_longer_than_servers_take_is_refused() -> None:
    with pytest.raises(port.QueueError, match="too long"):
        secrets.api_key({"ApiKey": b"x" * 8001})


def test_the_authority_is_optional() -> None:
    assert secrets.authority(None) is None
    assert secrets.authority({"ApiKey": b"x"}) is None
    assert secrets.authority({"ca.crt": b"pem"}) == b"pem"


def test_certificates_without_end_are_refused() -> None:
    with pytest.raises(port.QueueError, match="longer than 65536 bytes"):
        secrets.authority({port.AUTHORITY: b"x" * 65537})
    assert secrets.authority({port.AUTHORITY: b"x"}) == b"x"
