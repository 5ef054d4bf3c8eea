"""What the runtime gives controllers to stand on: plans without holding up the loop, and one watch per kind."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from autoscaler.kube import kinds, objects, reflector, store

T = TypeVar("T", bound=objects.Stored)
R = TypeVar("R")


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan in a thread, so that health checks, watches and deadlines go on meanwhile.

    The thread is a daemon: a plan that takes long must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    planned: asyncio.Future[R] = loop.create_future()

    def work() -> None:
        try:
            settle = partial(_settle, planned, function(*arguments), None)
        except Exception as error:  # noqa: BLE001  # it belongs to whoever waits for the plan
            settle = partial(_settle, planned, None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=work, name="planning", daemon=True).start()
    return await planned


def _settle(planned: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if planned.done():  # nobody waits any more
        return
    if error is None:
        planned.set_result(result)
    else:
        planned.set_exception(error)


async def inline(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan on the spot: in virtual time a plan takes no time."""
    return function(*arguments)


class Watches:
    """The watches of this process: one for each kind and namespace, however many controllers read it."""

    def __init__(self, start: Callable[..., reflector.Reflector[Any]]) -> None:
        self._start = start
        self._tables: dict[tuple[str, str | None], store.Table[Any]] = {}
        self.reflectors: dict[tuple[str, str | None], reflector.Reflector[Any]] = {}

    def table(
        self,
        resource: kinds.ResourceType,
        decode: Callable[[bytes | msgspec.Raw], T],
        namespace: str | None = None,
    ) -> store.Table[T]:
        """Return the table of a kind; the first call starts its watch."""
        place = (resource.collection(), namespace)
        if place not in self._tables:
            self._tables[place] = store.Table()
            self.reflectors[place] = self._start(resource, self._tables[place], decode, namespace=namespace)
        return self._tables[place]
