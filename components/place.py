"""Where a cluster's resources live, and how they are marked as its own. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoscaler.api import keys

if TYPE_CHECKING:
    from components.config.reading import Stack

STACK_TAG: Final = f"{keys.PREFIX}stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster's place in AWS."""

    account: str
    partition: str
    """The part of AWS, as ARNs name it: aws, aws-cn and so on."""
    region: str
    cluster: str
    """The cluster's name in AWS, which begins the names of everything that is its own."""

    @classmethod
    def of(cls, stack: "Stack", key: str) -> "Place":
        """Return the place of one of the stack's clusters."""
        return cls(
            account=stack.config.account_id,
            partition=stack.partition,
            region=stack.region,
            cluster=stack.cluster_name(key),
        )

    @property
    def owned(self) -> dict[str, str]:
        """The tags by which AWS and the runtime know that something is this cluster's."""
        return {keys.cluster_tag(self.cluster): "owned"}

    def arn(self, service: str, resource: str) -> str:
        """Write the ARN of something in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"
