"""From a ProviderAccount to its cloud, with the credentials that its Secret holds now. No message holds a value."""

from typing import Final

from autoscaler.api.resources.accounts import ProviderAccountSpec, SecretRef
from autoscaler.cloud import port as cloud
from autoscaler.cloud import providers
from autoscaler.kube import objects, port, secret_data

_FORBIDDEN: Final = 403


async def open_cloud(api: port.Api, cluster: str, name: str, spec: ProviderAccountSpec) -> cloud.Cloud:
    """Return the cloud of an account; raise CloudError if its credentials cannot be read or are of no use."""
    secret = await _read(api, name, spec.credentials.secret_ref) if spec.credentials is not None else None
    return providers.open_cloud(spec, cluster=cluster, secret=secret)


async def _read(api: port.Api, name: str, ref: SecretRef) -> dict[str, bytes]:
    where = f"Secret {ref.name} in namespace {ref.namespace}, which ProviderAccount {name} names,"
    try:
        return await secret_data.read(api, objects.Key(ref.namespace, ref.name))
    except port.NotFoundError:
        raise _denied(f"{where} is not there: create it") from None
    except port.ApiError as error:
        if error.status != _FORBIDDEN:
            raise cloud.CloudError(cloud.Reason.UNREACHABLE, f"{where} could not be read: {error}") from error
        advice = f"add {ref.namespace} to autoscaler.secretNamespaces of the stack"
        raise _denied(f"{where} may not be read: {advice}") from None
    except port.KubeError as error:
        raise cloud.CloudError(cloud.Reason.UNREACHABLE, f"{where} could not be read: {error}") from error
    except secret_data.MalformedSecretError as error:
        raise _denied(str(error)) from error


def _denied(message: str) -> cloud.CloudError:
    return cloud.CloudError(cloud.Reason.DENIED, message)
