"""What all parts of the stack config share: strictness, problems with their place, and the small types of AWS.

Unknown keys are errors, numbers in quotes are no numbers, and every rule between fields reports each of its problems
with the path of the field to change. Nothing here reads anything.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in the config: where, what stands there, and what is allowed."""

    path: Location
    message: str
    value: Any = None
    has_value: bool = True
    """False where nothing stands there, or where the value may be a secret."""


def absent(*path: str | int, message: str) -> Problem:
    """Say that something is missing."""
    return Problem(path=path, message=message, has_value=False)


class Section(BaseModel):
    """A part of the stack config."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        populate_by_name=False,
        use_attribute_docstrings=True,
        extra="ignore",  # problems.unknown_keys refuses them, and so they hide no other problem
    )

    def problems(self) -> Iterator[Problem]:
        """Report what is wrong between the fields of this section, with paths that begin here."""
        yield from ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = list(self.problems())
        if found:
            raise ValidationError.from_exception_data(type(self).__name__, [_detail(problem) for problem in found])
        return self


def _detail(problem: Problem) -> InitErrorDetails:
    kind = "sluice" if problem.has_value else "sluice_absent"
    # The message is an argument, not a template: it may hold braces.
    error = PydanticCustomError(kind, "{message}", {"message": problem.message})
    return InitErrorDetails(type=error, loc=problem.path, input=problem.value)


def _cidr(text: str) -> str:
    try:
        ipaddress.IPv4Network(text)
        if not re.search("/[0-9]{1,2}$", text):
            raise ValueError("its length is missing")  # noqa: TRY301  # told like the others
    except ValueError as error:
        raise ValueError(f"must be an IPv4 block such as 10.32.0.0/16 ({error})") from None
    return text


Cidr = Annotated[str, AfterValidator(_cidr)]
"""A block of IPv4 addresses."""

_PRINCIPAL: Final = r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[^*\s]+$"
_SESSION: Final = r"arn:(?P<partition>aws[a-z-]*):sts::(?P<account>[0-9]{12}):assumed-role/(?P<role>[^/]+)/.*"


def _principal(text: str) -> str:
    if found := re.fullmatch(_SESSION, text):
        role = f"arn:{found['partition']}:iam::{found['account']}:role/{found['role']}"
        raise ValueError(f"is a session; give its role, as IAM shows it: {role}, with its path if it has one")
    if not re.fullmatch(_PRINCIPAL, text):
        raise ValueError("must be the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/platform")
    return text


AccountId = Annotated[str, Field(pattern=r"^[0-9]{12}$")]
"""An AWS account, as text of 12 digits."""
TopicArn = Annotated[str, Field(max_length=2048, pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$")]
"""The ARN of a topic of SNS."""
IamPrincipal = Annotated[
    str, Field(max_length=2048, json_schema_extra={"pattern": _PRINCIPAL}), AfterValidator(_principal)
]
"""The ARN of an IAM role or user."""
_ROLE: Final = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^*\s]+$"


def _role(text: str) -> str:
    if _principal(text) and not re.fullmatch(_ROLE, text):
        raise ValueError("is a user, and only roles can be assumed: give arn:aws:iam::ACCOUNT:role/NAME")
    return text


RoleArn = Annotated[str, Field(max_length=2048, json_schema_extra={"pattern": _ROLE}), AfterValidator(_role)]
"""The ARN of an IAM role."""
VpcId = Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$")]
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-f]{8,17}$")]
ImageId = Annotated[str, Field(pattern=r"^ami-[0-9a-f]{8,17}$")]


def _unshown(value: object, handler: ValidatorFunctionWrapHandler) -> str:
    """Check a name without ever showing it: people put the secret itself there."""
    try:
        return str(handler(value))
    except ValidationError:
        raise PydanticCustomError("sluice_absent", "{message}", {"message": SECRET_NAME}) from None


SECRET_NAME: Final = "must be the name of a key of sluice:secrets"  # noqa: S105  # words
SecretName = Annotated[str, Field(min_length=1, max_length=128), WrapValidator(_unshown)]
"""A key of sluice:secrets."""
KubernetesVersion = Annotated[str, Field(pattern=r"^1\.[0-9]{2}$")]


def _tag_text(text: str) -> str:
    if not re.fullmatch(r"[\w\s+\-=.:/@]*", text):
        raise ValueError("may have letters, digits, spaces and + - = . _ : / @ only")
    return text


_OWN_TAGS: Final = ("sluice.dev/", "kubernetes.io/", "k8s.io/")


def _tag_key(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise ValueError("must not begin with aws:, which AWS keeps for itself")
    if key == "Name" or key.startswith(_OWN_TAGS):
        raise ValueError(f"must be neither Name nor begin with {', '.join(_OWN_TAGS)}: Sluice sets those itself")
    return key


TagKey = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_tag_key), AfterValidator(_tag_text)]
TagValue = Annotated[str, Field(max_length=256), AfterValidator(_tag_text)]
AwsTags = Annotated[dict[TagKey, TagValue], Field(max_length=20)]
"""Tags of AWS resources."""
