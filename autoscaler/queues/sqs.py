"""Amazon SQS: how many messages wait in a queue, which SQS itself calls approximate.

A queue's URL is user input and the request is signed, perhaps with the runtime's own role: only AWS's own hosts are
asked, and the endpoint the runtime itself was given for AWS. Their addresses may be private, as those of VPC endpoints
are: the certificate says that it is SQS.

Requests are signed here and sent over shared connections. A client of boto3 belongs to one credential and takes a
thread's time to make, and there are as many credentials as users bring. Botocore is imported with the first question:
most queues are not in SQS, and whoever starts should not wait for it.
"""

import asyncio
import dataclasses
import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import yarl

from autoscaler.queues import counts, endpoints, lookups, port, secrets, wire

if TYPE_CHECKING:
    import botocore.credentials

ACCESS_KEY_ID: Final = "AccessKeyId"
"""Key of a Secret: the access key that belongs to `ApiKey`, which is the secret access key."""
SESSION_TOKEN: Final = "SessionToken"  # noqa: S105 - the name of a key
"""Key of a Secret, for temporary credentials only."""
_COUNT: Final = "ApproximateNumberOfMessages"
_HOSTS: Final = (
    re.compile(r"sqs(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"),
    re.compile(r"([a-z0-9-]+)\.queue\.amazonaws\.com"),
    re.compile(r"(?:[a-z0-9-]+\.)?vpce-[a-z0-9-]+\.sqs\.([a-z0-9-]+)\.vpce\.amazonaws\.com"),
)
_GONE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_REFUSED: Final = frozenset({401, 403})
_DENIED: Final = "was refused: the Secret's keys, or the runtime's role, need sqs:GetQueueAttributes on it"
_OK: Final = 200
_SAID: Final = {
    port.Reason.TIMEOUT: "got no answer in time: see whether AWS can be reached",
    port.Reason.UNTRUSTED: "was not sent: the server's certificate is not AWS's",
    port.Reason.UNREACHABLE: "got no answer: see whether AWS can be reached",
}
"""Failures of the connection, in words that fit AWS."""


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


class Reader(Protocol):
    """Asks SQS."""

    async def count(self, account: Account, queue_url: str) -> str:
        """Return the attribute with the number of messages, as SQS gives it; raise QueueError if there is none."""
        ...

    async def aclose(self) -> None:
        """Close all connections; requests under way end."""
        ...


class SqsQueue:
    """One queue."""

    def __init__(
        self, reader: Reader, url: yarl.URL, *, secret: port.SecretData | None, override: Account | None = None
    ) -> None:
        self._reader = reader
        self._url = url
        self._secret = secret
        self._override = override

    async def length(self) -> int:
        account = account_of(self._url, keys=keys_of(self._secret), override=self._override)
        text = await self._reader.count(account, str(self._url))
        return counts.from_text(text, where=f"{_COUNT} of {endpoints.shown(self._url)}")


def account_of(url: yarl.URL, *, keys: Keys | None, override: Account | None = None) -> Account:
    """Return whom a queue's URL speaks of; raise QueueError if that is neither SQS nor what is used instead of it."""
    origin = str(url.origin())
    if override is not None and str(yarl.URL(override.endpoint).origin()) == origin:
        return dataclasses.replace(override, keys=keys)
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


class Sender(Protocol):
    """Sends requests; wire.Wire is the real one."""

    async def send(self, request: wire.Request, context: ssl.SSLContext) -> wire.Page | wire.Redirect:
        """Return the answer, whatever its status; raise QueueError if there is none."""
        ...

    async def aclose(self) -> None:
        """Close all connections; requests under way end."""
        ...


class Sqs:
    """The real reader, which keeps nothing of a credential.

    It belongs to the event loop it was made in; close it when done.
    """

    def __init__(self, *, limits: wire.Limits | None = None, sender: Sender | None = None) -> None:
        self._limits = limits or wire.Limits()
        self._names = lookups.Resolver()
        self._sender = sender or wire.Wire(resolver=self._names, limits=self._limits, proxied=True)
        self._contexts = wire.Contexts()
        self._role = _Role()

    async def count(self, account: Account, queue_url: str) -> str:
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                keys = account.keys or await self._role.keys(queue_url)
                request = signed(account.endpoint, account.region, keys, queue_url)
                answer = await self._sender.send(request, await self._contexts.get())
        except TimeoutError as error:
            raise _failure(queue_url, port.Reason.TIMEOUT, _SAID[port.Reason.TIMEOUT]) from error
        except port.QueueError as error:
            if error.reason not in _SAID:
                raise
            raise _failure(queue_url, error.reason, _SAID[error.reason]) from error
        return read(answer, queue_url)

    async def aclose(self) -> None:
        await self._sender.aclose()
        await self._names.close()
        self._role.close()


