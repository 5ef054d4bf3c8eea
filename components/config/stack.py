"""The whole interface of a stack: everything under `sluice:` in stacks/Pulumi.<env>.yaml."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.pools import InstanceTypeName
from autoscaler.api.resources.types import DnsLabel
from components.config.base import AccountId, AwsTags, ImageId, Problem, RoleArn, Section, TopicArn, absent
from components.config.clusters import Cluster, ClusterKey

Email = Annotated[str, Field(max_length=254, pattern=r"^[^@\s]+@[^@\s]+$")]
KeyArn = Annotated[str, Field(max_length=2048, pattern=r"^arn:aws[a-z-]*:kms:[^*\s]+$")]
OidcProviderArn = Annotated[
    str, Field(max_length=2048, pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:oidc-provider/[^*\s]+$")
]
ContainerImage = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[a-z0-9][A-Za-z0-9._:/@-]*$")]
ImageName = Annotated[DnsLabel, Field(max_length=48)]
"""It begins the names of the pipeline's role, of which AWS allows 64 characters."""
REGION: Final = r"^[a-z]{2}(-[a-z]+)+-[0-9]$"


class Aws(Section):
    """Who acts in AWS. Default: the credentials of who runs Pulumi, as the aws command finds them."""

    profile: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s-][^\s]*$")] | None = None
    """A profile of the aws command's configuration."""
    assume_role: RoleArn | None = None
    """The ARN of a role to assume, with these credentials. access.admins of a new cluster must name it."""


class Alarms(Section):
    """Who is told when a pool's money limit comes near."""

    emails: Annotated[tuple[Email, ...], Field(max_length=10)] = ()
    """E-mail addresses."""
    sns_topic_arns: Annotated[tuple[TopicArn, ...], Field(max_length=1)] = ()
    """A topic of SNS."""


class PullRequests(Section):
    """The role that a pull request's workflow assumes to run `pulumi preview`."""

    repository: Annotated[str, Field(max_length=140, pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]
    """The GitHub repository, as owner/name."""
    state_bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    """The S3 bucket with Pulumi's state, which the preview reads."""
    secrets_key_arn: KeyArn | None = None
    """The KMS key with which the stack's secrets are encrypted."""
    oidc_provider_arn: OidcProviderArn | None = None
    """GitHub's identity provider in this account, where it is there already; there can be one only. Default: made."""


class Backend(StrEnum):
    UNSHARE = "unshare"
    INCUS = "incus"


class Task(StrEnum):
    AUTOPKGTEST = "autopkgtest"
    SBUILD = "sbuild"
    MMDEBSTRAP = "mmdebstrap"
    SIMPLE_SYSTEM_IMAGE_BUILD = "simplesystemimagebuild"


class MachineImage(Section):
    """A pipeline that builds Debian images for pools, in the account's default network; what it built stays."""

    base_image_id: ImageId
    """The Debian image to start from."""
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")] = "1.0.0"
    """The recipe's version, for people: the recipe's name follows what is in it."""
    source: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """An APT source to add, in deb822 form."""
    enable_backends: Annotated[tuple[Backend, ...], Field(max_length=4)] = (Backend.UNSHARE,)
    """Executors to install packages for."""
    enable_tasks: Annotated[tuple[Task, ...], Field(max_length=8)] = (Task.AUTOPKGTEST, Task.SBUILD)
    """Tasks to install packages for."""
    preloaded_images: Annotated[tuple[ContainerImage, ...], Field(max_length=32)] = ()
    """Container images that are on the instance before its first pod."""
    instance_type: InstanceTypeName = "m7i.large"
    """On what it is built."""
    schedule: Annotated[str, Field(max_length=256, pattern=r"^(cron|rate)\([^()]+\)$")] | None = None
    """When to build anew, as cron(…) or rate(…) of EventBridge. Default: only when asked to."""

    def problems(self) -> Iterator[Problem]:
        for line in (self.source or "").splitlines():
            if line.strip() and not line.startswith((" ", "\t", "#")) and ":" not in line:
                yield Problem(path=("source",), value=line, message="must be in deb822 form: lines of `Field: value`")
                return


class StackConfig(Section):
    """The whole interface of a stack."""

    account_id: AccountId
    """The AWS account, in quotes. The stack refuses to work in another one."""
    aws: Aws = Aws()
    """Who acts in AWS."""
    asg_quota: Annotated[int, Field(ge=1, le=10_000)] = 200
    """How many Auto Scaling groups the account may have in the region."""
    eip_quota: Annotated[int, Field(ge=0, le=10_000)] = 5
    """How many Elastic IPs the account may have in the region, one for each NAT gateway. 5 is AWS' default."""
    tags: AwsTags = {}
    """Tags of all AWS resources, instances and disks included."""
    alarms: Alarms = Alarms()
    """Who is told about money."""
    pull_requests: PullRequests | None = None
    """The role for previews of pull requests."""
    machine_images: Annotated[dict[ImageName, MachineImage], Field(max_length=16)] = {}
    """Pipelines that build machine images."""
    clusters: Annotated[dict[ClusterKey, Cluster], Field(min_length=1, max_length=16)]
    """The clusters, by a name of their own."""

    def problems(self) -> Iterator[Problem]:
        for key, cluster in self.clusters.items():
            yield from self._images(key, cluster)
            yield from self._money(key, cluster)
            yield from self._way_in(key, cluster)

    def _way_in(self, key: str, cluster: Cluster) -> Iterator[Problem]:
        role = self.aws.assume_role
        if (
            role is not None
            and cluster.existing is None
            and cluster.access.admins
            and role not in cluster.access.admins
        ):
            message = f"must name {role} too: it is sluice:aws.assumeRole, which runs `pulumi up`"
            yield Problem(
                path=("clusters", key, "access", "admins"), value=list(cluster.access.admins), message=message
            )

    def _images(self, key: str, cluster: Cluster) -> Iterator[Problem]:
        for name, pool in cluster.node_pools.items():
            if pool.image and pool.image.pipeline and pool.image.pipeline not in self.machine_images:
                known = ", ".join(sorted(self.machine_images)) or "none"
                yield Problem(
                    path=("clusters", key, "nodePools", name, "image", "pipeline"),
                    value=pool.image.pipeline,
                    message=f"must be one of machineImages; there are {known}",
                )

    def _money(self, key: str, cluster: Cluster) -> Iterator[Problem]:
        pools = cluster.node_pools.items()
        limited = [name for name, pool in pools if pool.limits.target_max_cost_per_month is not None]
        if limited and not (self.alarms.emails or self.alarms.sns_topic_arns):
            yield absent(
                "alarms",
                message=f"must name emails or snsTopicArns: pool {limited[0]} of cluster {key} has a money limit",
            )
