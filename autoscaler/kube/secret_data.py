"""What a Secret holds, read by name. Nothing is kept, and no message ever holds a value."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec

from autoscaler.kube import kinds, objects, port


class MalformedSecretError(Exception):
    """The Secret is there and makes no sense."""


class _Secret(msgspec.Struct, frozen=True):
    data: Mapping[str, str] | None = None


_DECODER: Final = msgspec.json.Decoder(_Secret)


async def read(api: port.Api, key: objects.Key) -> dict[str, bytes]:
    """Return a Secret's data; raise KubeError if it cannot be read, MalformedSecretError if it makes no sense."""
    body = await port.get(api, kinds.SECRETS.path(key.name, key.namespace))
    try:
        return {name: base64.b64decode(text) for name, text in (_DECODER.decode(body).data or {}).items()}
    except (msgspec.MsgspecError, binascii.Error):
        message = f"Secret {key.name} in namespace {key.namespace} makes no sense: create it anew"
        raise MalformedSecretError(message) from None  # the error's own text may quote the Secret
