"""The API server as the stand-in uses it: finding an object's path, sending, turning refusals into words.

Used by many threads: each has its own connection. Every call is noted in the journal, by method and path alone.
"""

import http.client
import threading
import time
from collections.abc import Mapping
from typing import Any

from tools.engine.providers import calls, journal
from tools.engine.providers.kubernetes import ownership, settings
from tools.local import api

KIND_SECONDS = 15.0  # a definition made a moment ago may be served a little later
POLL_SECONDS = 0.25
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
DRY_RUN = {"dryRun": "All"}


class ForbiddenError(calls.RefusedError):
    """The server answers, and this identity may not."""


class Client:
    """One provider resource's connection to its API server, made when it is first needed."""

    def __init__(self, options: settings.Settings, book: journal.Journal) -> None:
        self._options = options
        self._journal = book
        self._lock = threading.Lock()
        self._target: settings.Target | None = None
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        self._own = threading.local()

    def path(self, body: Mapping[str, Any], *, patient: bool = True) -> str | None:
        """Return the path of an object's collection, or None if its kind is not served."""
        version, kind = str(body["apiVersion"]), str(body["kind"])
        deadline = time.monotonic() + (KIND_SECONDS if patient else 0)
        while (found := self._kind(version, kind)) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)
        plural, is_namespaced = found
        namespace = body.get("metadata", {}).get("namespace") or self.target().namespace
        middle = f"/namespaces/{namespace}" if is_namespaced else ""
        return f"{_root(version)}{middle}/{plural}"

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> api.Response:
        """Send a request and return the answer, whatever it is; credentials that ran out are renewed once."""
        if method != "GET" and "dryRun" not in (query or {}):
            self._journal.call(f"{method} {path}")
        try:
            answer = self._connection().request(method, path, body, content_type=content_type, query=query)
            if answer.status == http.client.UNAUTHORIZED:
                self._renew()
                answer = self._connection().request(method, path, body, content_type=content_type, query=query)
        except api.ApiError as error:
            raise calls.RefusedError(f"cannot reach the cluster: {error}") from error
        return answer

    def target(self) -> settings.Target:
        with self._lock:
            if self._target is None:
                self._target = settings.target(self._options)
            return self._target

    def forget(self, version: str) -> None:
        """Ask again which kinds there are."""
        self._kinds.pop(version, None)

    def _kind(self, version: str, kind: str) -> tuple[str, bool] | None:
        known = self._kinds.get(version)
        if known is None or kind not in known:
            answer = self.send("GET", _root(version))
            resources = answer.body["resources"] if answer.ok else ()
            known = {each["kind"]: (each["name"], each["namespaced"]) for each in resources if "/" not in each["name"]}
            self._kinds[version] = known
        return known.get(kind)

    def _connection(self) -> api.Api:
        found: api.Api | None = getattr(self._own, "api", None)
        access = self.target().access
        if found is None or found.access != access:
            found = api.Api(access)
            self._own.api = found
        return found

    def _renew(self) -> None:
        with self._lock:
            self._target = None


def required(answer: api.Response, attempt: str) -> dict[str, Any]:
    """Return the object of a success; say what was attempted and what to do otherwise."""
    if answer.ok:
        body: dict[str, Any] = answer.body
        return body
    status = answer.body if isinstance(answer.body, dict) else {"message": str(answer.body)}
    fields = ownership.conflicts(status)
    if fields:
        raise calls.RefusedError(
            f"{attempt}: server-side apply conflict on {'; '.join(fields)}. Another manager owns these fields: "
            "leave them out, add ignore_changes, or take them with the annotation pulumi.com/patchForce"
        )
    kind = ForbiddenError if answer.status == http.client.FORBIDDEN else calls.RefusedError
    raise kind(f"{attempt}: the API server answered {answer.status}: {status.get('message')}")


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
