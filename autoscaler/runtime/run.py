"""`python -m autoscaler run`: a process on a real cluster, from the command line to its exit code."""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Mapping

import structlog

from autoscaler import clock
from autoscaler.kube import client, credentials, port
from autoscaler.runtime import compatibility, controllers, http, leadership, process, settings, telemetry

log = structlog.get_logger()


def run(chosen: settings.Settings, known: Mapping[str, process.Registration]) -> int:
    """Run until told to stop; return the exit code."""
    telemetry.configure_logging(chosen.log_level)
    try:
        asyncio.run(_run(chosen, {name: known[name] for name in chosen.controllers}))
    except (credentials.CredentialsError, compatibility.IncompatibleError, port.KubeError) as error:
        log.error("cannot_run", error=str(error))  # noqa: TRY400  # the message says it all
        return 1
    return 0


async def _run(chosen: settings.Settings, registrations: Mapping[str, process.Registration]) -> None:
    time = clock.SystemClock()
    # Replicas share an identity, and a restarted container its pod's name, but only one process holds a Lease.
    holder = f"{chosen.identity}_{chosen.pod_name}_{secrets.token_hex(4)}"
    make = leadership.elector_maker(time, namespace=chosen.namespace, identity=holder, terms=chosen.terms)
    async with contextlib.aclosing(await client.Client.connect(chosen.origin)) as api:
        around = process.Surroundings(
            api=api,
            clock=time,
            leadership=leadership.InThread(chosen.origin, make),
            plan=controllers.in_thread,
            namespace=chosen.namespace,
            identity=chosen.identity,
            observe=chosen.observe,
        )
        running = process.Process(around, registrations)
        async with http.serve(running, chosen.listen_host, chosen.listen_port):
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
