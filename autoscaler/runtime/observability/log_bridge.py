"""Lines that libraries and the interpreter write, as events of our own log: one JSON object each, like all others.

Libraries log by the standard module; warnings and uncaught exceptions are plain text on standard error. Here all of
them become structlog events. Of libraries only warnings and worse are shown: boto's finer lines hold signed headers.
"""

import logging
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

log = structlog.get_logger()
LEAST: Final = logging.WARNING
"""Of what others log."""
_LEVELS: Final = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def install() -> None:
    """Send everything that is not ours through structlog, from now on and for the whole process."""
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(LEAST)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _thread_failed


class _Bridge(logging.Handler):
    """Turns a record of the standard module into an event. asyncio's unhandled exceptions come this way too."""

    def emit(self, record: logging.LogRecord) -> None:
        level = next((each for each in _LEVELS if each <= record.levelno), logging.DEBUG)
        log.log(level, "library_logged", logger=record.name, message=_message(record), exc_info=record.exc_info)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  # arguments that do not fit the text: a library's mistake is no reason to lose it
        return str(record.msg)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    log.critical("uncaught_exception", error=repr(error), exc_info=(kind, error, trace))


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None:
        return
    name = failed.thread.name if failed.thread is not None else None
    error = failed.exc_value
    log.error("thread_failed", thread=name, error=repr(error), exc_info=(type(error), error, failed.exc_traceback))


def _unraisable(ignored: "UnraisableHookArgs") -> None:
    """Tell of an exception that nobody can catch, as in a destructor."""
    error = ignored.exc_value
    what = ignored.err_msg or "Exception ignored in"
    told = (type(error), error, ignored.exc_traceback) if error is not None else None
    log.error("exception_ignored", where=f"{what} {ignored.object!r}", error=repr(error), exc_info=told)
