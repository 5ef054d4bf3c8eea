"""A job queue in memory, for trying worker pools out: it forgets everything when it ends.

    API_KEY=secret python queue_server.py [HOST:]PORT

It listens on this computer alone, 127.0.0.1:8080, unless told otherwise: in a container, 0.0.0.0:8080 lets others in.


GET  /length    the number of jobs that wait, as a worker pool reads it
POST /add?n=3   put so many jobs in
POST /take      take one out: 200 with the job, or 204 if there is none

With API_KEY set, only requests with the header `Authorization: Apikey <key>` are answered, as worker pools send it.
"""
# ruff: noqa: INP001 - a program, not a package

import collections
import http.server
import itertools
import os
import signal
import sys
import threading
import urllib.parse
from http import HTTPStatus


class Queue(http.server.ThreadingHTTPServer):
    """The server, and its jobs."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, Handler)
        self.jobs: collections.deque[str] = collections.deque()
        self.numbers = itertools.count(1)
        self.key = os.environ.get("API_KEY")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    server: Queue

    def do_GET(self) -> None:
        if not self._is_allowed():
            self._answer(HTTPStatus.UNAUTHORIZED)
        elif self.path == "/length":
            self._answer(HTTPStatus.OK, str(len(self.server.jobs)))
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        asked = urllib.parse.urlsplit(self.path)
        if not self._is_allowed():
            return self._answer(HTTPStatus.UNAUTHORIZED)
        if asked.path == "/add":
            count = urllib.parse.parse_qs(asked.query).get("n", ["1"])[0]
            if not count.isdecimal():
                return self._answer(HTTPStatus.BAD_REQUEST, "n must be a number")
            self.server.jobs.extend(f"job {next(self.server.numbers)}" for _ in range(int(count)))
            return self._answer(HTTPStatus.OK, str(len(self.server.jobs)))
        if asked.path != "/take":
            return self._answer(HTTPStatus.NOT_FOUND)
        try:
            return self._answer(HTTPStatus.OK, self.server.jobs.popleft())
        except IndexError:
            return self._answer(HTTPStatus.NO_CONTENT)

    def _is_allowed(self) -> bool:
        return self.server.key is None or self.headers.get("Authorization") == f"Apikey {self.server.key}"

    def _answer(self, status: HTTPStatus, text: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def address(text: str) -> tuple[str, int]:
    """Read where to listen."""
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)


def main() -> None:
    """Serve until SIGTERM."""
    with Queue(address(sys.argv[1] if len(sys.argv) > 1 else "8080")) as queue:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=queue.shutdown).start())
        queue.serve_forever()


if __name__ == "__main__":
    main()
