"""Amazon SQS: how many messages wait in a queue, which SQS itself calls approximate.

A queue's URL is user input and the request is signed, perhaps with the runtime's own role: only AWS's own hosts are
asked, and the endpoint the runtime itself was given for AWS.
"""

import asyncio
import functools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import boto3
import botocore.config
import botocore.exceptions as botocore_errors
import yarl

from autoscaler.queues import counts, endpoints, port, secrets

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ACCESS_KEY_ID: Final = "AccessKeyId"
"""Key of a Secret: the access key that belongs to `ApiKey`, which is the secret access key."""
SESSION_TOKEN: Final = "SessionToken"  # noqa: S105 - the name of a key
"""Key of a Secret, for temporary credentials only."""
TIMEOUT_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2.0
_READ_SECONDS: Final = 3.0
_THREADS: Final = 16
_CLIENTS: Final = 64
_COUNT: Final = "ApproximateNumberOfMessages"
_HOSTS: Final = (
    re.compile(r"sqs(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"),
    re.compile(r"([a-z0-9-]+)\.queue\.amazonaws\.com"),
    re.compile(r"(?:[a-z0-9-]+\.)?vpce-[a-z0-9-]+\.sqs\.([a-z0-9-]+)\.vpce\.amazonaws\.com"),
)
_GONE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_LATE: Final = "got no answer in time: see whether AWS can be reached"
_DENIED: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Credentials from a Secret."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom to ask, and as whom; without keys, as the runtime itself."""

    endpoint: str
    region: str
    keys: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """The endpoint that the runtime was given instead of AWS's own, and its region."""

    endpoint: str
    region: str


class Reader(Protocol):
    """Asks SQS."""

    async def count(self, account: Account, queue_url: str) -> str:
        """Return the attribute with the number of messages, as SQS gives it; raise QueueError if there is none."""
        ...

    async def aclose(self) -> None:
        """Close all connections; what is under way is waited for, as a thread cannot be stopped."""
        ...


class SqsQueue:
    """One queue."""

    def __init__(
        self, reader: Reader, url: yarl.URL, *, secret: port.SecretData | None, override: Override | None = None
    ) -> None:
        self._reader = reader
        self._url = url
        self._secret = secret
        self._override = override

    async def length(self) -> int:
        account = account_of(self._url, keys=keys_of(self._secret), override=self._override)
        text = await self._reader.count(account, str(self._url))
        return counts.from_text(text, where=f"{_COUNT} of {endpoints.shown(self._url)}")


def account_of(url: yarl.URL, *, keys: Keys | None, override: Override | None = None) -> Account:
    """Return whom a queue's URL speaks of; raise QueueError if that is not Amazon SQS."""
    origin = str(url.origin())
    if override is not None and str(yarl.URL(override.endpoint).origin()) == origin:
        return Account(endpoint=override.endpoint, region=override.region, keys=keys)
    for pattern in _HOSTS:
        if (found := pattern.fullmatch(url.host or "")) and url.scheme == "https" and url.is_default_port():
            return Account(endpoint=origin, region=found[1], keys=keys)
    raise port.QueueError(
        port.Reason.ENDPOINT_REFUSED,
        f"{endpoints.shown(url)} is not asked: it is not the URL of a queue in Amazon SQS, such as "
        "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs",
    )


def keys_of(secret: port.SecretData | None) -> Keys | None:
    """Return the credentials in a Secret; None without one: the runtime's own role is used."""
    if secret is None:
        return None
    return Keys(
        secret_access_key=secrets.api_key(secret),
        access_key_id=secrets.text(secret, ACCESS_KEY_ID),
        session_token=secrets.text(secret, SESSION_TOKEN) if SESSION_TOKEN in secret else None,
    )


class Sqs:
    """The real reader: boto3 in a few threads, one client per account. Close it when done."""

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="sqs")
        self._making = threading.Lock()
        self._clients: dict[Account, SQSClient] = {}

    async def count(self, account: Account, queue_url: str) -> str:
        ask = functools.partial(self._ask, account, queue_url)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except TimeoutError as error:
            raise _failure(queue_url, port.Reason.TIMEOUT, _LATE) from error

    async def aclose(self) -> None:
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _ask(self, account: Account, queue_url: str) -> str:
        try:
            answer = self._client(account).get_queue_attributes(QueueUrl=queue_url, AttributeNames=[_COUNT])
        except (botocore_errors.BotoCoreError, botocore_errors.ClientError, ValueError) as error:
            raise translated(error, queue_url) from error
        count = answer.get("Attributes", {}).get(_COUNT)
        if count is None:
            raise _failure(queue_url, port.Reason.NOT_A_NUMBER, "was answered without the number of messages")
        return count

    def _client(self, account: Account) -> "SQSClient":
        with self._making:  # making clients is not safe for threads, using them is
            client = self._clients.pop(account, None) or _make(account)
            self._clients[account] = client  # the last one is the latest used
            if len(self._clients) > _CLIENTS:
                self._clients.pop(next(iter(self._clients))).close()
            return client


def _make(account: Account) -> "SQSClient":
    keys = account.keys
    return boto3.session.Session().client(
        "sqs",
        region_name=account.region,
        endpoint_url=account.endpoint,
        aws_access_key_id=keys.access_key_id if keys else None,
        aws_secret_access_key=keys.secret_access_key if keys else None,
        aws_session_token=keys.session_token if keys else None,
        config=botocore.config.Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": 1},
            max_pool_connections=_THREADS,
        ),
    )


def translated(error: Exception, queue_url: str) -> port.QueueError:
    """Say in our words what went wrong; boto's own may quote a credential."""
    denied = "was refused: the Secret's keys, or the runtime's role, need sqs:GetQueueAttributes on it"
    match error:
        case botocore_errors.ClientError():
            return _of_code(error, queue_url, denied)
        case botocore_errors.NoCredentialsError() | botocore_errors.PartialCredentialsError():
            return _failure(queue_url, port.Reason.UNAUTHORIZED, "was not sent, without credentials; it " + denied)
        case botocore_errors.ConnectTimeoutError() | botocore_errors.ReadTimeoutError():
            return _failure(queue_url, port.Reason.TIMEOUT, _LATE)
        case botocore_errors.SSLError():
            return _failure(queue_url, port.Reason.UNTRUSTED, "was not sent: the server's certificate is not AWS's")
        case botocore_errors.HTTPClientError() | botocore_errors.EndpointConnectionError():
            return _failure(queue_url, port.Reason.UNREACHABLE, "got no answer: see whether AWS can be reached")
        case _:
            return _failure(queue_url, port.Reason.FAILED, f"failed ({type(error).__name__}): see the queue in AWS")


def _of_code(error: botocore_errors.ClientError, queue_url: str, denied: str) -> port.QueueError:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _GONE:
        return _failure(queue_url, port.Reason.NOT_FOUND, "found no such queue: see whether the URL is right")
    if status in _DENIED or "AccessDenied" in code:
        return _failure(queue_url, port.Reason.UNAUTHORIZED, denied)
    return _failure(queue_url, port.Reason.FAILED, f"failed with status {status}: see the queue in AWS")


def _failure(queue_url: str, reason: port.Reason, what: str) -> port.QueueError:
    return port.QueueError(reason, f"GetQueueAttributes of {endpoints.shown(yarl.URL(queue_url))} {what}")
