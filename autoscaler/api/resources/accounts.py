"""ProviderAccount: where instances come from and with whose credentials (seed 003)."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api.resources.base import (
    AGE,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    Rule,
    checked,
    condition_column,
    immutable,
)
from autoscaler.api.resources.types import DnsLabel, DnsName


class Provider(StrEnum):
    AWS = "aws"
    STATIC = "static"


class SecretRef(Model):
    """A Secret, by name."""

    namespace: DnsLabel
    """The Secret's namespace. The stack must let the runtime read it (autoscaler.secretNamespaces)."""
    name: DnsName
    """The Secret's name."""


class Credentials(Model):
    """Credentials kept in a Secret."""

    secret_ref: SecretRef
    """The Secret with keys accessKeyId and secretAccessKey."""


class ProviderAccountSpec(Model):
    """An account with a provider of instances."""

    model_config = checked(
        immutable("provider"),
        Rule(
            expression="self.provider != 'aws' || has(self.region)",
            message="region must be given where provider is aws",
            field=".region",
        ),
        Rule(
            expression="self.provider != 'static' || !(has(self.region) || has(self.roleArn) || has(self.credentials))",
            message="region, roleArn and credentials must be left out where provider is static",
            field=".provider",
        ),
        Rule(
            expression="!(has(self.roleArn) && has(self.credentials))",
            message="roleArn and credentials cannot both be given",
            field=".roleArn",
        ),
    )

    provider: Provider
    """aws: Auto Scaling groups in one region. static: nodes that somebody else provides."""
    region: Annotated[str, Field(max_length=32, pattern=r"^[a-z]{2,}(-[a-z]+)+-[0-9]+$")] | None = None
    """The AWS region, such as eu-west-1."""
    role_arn: (
        Annotated[str, Field(max_length=2048, pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$")]
        | None
    ) = None
    """The IAM role to assume. Where roleArn and credentials are both absent, the runtime's own role is used."""
    credentials: Credentials | None = None
    """Credentials kept in a Secret."""


class ProviderAccountStatus(Model):
    """Whether the account can be used."""

    conditions: Conditions = ()
    """Ready says whether the provider answers with these credentials."""


class ProviderAccount(Resource):
    """An account with a provider of instances, which instance pools refer to by name."""

    definition: ClassVar[Definition] = Definition(
        plural="provideraccounts",
        short_names=("pa",),
        columns=(
            Column(name="Provider", path=".spec.provider"),
            Column(name="Region", path=".spec.region"),
            condition_column("Ready"),
            AGE,
        ),
    )

    spec: ProviderAccountSpec
    status: ProviderAccountStatus = ProviderAccountStatus()
