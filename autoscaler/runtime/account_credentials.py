"""From a ProviderAccount to its cloud, with the credentials that its Secret holds now. No message holds a value."""

from autoscaler.api.resources.accounts import ProviderAccountSpec, SecretRef
from autoscaler.cloud import port as cloud
from autoscaler.cloud import providers
from autoscaler.cloud.aws import ec2_accounts
from autoscaler.kube import objects, port
from autoscaler.kube.reading import secret_data


async def open_cloud(api: port.Api, cluster: str, name: str, spec: ProviderAccountSpec) -> cloud.Cloud:
    """Return the cloud of an account; raise CloudError if its credentials cannot be read or are of no use."""
    secret = await _read(api, name, spec.credentials.secret_ref) if spec.credentials is not None else None
    return providers.open_cloud(spec, cluster=cluster, secret=secret)


async def _read(api: port.Api, name: str, ref: SecretRef) -> dict[str, bytes]:
    holding = f"keys {ec2_accounts.ACCESS_KEY_ID} and {ec2_accounts.SECRET_ACCESS_KEY}"
    try:
        return await secret_data.read(api, objects.Key(ref.namespace, ref.name), holding=holding)
    except secret_data.SecretError as error:
        is_passing = isinstance(error, secret_data.UnansweredSecretError)
        reason = cloud.Reason.UNREACHABLE if is_passing else cloud.Reason.DENIED
        raise cloud.CloudError(reason, f"ProviderAccount {name} has no credentials: {error}") from error
