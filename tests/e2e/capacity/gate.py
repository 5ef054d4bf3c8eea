"""A gate before AWS, on loopback: it lets in calls that a known key has signed, and remembers who asked for what.

It takes the key's name from a call's signature, which it does not check: moto would not either.
"""

import contextlib
import http.client
import http.server
import re
import threading
import urllib.parse
from collections.abc import Iterator

from tools.local.asg import asg_orders, asg_wire
from tools.local.asg.asg_orders import Trouble

_SIGNER = re.compile(r"Credential=([^/]+)/")
_PASSED_ON = ("Authorization", "Content-Type", "X-Amz-Date", "X-Amz-Target")


class Gate:
    """Who may pass, and who has."""

    def __init__(self, *keys: str) -> None:
        self.keys = set(keys)
        """The access key ids that are let in."""
        self.url = ""
        self.calls: list[tuple[str, asg_wire.Call]] = []
        """Each call that was let in, with the access key id that signed it."""
        self.refused: list[str] = []
        """The access key ids that were not let in."""

    def signers(self, action: str) -> dict[str, set[str]]:
        """Return who asked for an action, by Auto Scaling group."""
        found: dict[str, set[str]] = {}
        for key, call in list(self.calls):
            if call.action == action:
                found.setdefault(call.get("AutoScalingGroupName") or "", set()).add(key)
        return found


@contextlib.contextmanager
def opened(target: str, *keys: str) -> Iterator[Gate]:
    """Stand before an AWS until the block ends."""
    gate = Gate(*keys)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(gate, urllib.parse.urlsplit(target).netloc))
    gate.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def _handler(gate: Gate, target: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            signed = _SIGNER.search(self.headers.get("Authorization", ""))
            key, call = signed[1] if signed else "", asg_wire.call_of(dict(self.headers), body)
            if key not in gate.keys:
                gate.refused.append(key)
                said = asg_wire.refusal(call.service, asg_orders.REFUSALS[Trouble.DENY])
                self._answer(said.status, said.content_type, said.body)
                return
            gate.calls.append((key, call))
            self._forward(body)

        def _forward(self, body: bytes) -> None:
            headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            with contextlib.closing(http.client.HTTPConnection(target, timeout=30)) as connection:
                connection.request("POST", self.path, body, headers)
                answer = connection.getresponse()
                self._answer(answer.status, answer.headers["Content-Type"], answer.read())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
            """Say nothing."""

    return Handler
