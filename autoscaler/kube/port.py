"""The port: how everything above talks to an API server, and the errors it may meet there.

Requests and answers are plain HTTP with JSON bodies, so that the reflector, the writer and the election run unchanged
on a real and on a simulated cluster.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
DEFAULT_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call to the API server."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the API server answered."""

    status: int
    body: bytes
    retry_after_seconds: float | None = None


class Api(Protocol):
    """An API server."""

    async def send(self, request: Request) -> Response:
        """Return the answer, whatever its status; raise UnreachableError if there is none in time."""
        ...

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield a watch's events, each one JSON document, in batches as they arrive, until the server ends the watch.

        The first batch is empty, and says that the server has accepted the watch.

        Raises ApiError if the watch is refused, UnreachableError if the connection breaks. Closing the generator closes
        the connection. The server's own `timeoutSeconds` is among the query.
        """
        ...


class KubeError(Exception):
    """A call to the API server did not do what was asked."""


class UnreachableError(KubeError):
    """There was no answer: nobody can tell whether a write took effect."""


class ApiError(KubeError):
    """The API server said no."""

    def __init__(self, status: int, reason: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class NotFoundError(ApiError):
    """404: the object, or the kind itself, is not there."""


class ConflictError(ApiError):
    """409: a precondition failed; what we knew of the object is old."""


class AlreadyExistsError(ApiError):
    """409 on create: an object of that name is there."""


class ExpiredError(ApiError):
    """410: the history asked for is gone; list again."""


class TooManyRequestsError(ApiError):
    """429: the server is busy, or a disruption budget forbids an eviction."""


class _Cause(msgspec.Struct):
    field: str = ""


class _Details(msgspec.Struct):
    causes: tuple[_Cause, ...] | None = None


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None

    @property
    def is_of_another(self) -> bool:
        """Whether a write was meant for another object of the same name."""
        causes = self.details.causes if self.details is not None else None
        return any(cause.field == "metadata.uid" for cause in causes or ())


_DECODER: Final = msgspec.json.Decoder(_Status)
_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    429: TooManyRequestsError,
}


def required(response: Response) -> bytes:
    """Return the body of a success, or raise what the server said."""
    if 200 <= response.status < 300:
        return response.body
    raise error_of(response.status, response.body, response.retry_after_seconds)


async def get(
    api: Api, path: str, query: Mapping[str, str] | None = None, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> bytes:
    """Return what is at a path, or raise what the server said."""
    request = Request(method="GET", path=path, query=query or {}, timeout_seconds=timeout_seconds)
    return required(await api.send(request))


def error_of(status: int | None, body: bytes, retry_after_seconds: float | None = None) -> ApiError:
    """Turn a Status object, or whatever else stands in a failure's body, into the error it means.

    A watch has no status of its own for what goes wrong: the object says it (None).
    """
    try:
        said = _DECODER.decode(body)
    except msgspec.MsgspecError:
        said = _Status(message=body[:512].decode(errors="replace"))
    code = said.code if status is None else status
    kind = AlreadyExistsError if said.reason == "AlreadyExists" else _BY_STATUS.get(code, ApiError)
    return (ConflictError if said.is_of_another else kind)(code, said.reason, said.message, retry_after_seconds)
