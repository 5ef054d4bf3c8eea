"""An event loop that never waits: when nothing is ready it jumps to the next timer, so that a day passes in seconds.

There is no I/O and there are no threads: what would need either is refused, and `asyncio.to_thread` runs inline. Timers
of one moment fire in the order in which they were set, whatever other timers there are. So a run is always the same.
"""

import asyncio
import concurrent.futures
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

START: Final = 1_767_225_600.0
"""When simulations begin unless told otherwise: 2026-01-01T00:00:00Z."""

STEPS_PER_INSTANT: Final = 2_000_000
"""More steps than any honest work takes without time passing; beyond them tasks wake each other for ever."""

RESOLUTION: Final = 1e-6
"""What is due so soon is due now: far above a rounding error, even after years."""

CANCELLED_MAX: Final = 1000
"""So many cancelled timers may wait among the others."""


class DeadlockError(Exception):
    """Every task waits for another one, and no timer is left that could wake any."""


class LivelockError(Exception):
    """Tasks keep waking each other and time does not pass."""


class VirtualClock:
    """Tells the simulation's wall-clock time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float = START) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        return self._start + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


def clock() -> VirtualClock:
    """Return the wall clock of the virtual loop that runs."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError(f"virtual time needs a virtual loop, and {type(loop).__name__} runs: use virtual_time.run")
    return loop.wall_clock


def run(coroutine: Coroutine[Any, Any, T], *, start: float = START) -> T:
    """Run a coroutine to its end in virtual time that begins at `start`, in seconds since the epoch."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start=start)) as runner:
        try:
            return runner.run(coroutine)
        except RuntimeError as error:
            loop = runner.get_loop()
            if isinstance(loop, VirtualLoop) and loop.accident is not None:
                raise loop.accident from error
            raise


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time. asyncio offers no other way to make one than to inherit."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, *, start: float = START) -> None:
        super().__init__()
        self.wall_clock: Final = VirtualClock(self, start)
        self._now = 0.0
        self._steps = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        self._timers_cancelled = 0
        self.accident: BaseException | None = None
        """What a callback raised: the simulated world itself is broken, and the run ends with it."""
        self.set_exception_handler(_stop_at_accident)

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]  # the library's own stub differs from itself here
        self,
        executor: concurrent.futures.Executor | None,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401
    ) -> asyncio.Future[T]:
        """Call the function now: a thread would finish at a moment that no seed decides."""
        if executor is not None:
            raise RuntimeError("a simulation has no executors: threads would make it non-deterministic")
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's, and reaches them through the future
            future.set_exception(error)
        return future

    def call_at(  # type: ignore[override]  # the library's stub names what it cannot tell
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001  # as asyncio does: it has not fired
        return timer

    def call_later(  # type: ignore[override]  # the library's stub names what it cannot tell
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer, without what asyncio does besides for those who debug."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(  # type: ignore[override]  # the library's stub names what it cannot tell
        self,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Call it in the next step, likewise."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def timers_waiting(self) -> int:
        """Count the timers that have not fired, those that were cancelled meanwhile included."""
        return len(self._timers)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Drop cancelled timers once there are many, as asyncio does: some would wait for a day."""
        self._timers_cancelled += handle._scheduled  # type: ignore[attr-defined]  # noqa: SLF001
        if self._timers_cancelled > max(CANCELLED_MAX, len(self._timers) // 2):
            self._timers = [each for each in self._timers if not each[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, go on to the next timer. asyncio calls this again and again."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not ready and not self._stopping:
            self._jump()
        self._count_step()
        while timers and timers[0][0] < self._now + RESOLUTION:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001  # as asyncio does

    def _jump(self) -> None:
        """Let time pass until the next timer."""
        if not self._timers:
            raise DeadlockError(f"no timer is left and every task waits for another: {_tasks()}")
        when = self._timers[0][0]
        if when > self._now:
            self._now, self._steps = when, 0

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > STEPS_PER_INSTANT:
            self._steps = 0  # what is left must be able to clean up
            raise LivelockError(f"{STEPS_PER_INSTANT} steps without time passing among: {_tasks()}")

    def _write_to_self(self) -> None:
        """The loop never sleeps, so there is nothing to wake it from."""


def _stop_at_accident(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End the run if a timer's callback failed; nobody else would ever hear of it."""
    error = context.get("exception")
    if "handle" in context and isinstance(loop, VirtualLoop) and isinstance(error, BaseException):
        loop.accident = error
        loop.stop()
    else:
        loop.default_exception_handler(context)


def _tasks() -> str:
    return ", ".join(sorted(f"{task.get_name()} ({_place(task)})" for task in asyncio.all_tasks()))


def _place(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    return f"{frames[0].f_code.co_qualname}:{frames[0].f_lineno}" if frames else "done"
