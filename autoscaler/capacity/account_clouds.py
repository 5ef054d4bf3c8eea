"""From a ProviderAccount to its cloud, with the credentials that its Secret holds now. No message holds a value."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec

from autoscaler.api.resources.accounts import ProviderAccountSpec, SecretRef
from autoscaler.cloud import port as cloud
from autoscaler.cloud import providers
from autoscaler.kube import kinds, port

_FORBIDDEN: Final = 403


class _Secret(msgspec.Struct, frozen=True):
    data: Mapping[str, str] | None = None


_SECRET: Final = msgspec.json.Decoder(_Secret)


async def open_cloud(api: port.Api, cluster: str, name: str, spec: ProviderAccountSpec) -> cloud.Cloud:
    """Return the cloud of an account; raise CloudError if its credentials cannot be read or are of no use."""
    secret = await _read(api, name, spec.credentials.secret_ref) if spec.credentials is not None else None
    return providers.open_cloud(providers.Order(spec=spec, cluster=cluster, secret=secret))


async def _read(api: port.Api, name: str, ref: SecretRef) -> dict[str, bytes]:
    where = f"Secret {ref.name} in namespace {ref.namespace}, which ProviderAccount {name} names,"
    request = port.Request(method="GET", path=kinds.SECRETS.path(ref.name, ref.namespace))
    try:
        found = _SECRET.decode(port.required(await api.send(request)))
        return {key: base64.b64decode(text) for key, text in (found.data or {}).items()}
    except port.NotFoundError:
        raise _denied(f"{where} is not there: create it") from None
    except port.ApiError as error:
        if error.status != _FORBIDDEN:
            raise cloud.CloudError(cloud.Reason.UNREACHABLE, f"{where} could not be read: {error}") from error
        advice = f"add {ref.namespace} to autoscaler.secretNamespaces of the stack"
        raise _denied(f"{where} may not be read: {advice}") from None
    except port.KubeError as error:
        raise cloud.CloudError(cloud.Reason.UNREACHABLE, f"{where} could not be read: {error}") from error
    except (msgspec.MsgspecError, binascii.Error):
        raise _denied(f"{where} makes no sense: create it anew") from None  # the error's text may quote it


def _denied(message: str) -> cloud.CloudError:
    return cloud.CloudError(cloud.Reason.DENIED, message)
