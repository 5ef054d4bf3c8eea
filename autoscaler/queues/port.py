"""The port: how a controller learns how many jobs wait, and every way in which it may not learn it.

A queue that cannot be read is an error, never 0. No message may hold a credential, nor quote what a server answered:
whoever can create a pool can read its events, and must not read other people's pages through them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from autoscaler.api.resources.worker_pools import QueueSource

API_KEY: Final = "ApiKey"
"""The key of a Secret that holds the credential, and by that opts in: a Secret without it is not for us."""
AUTHORITY: Final = "ca.crt"
"""The key of a Secret that may hold the certificates, in PEM form, that a TLS server is checked against."""

SecretData = Mapping[str, bytes]
"""What a Secret holds, by key, decoded from base64."""


class Queue(Protocol):
    """One queue, with the credentials as they are now. Make a new one when its pool or Secret changes."""

    async def length(self) -> int:
        """Return how many jobs wait, from 0 to counts.MAX; raise QueueError if that cannot be told in time."""
        ...


class Queues(Protocol):
    """All kinds of queues."""

    def queue(self, source: QueueSource, *, namespace: str, secret: SecretData | None) -> Queue:
        """Return a pool's queue; raise QueueError if it cannot be asked."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Reason(StrEnum):
    """Why a queue could not be read."""

    UNREACHABLE = "Unreachable"
    """No connection, or it broke before the answer was whole."""
    TIMEOUT = "Timeout"
    UNTRUSTED = "Untrusted"
    """The server's certificate does not stand the check."""
    UNAUTHORIZED = "Unauthorized"
    """The credentials were refused, or there are none."""
    NOT_FOUND = "NotFound"
    FAILED = "Failed"
    """The server answered that it could not."""
    REDIRECTED = "Redirected"
    """Elsewhere, or too often."""
    BODY_TOO_LARGE = "BodyTooLarge"
    NOT_A_NUMBER = "NotANumber"
    NEGATIVE = "Negative"
    TOO_LARGE = "TooLarge"
    """The number is larger than any count the API knows."""
    NOT_ONE_VALUE = "NotOneValue"
    """A query that has no value, or several."""
    ENDPOINT_REFUSED = "EndpointRefused"
    """The endpoint is one that no pool may ask."""
    NOT_ALLOWED = "EndpointNotAllowed"
    """The endpoint is one that pools of this namespace may not ask; the stack's config can allow it."""
    MISSING_SECRET = "MissingSecret"  # noqa: S105 - a reason
    BAD_SECRET = "BadSecret"  # noqa: S105 - the same
    """The Secret is there, and lacks a key or holds something unusable in it."""


class QueueError(Exception):
    """A queue could not be read: what was attempted, on what, and what to do next."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
