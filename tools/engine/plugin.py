"""A plugin process of the engine: one gRPC server on loopback, the port on the first line, ended by the engine.

Used by the language host and by the stand-in providers; it knows nothing of what they serve.
"""

import concurrent.futures
import os
import signal
import sys
import threading
from collections.abc import Callable

import grpc  # type: ignore[import-untyped]
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

THREADS = 64  # the engine asks for as much at once as its --parallel allows, and waits block a thread each
PARENT_POLL_SECONDS = 1.0


def serve(register: Callable[[grpc.Server], None]) -> None:
    """Serve until the engine interrupts or is gone; what is printed from then on goes to stderr."""
    parent = os.getppid()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(max_workers=THREADS),
        options=[*_GRPC_CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)],
    )
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _announce(port)
    while not ended.wait(PARENT_POLL_SECONDS):
        if os.getppid() != parent:  # the engine died without a word
            break
    server.stop(grace=None)
    sys.stderr.flush()
    os._exit(0)  # threads in a wait would hold the process back for minutes


def _announce(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
