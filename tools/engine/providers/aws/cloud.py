"""boto3 towards moto: clients made when first needed, every call noted in the journal by its argument names.

Only endpoints on loopback are accepted: a stand-in must never act on somebody's real account.
"""

import os
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tools.engine.providers import calls, journal
from tools.engine.providers.aws import settings

if TYPE_CHECKING:
    import botocore.exceptions

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
POLL_SECONDS = 0.25
_GONE = frozenset({"NoSuchEntity", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})


class GoneError(calls.RefusedError):
    """What was asked for is not there."""


class Cloud:
    """One region of the AWS that moto plays."""

    def __init__(self, chosen: settings.Settings, book: journal.Journal) -> None:
        self.settings = chosen
        self._journal = book
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        self._caller: str | None = None

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - AWS's own
        """Make a call that must succeed."""
        return self._send(service, operation, arguments)

    def find(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:  # noqa: ANN401
        """Make a call whose object may be gone: then return None."""
        try:
            return self._send(service, operation, arguments)
        except GoneError:
            return None

    def demand_allowed_account(self) -> None:
        """Refuse to work in an account that the program does not allow, as the AWS provider does."""
        allowed = self.settings.allowed_accounts
        if not allowed:
            return
        if self._caller is None:
            self._caller = str(self.call("sts", "get_caller_identity")["Account"])
        if self._caller not in allowed:
            raise calls.RefusedError(
                f"AWS account ID not allowed: {self._caller}; the program allows {', '.join(allowed)}"
            )

    def _send(self, service: str, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        # A second to import, and previews need none of it. By `from`: another thread may be importing the package now.
        from botocore import exceptions  # noqa: PLC0415

        if not operation.startswith(("describe_", "get_", "list_")):
            self._journal.call(f"{service}:{operation}({', '.join(sorted(arguments))})")
        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
        except exceptions.ClientError as error:
            kind = GoneError if _is_gone(error) else calls.RefusedError
            raise kind(f"{service} {operation}: {_said(error)}") from error
        except exceptions.BotoCoreError as error:
            raise calls.RefusedError(f"cannot ask AWS for {service} {operation}: {error}") from error
        return answer

    def _client(self, service: str) -> Any:  # noqa: ANN401 - one class for each service
        import boto3  # noqa: PLC0415 - as above
        from botocore import config as client_config  # noqa: PLC0415

        config = client_config.Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"total_max_attempts": 1, "mode": "standard"},
            proxies={},
            max_pool_connections=64,
        )
        with self._lock:  # making clients is not safe for threads, using them is
            if service not in self._clients:
                self._clients[service] = boto3.Session(region_name=self.settings.region).client(
                    service,  # type: ignore[call-overload]
                    endpoint_url=_endpoint(),
                    config=config,
                )
            return self._clients[service]


def wait(done: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Poll until something is done; refuse with these words if it is not in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            raise calls.RefusedError(f"{otherwise} after {seconds:g} s")
        time.sleep(POLL_SECONDS)


def _endpoint() -> str:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if urllib.parse.urlsplit(endpoint).hostname not in LOOPBACK:
        raise calls.RefusedError(
            f"the stand-in provider does not talk to {endpoint or 'AWS'}: only to a moto on loopback, named by "
            "AWS_ENDPOINT_URL (`make up` starts one); for a real account use the AWS provider itself"
        )
    return endpoint


def _said(error: "botocore.exceptions.ClientError") -> str:
    facts = error.response["Error"]
    return f"{facts.get('Code')}: {facts.get('Message')}"


def _is_gone(error: "botocore.exceptions.ClientError") -> bool:
    code = str(error.response["Error"].get("Code"))
    return code in _GONE or "NotFound" in code
