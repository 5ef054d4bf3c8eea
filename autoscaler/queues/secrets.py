"""What is taken from a pool's Secret, and how it is checked. Pure; no message ever holds a value."""

from typing import Final

from autoscaler.queues import port

_LONGEST: Final = 8000
"""Bytes. Servers refuse longer headers."""


_AUTHORITY_LONGEST: Final = 64 * 1024
"""Bytes. Longer ones take long to read, and somebody would do so on purpose."""


def api_key(data: port.SecretData) -> str:
    """Return the credential; surrounding white space goes, as a line's end is easily put into a Secret."""
    return text(data, port.API_KEY)


def text(data: port.SecretData, key: str) -> str:
    """Return a key's value as text that can stand in a header."""
    if key not in data:
        raise bad(key, "is missing")
    try:
        value = data[key].decode("ascii").strip()
    except UnicodeDecodeError:
        raise bad(key, "holds characters other than ASCII") from None  # the error's text quotes the value
    if not value:
        raise bad(key, "is empty")
    if not value.isprintable() or len(value) > _LONGEST:
        raise bad(key, "holds several lines, or is too long, or has characters that no header may have")
    return value


def authority(data: port.SecretData | None) -> bytes | None:
    """Return the certificates to check a TLS server against; None means the system's."""
    found = (data or {}).get(port.AUTHORITY)
    if found is not None and len(found) > _AUTHORITY_LONGEST:
        raise bad(port.AUTHORITY, f"is longer than {_AUTHORITY_LONGEST} bytes; a few certificates are enough")
    return found


def bad(key: str, what: str) -> port.QueueError:
    """Return the error for a key that is missing or unusable."""
    return port.QueueError(
        port.Reason.BAD_SECRET,
        f"the queue was not asked: key {key} of the Secret that secretName names {what}. Set it with kubectl",
    )