class _RoleError(Exception):
    """Botocore found no credentials; the text is the name of its error, which itself may quote them."""


class _Role:
    """The runtime's own credentials, which botocore finds and renews in a thread: that may ask the network."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqs-role")
        self._found: botocore.credentials.Credentials | None = None

    async def keys(self, queue_url: str) -> Keys:
        """Return them as they are now; raise QueueError if there are none."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        except _RoleError as error:
            say = f"was not sent: the runtime's role gave no credentials ({error})"
            raise _failure(queue_url, port.Reason.UNAUTHORIZED, say) from error
        if found is None or not found.access_key or not found.secret_key:
            say = f"was not sent, without credentials; it {_DENIED}"
            raise _failure(queue_url, port.Reason.UNAUTHORIZED, say)
        return Keys(
            access_key_id=found.access_key, secret_access_key=found.secret_key, session_token=found.token or None
        )

    def _look(self) -> "botocore.credentials.ReadOnlyCredentials | None":
        import botocore.exceptions  # noqa: PLC0415  # see above
        import botocore.session  # noqa: PLC0415

        try:
            self._found = self._found or botocore.session.get_session().get_credentials()
            return self._found.get_frozen_credentials() if self._found else None
        except botocore.exceptions.BotoCoreError as error:
            raise _RoleError(type(error).__name__) from error

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def signed(endpoint: str, region: str, keys: Keys, queue_url: str) -> wire.Request:
    """Write the request for a queue's length, signed with these keys."""
    import botocore.auth  # noqa: PLC0415  # see above
    import botocore.awsrequest  # noqa: PLC0415
    import botocore.credentials  # noqa: PLC0415

    url = f"{endpoint.rstrip('/')}/"
    body = msgspec.json.encode({"QueueUrl": queue_url, "AttributeNames": [_COUNT]})
    request = botocore.awsrequest.AWSRequest(
        method="POST",
        url=url,
        headers={"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.GetQueueAttributes"},
        data=body,
    )
    credentials = botocore.credentials.Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token)
    botocore.auth.SigV4Auth(credentials, "sqs", region).add_auth(request)
    return wire.Request(method="POST", url=yarl.URL(url), headers=dict(request.headers), body=body)


class _Answer(msgspec.Struct):
    attributes: dict[str, str] = msgspec.field(name="Attributes", default_factory=dict)


class _Refusal(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")


def read(answer: wire.Page | wire.Redirect, queue_url: str) -> str:
    """Return the number of messages as SQS writes it; raise QueueError in our words, as its own may quote a key."""
    if isinstance(answer, wire.Redirect):
        raise _failure(queue_url, port.Reason.REDIRECTED, "was redirected, which is not followed: see the queue's URL")
    if answer.status != _OK:
        raise _refused(answer, queue_url)
    try:
        count = msgspec.json.decode(answer.body, type=_Answer).attributes.get(_COUNT)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _failure(queue_url, port.Reason.NOT_A_NUMBER, "was answered with what SQS does not write") from error
    if count is None:
        raise _failure(queue_url, port.Reason.NOT_A_NUMBER, "was answered without the number of messages")
    return count


def _refused(answer: wire.Page, queue_url: str) -> port.QueueError:
    try:
        code = msgspec.json.decode(answer.body, type=_Refusal).type.rpartition("#")[2]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        code = ""
    if code in _GONE:
        return _failure(queue_url, port.Reason.NOT_FOUND, "found no such queue: see whether the URL is right")
    if answer.status in _REFUSED or "AccessDenied" in code:
        return _failure(queue_url, port.Reason.UNAUTHORIZED, _DENIED)
    return _failure(queue_url, port.Reason.FAILED, f"failed with status {answer.status}: see the queue in AWS")


def _failure(queue_url: str, reason: port.Reason, what: str) -> port.QueueError:
    return port.QueueError(reason, f"GetQueueAttributes of {endpoints.shown(yarl.URL(queue_url))} {what}")
