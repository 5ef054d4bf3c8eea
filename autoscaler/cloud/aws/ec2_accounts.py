"""Whose credentials are used: a role to assume, access keys from a Secret, or the runtime's own role. Never shown.

boto looks for its own credentials when the first client is made, asks for a role's with the first call, and again
before they expire; all of that happens in the thread of the call that needs it. So does the import of boto, which takes
a third of a second and 20 MB: the runtime's watches do not wait for it.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from autoscaler.api.resources import accounts
from autoscaler.cloud import port

if TYPE_CHECKING:
    import boto3
    import botocore.credentials
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_sqs import SQSClient

ACCESS_KEY_ID: Final = "accessKeyId"
"""Key of a Secret."""
SECRET_ACCESS_KEY: Final = "secretAccessKey"  # noqa: S105 - the name of a key
"""Key of a Secret."""
SESSION_SECONDS: Final = 3600
_SESSION_NAME_MAX: Final = 64
_CONNECT_SECONDS: Final = 3.0
_READ_SECONDS: Final = 10.0
_POOL: Final = 16

SecretData = Mapping[str, bytes]
"""What a Secret holds, by key, decoded from base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKeys:
    """Credentials from a Secret; all of them are kept out of reprs."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom to ask, and as whom: with a role or keys, or as the runtime itself where neither is given."""

    region: str | None
    """None: what the environment (AWS_REGION) says."""
    role_arn: str | None = None
    keys: AccessKeys | None = None
    endpoint: str | None = None
    """Instead of AWS's own. None: AWS's, or what the environment (AWS_ENDPOINT_URL) says."""
    session_name: str = "sluice"
    """By which the role's sessions are known in AWS's own logs."""


def of_spec(spec: accounts.ProviderAccountSpec, secret: SecretData, *, cluster: str) -> Account:
    """Return the account that a ProviderAccount describes; raise CloudError if its Secret is of no use."""
    return Account(
        region=spec.region,
        role_arn=spec.role_arn,
        keys=None if spec.credentials is None else _keys(spec.credentials.secret_ref, secret),
        session_name=f"sluice-{cluster}"[:_SESSION_NAME_MAX],
    )


def _keys(ref: accounts.SecretRef, secret: SecretData) -> AccessKeys:
    return AccessKeys(
        access_key_id=_text(ref, secret, ACCESS_KEY_ID), secret_access_key=_text(ref, secret, SECRET_ACCESS_KEY)
    )


def _text(ref: accounts.SecretRef, secret: SecretData, key: str) -> str:
    where = f"Secret {ref.namespace}/{ref.name}"
    try:
        text = secret.get(key, b"").decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise port.CloudError(
            port.Reason.DENIED, f"{where} holds no text in {key}: put the access key there"
        ) from error
    if not text:
        raise port.CloudError(port.Reason.DENIED, f"{where} has nothing in {key}: put the access key there")
    return text


class Clients:
    """The boto clients of an account, made when they are first used, which takes a third of a second each."""

    def __init__(self, account: Account, *, read_seconds: float = _READ_SECONDS) -> None:
        self._account = account
        self._making = threading.Lock()
        self._made: dict[str, Any] = {}
        self._session: boto3.session.Session | None = None
        self._read_seconds = read_seconds

    @property
    def autoscaling(self) -> "AutoScalingClient":
        client: AutoScalingClient = self._client("autoscaling")
        return client

    @property
    def ec2(self) -> "EC2Client":
        client: EC2Client = self._client("ec2")
        return client

    @property
    def sqs(self) -> "SQSClient":
        client: SQSClient = self._client("sqs")
        return client

    def close(self) -> None:
        with self._making:
            for client in self._made.values():
                client.close()
            self._made.clear()

    def _client(self, service: str) -> Any:  # noqa: ANN401 - each property says what it is
        with self._making:  # making clients is not safe for threads, using them is
            if service not in self._made:
                self._session = self._session or self._open()
                self._made[service] = self._make(self._session, service)
            return self._made[service]

    def _make(self, session: "boto3.session.Session", service: str) -> Any:  # noqa: ANN401
        import botocore.config  # noqa: PLC0415  # see above

        return session.client(
            service,  # type: ignore[call-overload]
            region_name=self._account.region,
            endpoint_url=self._account.endpoint,
            config=botocore.config.Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=self._read_seconds,
                retries={"total_max_attempts": 1},
                max_pool_connections=_POOL,
            ),
        )

    def _open(self) -> "boto3.session.Session":
        import boto3  # noqa: PLC0415

        keys = self._account.keys
        session = boto3.session.Session(
            aws_access_key_id=keys.access_key_id if keys else None,
            aws_secret_access_key=keys.secret_access_key if keys else None,
            region_name=self._account.region,
        )
        return session if self._account.role_arn is None else self._assuming(session)

    def _assuming(self, own: "boto3.session.Session") -> "boto3.session.Session":
        """Return a session that acts as the role, whose credentials are fetched when needed."""
        import boto3  # noqa: PLC0415
        import botocore.credentials  # noqa: PLC0415
        import botocore.session  # noqa: PLC0415

        core = botocore.session.Session()
        resolver = botocore.credentials.CredentialResolver(
            providers=[_Role(self._make(own, "sts"), self._account)]  # type: ignore[list-item]
        )
        core.register_component("credential_provider", resolver)
        return boto3.session.Session(botocore_session=core, region_name=self._account.region)


class _Role:
    """Gives botocore a role's credentials, as its own providers do; botocore asks for nothing but these names."""

    METHOD = "sluice-assume-role"
    CANONICAL_NAME = None

    def __init__(self, sts: Any, account: Account) -> None:  # noqa: ANN401 - there are no types for this client here
        self._sts = sts
        self._account = account

    def load(self) -> "botocore.credentials.DeferredRefreshableCredentials":
        import botocore.credentials  # noqa: PLC0415

        return botocore.credentials.DeferredRefreshableCredentials(refresh_using=self._fetch, method=self.METHOD)

    def _fetch(self) -> dict[str, str]:
        answer = self._sts.assume_role(
            RoleArn=self._account.role_arn,
            RoleSessionName=self._account.session_name,
            DurationSeconds=SESSION_SECONDS,
        )
        found = answer["Credentials"]
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"].isoformat(),
        }
