"""What a Secret holds, read by name. Nothing is kept, and no message ever holds a value."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec

from autoscaler.kube import kinds, objects, port

_FORBIDDEN: Final = 403


class SecretError(Exception):
    """The Secret is not there or may not be read; the message says what to do."""


class UnansweredSecretError(SecretError):
    """Nobody could tell what it holds; it may be read another time."""


class MalformedSecretError(SecretError):
    """The Secret is there and makes no sense."""


class _Secret(msgspec.Struct, frozen=True):
    data: Mapping[str, str] | None = None


_DECODER: Final = msgspec.json.Decoder(_Secret)


async def read(api: port.Api, key: objects.Key, *, holding: str) -> dict[str, bytes]:
    """Return a Secret's data; raise SecretError, with what it should hold, if it cannot be had."""
    where = f"Secret {key.name} in namespace {key.namespace}"
    try:
        body = await port.get(api, kinds.SECRETS.path(key.name, key.namespace))
        return {name: base64.b64decode(text) for name, text in (_DECODER.decode(body).data or {}).items()}
    except port.NotFoundError as error:
        raise SecretError(f"{where} is not there: create it with {holding}") from error
    except port.KubeError as error:
        if not isinstance(error, port.ApiError) or error.status != _FORBIDDEN:
            raise UnansweredSecretError(f"{where} could not be read: {error}") from error
        raise SecretError(
            f"{where} may not be read: a RoleBinding that lets the runtime read Secrets there is missing. "
            f"Add {key.namespace} to autoscaler.secretNamespaces of the stack"
        ) from error
    except (msgspec.MsgspecError, binascii.Error):  # its own text may quote the Secret
        raise MalformedSecretError(f"{where} makes no sense: create it anew") from None
