"""A TCP relay on loopback, to be put between a client and a server: it can delay, hold back and cut."""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

_CHUNK = 65536


class Relay:
    """Hands bytes through to a port of this computer."""

    def __init__(self, port: int) -> None:
        self.delay_seconds = 0.0
        self._target = ("127.0.0.1", port)
        self._open = threading.Event()
        self._open.set()
        self._pairs: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Pass nothing on, and say nothing either, until `go_on`."""
        self._open.clear()

    def go_on(self) -> None:
        """Pass on what was held back, and all that follows."""
        self._open.set()

    def cut(self) -> None:
        """Close all connections; new ones are accepted."""
        for connection in list(self._pairs):
            _close(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _close(self._listener)
        self.go_on()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target, timeout=5)
                except OSError:
                    _close(near)
                    continue
                far.settimeout(None)
                self._pairs |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if self.delay_seconds:
                    time.sleep(self.delay_seconds)
                self._open.wait()
                sink.sendall(chunk)
        for connection in (source, sink):
            self._pairs.discard(connection)
            _close(connection)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
