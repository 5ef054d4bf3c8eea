"""A state without what belongs to one machine or one run. Pure: a state and what is foreign in it, in; a state out.

Addresses, certificates and paths become fixed ones, also inside base64, as user data is. Times and the program's lines
go. Secrets become a word that says so, in plain: whoever imports the state encrypts it anew.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""The key by which a state marks values that are not plain JSON."""
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the state's mark of a secret
SCRUBBED: Final = "scrubbed"
TIME: Final = "2026-01-01T00:00:00Z"
_TIMES: Final = frozenset({"created", "modified", "creationTimestamp", "time"})
_POSITIONS: Final = frozenset({"sourcePosition", "stackTrace"})
"""Of a resource: which line made it, on which machine."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def scrubbed(state: Mapping[str, Any], foreign: Mapping[str, str]) -> dict[str, Any]:
    """Return a state, exported with its secrets shown, with everything foreign replaced by what it is mapped to."""
    deployment = {
        name: value for name, value in state["deployment"].items() if name not in {"secrets_providers", "metadata"}
    }
    deployment["manifest"] = {"time": TIME, "magic": "", "version": ""}
    deployment["resources"] = [
        {name: value for name, value in resource.items() if name not in _POSITIONS}
        for resource in deployment["resources"]
    ]
    clean: dict[str, Any] = _clean(deployment, foreign)
    return {"version": state["version"], "deployment": clean}


def _clean(value: Any, foreign: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    match value:
        case Mapping() if value.get(SIGNATURE) == SECRET:
            return {SIGNATURE: SECRET, "plaintext": json.dumps(_hidden(json.loads(value["plaintext"])))}
        case Mapping():
            return {name: TIME if _is_time(name, one) else _clean(one, foreign) for name, one in value.items()}
        case list():
            return [_clean(one, foreign) for one in value]
        case str():
            return _replaced(value, foreign)
        case _:
            return value


def _hidden(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Keep a secret's shape and no text of it."""
    match value:
        case Mapping():
            return {name: _hidden(one) for name, one in value.items()}
        case list():
            return [_hidden(one) for one in value]
        case str():
            return SCRUBBED
        case _:
            return value


def _is_time(name: str, value: Any) -> bool:  # noqa: ANN401 - JSON
    return name in _TIMES and isinstance(value, str)


def _replaced(text: str, foreign: Mapping[str, str]) -> str:
    for name, stand_in in foreign.items():
        text = text.replace(name, stand_in)
    return _recoded(text, foreign) if _BASE64.fullmatch(text) else text


def _recoded(text: str, foreign: Mapping[str, str]) -> str:
    """Replace inside what is base64 of a text; anything else stays as it is."""
    try:
        inner = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text
    replaced = _replaced(inner, foreign)
    return text if replaced == inner else base64.b64encode(replaced.encode()).decode()
