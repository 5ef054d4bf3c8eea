"""The prometheus source on Debian's Prometheus, which scrapes a queue of ours."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yarl

from autoscaler.queues import port, sources, web
from tests.autoscaler.queues import contract
from tests.e2e.queues import servers
from tools import debian
from tools.local import ports

QUERY = 'sum(jobs_waiting{queue="a"})'
CONFIG = """
global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}
scrape_configs:
  - job_name: queue
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.fixture(scope="module")
def program() -> Path:
    return debian.program(debian.PROMETHEUS, os.environ, print)


@contextlib.asynccontextmanager
async def prometheus(program: Path, directory: Path, scraped: int) -> AsyncIterator[str]:
    """Run Prometheus in a directory of its own until the block ends."""
    [number] = ports.free(1)
    config = directory / "prometheus.yml"
    config.write_text(CONFIG.format(port=scraped))
    log = (directory / "log").open("wb")
    process = subprocess.Popen(  # noqa: ASYNC220 - it runs beside us
        [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{number}",
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        yield f"http://127.0.0.1:{number}"
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def metrics(value: float) -> servers.Handler:
    text = f'jobs_waiting{{queue="a"}} {value}\njobs_waiting{{queue="b"}} 1\n'
    return servers.page(text.encode(), Content_Type="text/plain; version=0.0.4")


async def until_scraped(url: str, value: float) -> None:
    """Wait until Prometheus itself tells the value."""
    want = f',"{value:g}"]'.encode()
    asked = yarl.URL(url).with_path("/api/v1/query").with_query(query=QUERY)
    async with asyncio.timeout(30), contextlib.aclosing(web.Web(contract.DEVELOPMENT)) as getter:
        while True:
            with contextlib.suppress(port.QueueError):  # it starts
                if want in (await getter.get(asked, {}, namespace="jobs")).body:
                    return
            await asyncio.sleep(0.05)


@pytest.fixture
def world(program: Path, tmp_path: Path) -> contract.Opener:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[contract.World]:
        async with (
            servers.running({"/metrics": metrics(0)}) as server,
            prometheus(program, tmp_path, server.port) as url,
            contextlib.aclosing(sources.Sources.open(contract.DEVELOPMENT)) as shared,
        ):
            await until_scraped(url, 0)
            queries = {
                port.Reason.NOT_ONE_VALUE: "jobs_waiting",
                port.Reason.FAILED: "sum(",
                port.Reason.NEGATIVE: "vector(-1)",
                port.Reason.NOT_A_NUMBER: "1 / 0",
                port.Reason.TOO_LARGE: "1e12",
            }
            query = QUERY

            async def hold(value: int) -> None:
                server.handlers["/metrics"] = metrics(value)
                await until_scraped(url, value)

            async def break_(reason: port.Reason) -> None:
                nonlocal query
                query = queries[reason]

            def queue() -> port.Queue:
                source = contract.source("prometheus", url, query=query)
                return shared.queue(source, namespace="jobs", secret=contract.SECRET)

            yield contract.World(queue=queue, hold=hold, break_=break_, breaks=tuple(queries))

    return opened


@pytest.mark.accept("W21")
def test_the_length_is_told(world: contract.Opener) -> None:
    asyncio.run(contract.check_numbers(world))


@pytest.mark.accept("W21")
def test_failures_are_errors(world: contract.Opener) -> None:
    asyncio.run(contract.check_failures(world))


WANT: dict[str, int | port.Reason] = {
    "42": 42,
    "vector(7)": 7,
    'jobs_waiting{queue="a"}': 3,
    'sum(jobs_waiting{queue="none"}) or vector(0)': 0,
    'sum(jobs_waiting{queue="none"})': port.Reason.NOT_ONE_VALUE,
    'jobs_waiting{queue="a"}[1m]': port.Reason.NOT_ONE_VALUE,
    '"text"': port.Reason.NOT_ONE_VALUE,
    "0 / 0": port.Reason.NOT_A_NUMBER,
    "0.5": port.Reason.NOT_A_NUMBER,
    "ceil(vector(0.5))": 1,
}


@pytest.mark.accept("W21")
def test_each_kind_of_query_means_what_it_says(program: Path, tmp_path: Path) -> None:
    async def read(shared: sources.Sources, url: str, query: str) -> int | port.Reason:
        source = contract.source("prometheus", url, query=query)
        try:
            return await shared.queue(source, namespace="jobs", secret=contract.SECRET).length()
        except port.QueueError as error:
            return error.reason

    async def act() -> None:
        async with (
            servers.running({"/metrics": metrics(3)}) as server,
            prometheus(program, tmp_path, server.port) as url,
            contextlib.aclosing(sources.Sources.open(contract.DEVELOPMENT)) as shared,
        ):
            await until_scraped(url, 3)
            assert {query: await read(shared, url, query) for query in WANT} == WANT

    asyncio.run(act())
