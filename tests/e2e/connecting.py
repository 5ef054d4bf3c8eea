"""An HTTP proxy at a Unix socket that knows CONNECT alone: by it an API server reaches pods that are processes here."""

import contextlib
import http.server
import socket
import socketserver
import tempfile
import threading
from types import TracebackType
from typing import Any, Self

_CHUNK = 65536


class _Handler(http.server.BaseHTTPRequestHandler):
    """Takes every address for this computer: what is asked for is the port."""

    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        port = int(self.path.rpartition(":")[2])
        try:
            far = socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            self.send_error(502)
            return
        self.send_response(200)
        self.end_headers()
        far.settimeout(None)
        back = threading.Thread(target=_pass_on, args=(far, self.connection), daemon=True)
        back.start()
        _pass_on(self.connection, far)
        back.join()
        far.close()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the base class calls it so
        """Say nothing."""


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Proxy:
    """A proxy in threads of its own, for as long as a block runs."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()  # the path of a socket must be short
        self.socket = f"{self._directory.name}/proxy"
        self._server = _Server(self.socket, _Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._directory.cleanup()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
