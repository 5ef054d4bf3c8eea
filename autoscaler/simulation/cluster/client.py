"""One identity's connection to the simulated API server: the kube port, with the faults that were asked for."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import assert_never

from autoscaler.kube import port
from autoscaler.simulation.cluster import failures, faults
from autoscaler.simulation.cluster.server import Server


class Client:
    """Implements `port.Api`."""

    def __init__(self, server: Server, trouble: faults.Faults, *, username: str, latency_seconds: float) -> None:
        self.username = username
        self._server = server
        self._faults = trouble
        self._latency_seconds = latency_seconds

    async def send(self, request: port.Request) -> port.Response:
        """Carry a request to the server and its answer back, through whatever goes wrong on the way."""
        await self._faults.until_thawed(self.username)
        delay, is_lost, instead = self._latency_seconds, False, None
        for effect in self._faults.next(request.method, request.path, self.username):
            match effect:
                case faults.Refuse():
                    raise port.UnreachableError(f"{request.method} {request.path}: connection refused")
                case faults.Delay(seconds=seconds):
                    delay += seconds
                case faults.LoseAnswer():
                    is_lost = True
                case faults.Answer():
                    instead = effect.refusal().response()
                case _:
                    assert_never(effect)
        await self._travel(request, delay)
        await self._faults.until_thawed(self.username)
        response = instead or self._server.handle(request, self.username)
        if is_lost:
            raise port.UnreachableError(f"{request.method} {request.path}: the connection broke before the answer")
        return response

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield a watch's events in batches until the server ends it or the connection breaks."""
        await self._faults.until_thawed(self.username)
        self._meet_watch_faults(path)
        await asyncio.sleep(self._latency_seconds)
        try:
            watch = self._server.watch(path, query, lag_seconds=self._faults.watch_lag_seconds)
        except failures.Refusal as refusal:
            response = refusal.response()
            raise port.error_of(response.status, response.body, response.retry_after_seconds) from refusal
        self._faults.opened(watch, self.username)
        try:
            yield ()
            while (batch := await watch.batch()) is not None:
                await self._faults.until_thawed(self.username)
                yield batch
        finally:
            watch.close()
            self._faults.closed(watch)

    async def _travel(self, request: port.Request, delay: float) -> None:
        """Let time pass; a request that takes too long is given up, and reaches the server all the same."""
        if delay <= request.timeout_seconds:
            await asyncio.sleep(delay)
            return
        late = delay - request.timeout_seconds
        await asyncio.sleep(request.timeout_seconds)
        asyncio.get_running_loop().call_later(late, self._server.handle, request, self.username)
        raise port.UnreachableError(f"{request.method} {request.path}: no answer in {request.timeout_seconds:g} s")

    def _meet_watch_faults(self, path: str) -> None:
        for effect in self._faults.next(faults.WATCH, path, self.username):
            if isinstance(effect, faults.Answer):
                response = effect.refusal().response()
                raise port.error_of(response.status, response.body, response.retry_after_seconds)
            raise port.UnreachableError(f"watching {path}: connection refused")
