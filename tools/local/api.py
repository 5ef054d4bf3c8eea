"""A small synchronous JSON client for the API server: one persistent connection, timeouts, one reconnect."""

import contextlib
import dataclasses
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.local import kubeconfig

TIMEOUT_SECONDS = 10.0
IDLE_SECONDS = 20.0  # the API server closes connections that it has not heard of for a while
_SAFE_TO_REPEAT = frozenset({"GET", "HEAD", "PUT", "DELETE"})


class ApiError(Exception):
    """The API server could not be reached, or said no to something that had to succeed."""


class RefusedError(ApiError):
    """The API server said no: the request itself is wrong, and sending it again would not help."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the API server answered: a JSON value, or text where it speaks text (such as /readyz)."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def required(self) -> Any:  # noqa: ANN401 - JSON
        """Return the body of a success, or raise with the server's own words."""
        if not self.ok:
            message = self.body.get("message", self.body) if isinstance(self.body, dict) else self.body
            kind = RefusedError if http.client.BAD_REQUEST <= self.status < http.client.TOO_MANY_REQUESTS else ApiError
            raise kind(f"the API server answered {self.status}: {message}")
        return self.body


class Api:
    """One identity's connection to one API server. Not for use by several threads at once."""

    def __init__(self, access: kubeconfig.Access, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        address = urllib.parse.urlsplit(access.server)
        self.access = access
        self._connection = http.client.HTTPSConnection(
            address.hostname or "127.0.0.1", address.port, timeout=timeout_seconds, context=tls_context(access)
        )
        self._used_at = 0.0
        self._headers = {"Accept": "application/json"}
        if isinstance(access.credential, kubeconfig.BearerToken):
            self._headers["Authorization"] = f"Bearer {access.credential.token}"

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request and return the answer, whatever its status; raise ApiError if there is none."""
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        payload = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if payload is None else {"Content-Type": content_type})
        # A kept connection may have been closed by the other side. Only a fresh one tells whether the server is there.
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()
        is_kept = self._connection.sock is not None
        try:
            return self._send(method, target, payload, headers)
        except (OSError, http.client.HTTPException) as error:
            if is_kept and method in _SAFE_TO_REPEAT:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    return self._send(method, target, payload, headers)
            raise ApiError(f"{method} {self.access.server}{path} got no answer: {error}") from error

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Read an object that must be there."""
        return self.request("GET", path, query=query).required()

    def create(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        """Create an object that must be accepted."""
        return self.request("POST", path, body).required()

    def merge(self, path: str, body: object) -> Any:  # noqa: ANN401 - JSON
        """Merge-patch an object that must be there."""
        return self.request("PATCH", path, body, content_type="application/merge-patch+json").required()

    def delete(self, path: str) -> None:
        """Delete an object; one that is already gone is fine."""
        response = self.request("DELETE", path)
        if response.status != http.client.NOT_FOUND:
            response.required()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, method: str, target: str, payload: bytes | None, headers: Mapping[str, str]) -> Response:
        try:
            self._connection.request(method, target, body=payload, headers=dict(headers))
            answer = self._connection.getresponse()
            content = answer.read()
        except BaseException:
            self._connection.close()  # half a request sent: the next one must not read its answer
            raise
        self._used_at = time.monotonic()
        is_json = answer.headers.get_content_type() == "application/json"
        body = json.loads(content) if is_json else content.decode()
        return Response(status=answer.status, body=body, warnings=tuple(answer.headers.get_all("Warning", ())))


def tls_context(access: kubeconfig.Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.authority_pem.decode())
    credential = access.credential
    if isinstance(credential, kubeconfig.ClientCertificate):
        # The ssl module reads key pairs from files only.
        with tempfile.TemporaryDirectory() as scratch:
            pair = Path(scratch) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(credential.certificate_pem + credential.key_pem)
            context.load_cert_chain(pair)
    return context
