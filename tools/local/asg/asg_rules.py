"""The ASG rules: a proxy before moto that keeps AWS's documented rules where moto does not. For tests.

with AsgRules.start(moto_url) as asg_rules:
    client = boto3.client("autoscaling", endpoint_url=asg_rules.url, ...)
    asg_rules.orders.withhold(zone="eu-west-1b", instance_type="m5.large")

It serves and troubles calls as ordered; `asg_judge` has what becomes of the others.
"""

import asyncio
import collections
import contextlib
import threading
from collections.abc import Iterator
from typing import Self

import aiohttp
from aiohttp import web

from tools.local.asg import asg_judge, asg_orders, asg_wire
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_orders import Trouble
from tools.local.asg.asg_wire import Answer

BODY_MAX = 16 * 1024**2


class AsgRules:
    """A server on loopback, in a thread of its own. Its orders may be given from any thread."""

    def __init__(self, moto_url: str, pace: Pace | None = None) -> None:
        self.orders = asg_orders.Orders()
        self.pace = pace or Pace()
        self.calls: collections.Counter[str] = collections.Counter()
        """How often each action was asked for."""
        self.seen: set[str] = set()
        """The actions that were asked for, as IAM names them: `autoscaling:SetDesiredCapacity`."""
        self.url = ""
        self._moto = moto_url.rstrip("/")
        self._started = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._judge: asg_judge.Judge | None = None

    @classmethod
    @contextlib.contextmanager
    def start(cls, moto_url: str, pace: Pace | None = None) -> "Iterator[Self]":
        """Serve until the block ends."""
        asg_rules = cls(moto_url, pace)
        thread = threading.Thread(target=asg_rules._run, name="asg_rules", daemon=True)
        thread.start()
        asg_rules._started.wait(timeout=10)
        if asg_rules._failure is not None:
            raise asg_rules._failure
        try:
            yield asg_rules
        finally:
            asg_rules._end()
            thread.join(timeout=10)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever started us
            self._failure = error
        finally:
            self._started.set()

    def _end(self) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            judge = self._judge = asg_judge.Judge(asg_judge.Moto(self._moto, session), self.orders, self.pace)
            application = web.Application(client_max_size=BODY_MAX)
            application.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            retrying = asyncio.create_task(judge.keep_trying())
            self._started.set()
            await self._stop.wait()
            retrying.cancel()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert self._judge is not None  # noqa: S101 - set before the site is
        body = await request.read()
        call = asg_wire.call_of(request.headers, body)
        self.calls[call.action] += 1
        self.seen.add(f"{call.service}:{call.action}")
        trouble = self.orders.next(call.action)
        if trouble in asg_orders.REFUSALS:
            return _response(asg_wire.refusal(call.service, asg_orders.REFUSALS[trouble]))
        if trouble is Trouble.HANG:
            await asyncio.sleep(self.pace.hang_seconds)
        if trouble in {Trouble.HANG, Trouble.LOSE_REQUEST}:
            return _cut(request)
        answer = await self._judge.answer(call, request, body)
        if trouble is Trouble.LOSE_ANSWER:
            return _cut(request)
        if trouble is Trouble.TRUNCATE:
            return await _half(request, answer)
        return _response(answer)


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


async def _half(request: web.Request, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
    response.content_length = len(answer.body)
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
