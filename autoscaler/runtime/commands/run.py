"""`python -m autoscaler run`: a process on a real cluster, from the command line to its exit code."""

import asyncio
import contextlib
import gc
import secrets
import signal
from collections.abc import Callable, Mapping

import structlog

from autoscaler import clock
from autoscaler.kube import port
from autoscaler.kube.connection import client, credentials
from autoscaler.runtime import compatibility, http, leadership, planning, process, registry, settings
from autoscaler.runtime.observability import log_bridge, telemetry

log = structlog.get_logger()

YOUNG_OBJECTS = 50_000
"""How many new objects make Python look for cycles among them: the default, 700, is a look for every few pods read."""

Assemble = Callable[[settings.Settings], Mapping[str, process.Registration]]
"""Puts the controllers together that these settings ask for."""


def run(chosen: settings.Settings, assemble: Assemble) -> int:
    """Run the controllers until told to stop; return the exit code."""
    telemetry.configure_logging(chosen.log_level)
    log_bridge.install()
    gc.freeze()  # what was imported stays; collections need not look at it
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        asyncio.run(_run(chosen, assemble(chosen)))
    except (credentials.CredentialsError, compatibility.IncompatibleError, port.KubeError) as error:
        log.error("cannot_run", error=str(error))  # noqa: TRY400  # the message says it all
        return 1
    return 0


async def _run(chosen: settings.Settings, registrations: Mapping[str, process.Registration]) -> None:
    time = clock.SystemClock()
    make = leadership.elector_maker(
        time,
        namespace=chosen.namespace,
        identity=leadership.holder_of(chosen.identity, chosen.pod_name, secrets.token_hex(4)),
        terms=chosen.terms,
        elsewhere=registry.lease_namespaces(registrations),
    )
    async with contextlib.aclosing(await client.Client.connect(chosen.origin)) as api:
        around = process.Surroundings(
            api=api,
            clock=time,
            leadership=leadership.InThread(chosen.origin, make),
            plan=planning.in_thread,
            namespace=chosen.namespace,
            identity=chosen.identity,
            observe=chosen.observe,
            api_server=api.server,
            cluster=chosen.cluster or "",
        )
        running = process.Process(around, registrations)
        async with http.serve(running, *chosen.listen):
            await _until_stopped(running)


async def _until_stopped(running: process.Process) -> None:
    task = asyncio.create_task(running.run())
    told = asyncio.Event()

    def stop() -> None:
        told.set()
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not told.is_set():  # nobody told us to stop: something is broken
            raise
