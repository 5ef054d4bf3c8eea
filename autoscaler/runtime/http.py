"""Health, metrics and plans over HTTP: /healthz, /readyz, /metrics, /plan. It answers from memory and asks nobody."""

import contextlib
from collections.abc import AsyncGenerator

import msgspec
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

    async def plan(_: web.Request) -> web.Response:
        if running.waits_for is not None:
            return _verdict([running.waits_for], "not started")
        return web.json_response(body=msgspec.json.encode(await running.plans.document()))

    pages = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics, "/plan": plan}
    application = web.Application()
    application.add_routes([web.get(path, page) for path, page in pages.items()])
    return application


def _verdict(problems: list[str], what: str) -> web.Response:
    if problems:
        return web.Response(status=503, text="".join(f"{what}: {problem}\n" for problem in problems))
    return web.Response(text="ok\n")
