"""A ProviderAccount becomes a cloud. A third provider is one file beside this one and one line in `_MAKERS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api.resources import accounts
from autoscaler.cloud import ec2_accounts, ec2_autoscaling, port, static


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a cloud is made from."""

    spec: accounts.ProviderAccountSpec
    cluster: str
    """The cluster's name in the cloud, by which its groups are tagged."""
    secret: ec2_accounts.SecretData | None = None
    """What the Secret that the account names holds now; None: there is none."""


def open_cloud(order: Order) -> port.Cloud:
    """Return the cloud of an account; raise CloudError if its Secret is of no use. Nothing is sent yet.

    To be called within the event loop. Make a new one when the account or its Secret changes.
    """
    return _MAKERS[order.spec.provider](order)


def _aws(order: Order) -> port.Cloud:
    account = ec2_accounts.of_spec(order.spec, order.secret, cluster=order.cluster)
    return ec2_autoscaling.Ec2AutoScaling(account, cluster=order.cluster)


def _static(order: Order) -> port.Cloud:  # noqa: ARG001 - fixed nodes need nothing
    return static.Static()


_MAKERS: Final[Mapping[accounts.Provider, Callable[[Order], port.Cloud]]] = {
    accounts.Provider.AWS: _aws,
    accounts.Provider.STATIC: _static,
}
