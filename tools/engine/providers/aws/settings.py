"""The options of an AWS provider resource, and the facts that made-up outputs are made of. Pure."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tools.engine.providers import wire

MOTO_ACCOUNT = "123456789012"
DEFAULT_REGION = "eu-west-1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options that the stand-in honours; all others are accepted and make no difference."""

    region: str
    account: str
    default_tags: Mapping[str, str]
    allowed_accounts: tuple[str, ...] = ()
    """Accounts in which the program may work; none: all."""

    @classmethod
    def of(cls, properties: Mapping[str, wire.Value], environment: Mapping[str, str]) -> "Settings":
        """Read the options as the SDK sends them: text as text, all else as JSON inside text."""
        plain: dict[str, Any] = wire.plain(properties)
        allowed = tuple(str(account) for account in _parsed(plain.get("allowedAccountIds")) or ())
        tags = _parsed(plain.get("defaultTags")) or {}
        return cls(
            region=str(plain.get("region") or environment.get("AWS_REGION") or DEFAULT_REGION),
            account=allowed[0] if allowed else MOTO_ACCOUNT,
            default_tags=tags.get("tags") or {},
            allowed_accounts=allowed,
        )

    def arn(self, service: str, resource: str, *, region: str | None = None) -> str:
        """Return the name of a thing in this account and region; IAM's have no region."""
        place = self.region if region is None else region
        return f"arn:aws:{service}:{place}:{self.account}:{resource}"


def _parsed(value: Any) -> Any:  # noqa: ANN401 - JSON
    return json.loads(value) if isinstance(value, str) else value
