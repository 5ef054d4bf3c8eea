"""What counts as a number of waiting jobs: a whole one, from 0 to the largest the API knows. Pure.

Nobody guesses here: a string, a fraction, true or null is an error, for a wrong guess starts or withholds instances.
"""

from typing import Final

import msgspec

from autoscaler.queues import port

MAX: Final = 2**31 - 1
_BOM: Final = b"\xef\xbb\xbf"


def from_body(body: bytes, *, field: str | None, where: str) -> int:
    """Read a bare number, or the field of a JSON document that a dotted path names."""
    try:
        document = msgspec.json.decode(body.removeprefix(_BOM).strip())
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        what = "a number" if field is None else "a JSON document"
        raise _not_a_number(where, f"is not {what}") from error
    return checked(document if field is None else _field(document, field, where), where=where)


def from_text(text: str, *, where: str) -> int:
    """Read a number written as Prometheus writes one."""
    try:
        value = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        raise _not_a_number(where, "is not a number")
    return checked(value, where=where)


def checked(value: object, *, where: str) -> int:
    """Return a whole number that can be a queue's length, or raise QueueError that says what is wrong with it."""
    match value:
        case bool():
            raise _not_a_number(where, "is true or false")
        case int():
            return _in_range(value, where)
        case float() if value.is_integer():
            return _in_range(int(value), where)
        case float():
            raise _not_a_number(where, f"is {value:g}, and jobs are counted in whole numbers")
        case dict() | list():
            raise _not_a_number(where, "is a JSON document: name the field that holds the number")
        case _:
            raise _not_a_number(where, "is text or null")


def _in_range(value: int, where: str) -> int:
    if value < 0:
        raise port.QueueError(port.Reason.NEGATIVE, f"{where} is negative: a queue holds 0 jobs or more")
    if value > MAX:
        raise port.QueueError(port.Reason.TOO_LARGE, f"{where} is more than {MAX}: that cannot be a number of jobs")
    return value


def _field(document: object, path: str, where: str) -> object:
    """Walk down a dotted path; a step of digits counts the items of a list, from 0."""
    for step in path.split("."):
        match document:
            case dict() if step in document:
                document = document[step]
            case list() if step.isascii() and step.isdecimal() and len(step) < 10 and int(step) < len(document):
                document = document[int(step)]
            case _:
                raise _not_a_number(where, f"has no field {path!r} (nothing at {step!r})")
    return document


def _not_a_number(where: str, what: str) -> port.QueueError:
    return port.QueueError(port.Reason.NOT_A_NUMBER, f"{where} {what}; it must be one whole number, 0 or more")
