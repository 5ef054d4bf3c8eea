"""A ProviderAccount becomes a cloud. A third provider is one file beside this one and one case here."""

from autoscaler.api.resources import accounts
from autoscaler.cloud import port, static
from autoscaler.cloud.aws import ec2_accounts, ec2_autoscaling


def open_cloud(
    spec: accounts.ProviderAccountSpec, *, cluster: str, secret: ec2_accounts.SecretData | None = None
) -> port.Cloud:
    """Return the cloud of an account; raise CloudError if its Secret is of no use. Nothing is sent yet.

    The cluster's groups are tagged with its name. To be called within the event loop. Make a new one when the account
    or its Secret changes.
    """
    match spec.provider:
        case accounts.Provider.AWS:
            account = ec2_accounts.of_spec(spec, secret or {}, cluster=cluster)
            return ec2_autoscaling.Ec2AutoScaling(account, cluster=cluster)
        case accounts.Provider.STATIC:
            return static.Static()
