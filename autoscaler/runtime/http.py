"""Health and metrics over HTTP: /healthz, /readyz, /metrics. It answers from memory and never asks anybody."""

import contextlib
from collections.abc import AsyncGenerator

from aiohttp import web

from autoscaler.runtime import process


@contextlib.asynccontextmanager
async def serve(running: process.Process, host: str, port: int) -> AsyncGenerator[None, None]:
    """Serve while the block runs."""
    runner = web.AppRunner(_application(running), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


def _application(running: process.Process) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        return _verdict(running.dead(), "ended unexpectedly")

    async def readyz(_: web.Request) -> web.Response:
        return _verdict(running.unready(), "not synced")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=running.metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return application


def _verdict(problems: list[str], what: str) -> web.Response:
    if problems:
        return web.Response(status=503, text="".join(f"{what}: {problem}\n" for problem in problems))
    return web.Response(text="ok\n")
