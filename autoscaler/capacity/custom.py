"""The kinds of ours that several parts of capacity read and write, as the API server serves them."""

from typing import Final

from autoscaler.api import resources
from autoscaler.kube import kinds

POOLS: Final = kinds.custom(resources.InstancePool)
ACCOUNTS: Final = kinds.custom(resources.ProviderAccount)
MACHINES: Final = kinds.custom(resources.Machine)
SCOPES: Final = kinds.custom(resources.Scope)
