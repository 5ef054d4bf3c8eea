"""A web server that does what it is told, byte by byte, however rude: aiohttp's own server would be too polite."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

Headers = Mapping[str, str]
Write = Callable[[bytes], Awaitable[None]]
Handler = Callable[[Headers, Write], Awaitable[None]]


class HangUp(Exception):  # noqa: N818 - no error: a way to end
    """Close the connection now."""


@dataclass(kw_only=True)
class Server:
    """Answers each path by its handler; counts connections and remembers requests."""

    port: int = 0
    scheme: str = "http"
    handlers: dict[str, Handler] = field(default_factory=dict)
    connections: int = 0
    open_now: int = 0
    requests: list[tuple[str, Headers]] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1

        async def write(data: bytes) -> None:
            if reader.at_eof():
                raise HangUp
            writer.write(data)
            await writer.drain()

        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, HangUp):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                    path = head[0].split(" ")[1].partition("?")[0]
                    headers = dict(line.split(": ", 1) for line in head[1:] if line)
                    await reader.readexactly(int(headers.get("Content-Length", 0)))
                    self.requests.append((path, headers))
                    await self.handlers.get(path, page(b"", 404))(headers, write)
        finally:
            self.open_now -= 1
            writer.close()


@contextlib.asynccontextmanager
async def running(
    handlers: Mapping[str, Handler] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Listen on a free port until the block ends."""
    server = Server(scheme="https" if tls else "http", handlers=dict(handlers or {}))
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def page(body: bytes, status: int = 200, **headers: str) -> Handler:
    """Answer properly."""

    async def handler(_: Headers, write: Write) -> None:
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await write(f"HTTP/1.1 {status} X\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    return handler


def raw(*chunks: bytes) -> Handler:
    """Send these bytes and hang up."""

    async def handler(_: Headers, write: Write) -> None:
        for chunk in chunks:
            await write(chunk)
        raise HangUp

    return handler


async def silence(_: Headers, write: Write) -> None:
    """Never answer, until the other side hangs up."""
    while True:
        await write(b"")
        await asyncio.sleep(0.01)


def dripping(start: bytes, drop: bytes) -> Handler:
    """Send a drop now and then, for ever."""

    async def handler(_: Headers, write: Write) -> None:
        await write(start)
        while True:
            await write(drop)
            await asyncio.sleep(0.01)

    return handler


def endless(start: bytes, chunk: bytes) -> Handler:
    """Send as fast as is taken, for ever."""

    async def handler(_: Headers, write: Write) -> None:
        await write(start)
        while True:
            await write(chunk)

    return handler


def echo(status: int = 200) -> Handler:
    """Answer with the credential that was sent, everywhere it may stand."""

    async def handler(headers: Headers, write: Write) -> None:
        key = headers["Authorization"]
        text = f"HTTP/1.1 {status} {key}\r\nX-Key: {key}\r\nLocation: http://a.b/{key}\r\n"
        await write(f"{text}Content-Length: {len(key)}\r\n\r\n{key}".encode())

    return handler


def demanding(want: str, body: bytes) -> Handler:
    """Answer only to this Authorization."""

    async def handler(headers: Headers, write: Write) -> None:
        status = 200 if headers.get("Authorization") == want else 401
        await page(body, status)(headers, write)

    return handler
