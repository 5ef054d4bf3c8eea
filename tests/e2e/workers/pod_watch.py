"""See every pod of a namespace come and go, by a watch of the API server itself, so that nothing is missed."""

import collections
import http.client
import json
import threading
import urllib.parse
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from autoscaler.api import keys
from tools.local import api
from tools.local.plane import Plane


class PodWatch:
    """Remembers every worker that ever was, and the most that a pool had at once."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.created: dict[str, set[str]] = collections.defaultdict(set)
        """The uids of all workers that ever were, by pool."""
        self.most: dict[str, int] = collections.defaultdict(int)
        """The most workers at once, by pool."""
        self._there: dict[str, set[str]] = collections.defaultdict(set)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        version = plane.api.get(self._path)["metadata"]["resourceVersion"]
        address = urllib.parse.urlsplit(plane.api.access.server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=api.tls_context(plane.api.access)
        )
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
        self._connection.request("GET", f"{self._path}?{urllib.parse.urlencode(query)}")
        self._answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._follow, name="pod watch", daemon=True)
        self._is_over = threading.Event()

    @property
    def is_alive(self) -> bool:
        """Tell whether it still sees everything."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join(10)
        self._answer.close()
        self._connection.close()

    def _follow(self) -> None:
        try:
            for line in self._answer:
                event = json.loads(line)
                self._see(event["type"], event["object"]["metadata"])
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            if not self._is_over.is_set():
                raise

    def _see(self, kind: str, meta: Mapping[str, Any]) -> None:
        pool = meta.get("labels", {}).get(keys.WORKER_POOL)
        if pool is None:
            return
        if kind == "DELETED":
            self._there[pool].discard(meta["uid"])
            return
        self.created[pool].add(meta["uid"])
        self._there[pool].add(meta["uid"])
        self.most[pool] = max(self.most[pool], len(self._there[pool]))
