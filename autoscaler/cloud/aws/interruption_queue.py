"""Amazon SQS as the source of news: long polls, each message handed over before it is deleted.

A message that cannot be read is dropped with a log line and never met again. It must not decide what news means, nor
whose instances it is about: the queue hears of the whole region.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_accounts, ec2_calls, interruption_events

if TYPE_CHECKING:
    from mypy_boto3_sqs import type_defs as sqs

BATCH: Final = 10
"""SQS hands out so many messages at once."""
LONG_POLL_SECONDS: Final = 20
VISIBILITY_SECONDS: Final = 120
"""How long a message that was handed over and not deleted stays away from other readers."""
_READ_SECONDS: Final = 30.0
_PATIENCE: Final = ec2_calls.Patience(call_seconds=40.0, attempts=1)
_HOST: Final = re.compile(r"https://sqs\.([a-z0-9-]+)\.")
"""Whose name tells the queue's region; an endpoint of somebody's own does not."""

log = structlog.get_logger(__name__)


def open_queue(url: str, *, region: str | None = None) -> "SqsInterruptions":
    """Return the stack's own queue, read with the runtime's own role. To be called within the event loop.

    The region is the runtime's, for a queue whose URL names none: boto would look for it elsewhere than in AWS_REGION.
    """
    host = _HOST.match(url)
    return SqsInterruptions(ec2_accounts.Account(region=host[1] if host else region), url)


class SqsInterruptions:
    """The port on a queue. One reader at a time; to be made within the event loop; close it when done."""

    def __init__(
        self, account: ec2_accounts.Account, queue_url: str, *, long_poll_seconds: int = LONG_POLL_SECONDS
    ) -> None:
        self._clients = ec2_accounts.Clients(account, read_seconds=_READ_SECONDS)
        self._url = queue_url
        self._long_poll_seconds = long_poll_seconds
        self._calls = ec2_calls.Calls(_PATIENCE, threads=2)

    async def batches(self) -> AsyncGenerator[tuple[port.Event, ...], None]:
        while True:
            messages = await self._receive()
            events = tuple(_events(messages))
            if events:
                yield events
            await self._delete(messages)

    async def aclose(self) -> None:
        self._clients.close()

    async def _receive(self) -> "Sequence[sqs.MessageTypeDef]":
        def call() -> "sqs.ReceiveMessageResultTypeDef":
            return self._clients.sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=self._long_poll_seconds,
                VisibilityTimeout=VISIBILITY_SECONDS,
            )

        return (await self._calls.read(f"ReceiveMessage of {self._url}", call)).get("Messages", [])

    async def _delete(self, messages: "Sequence[sqs.MessageTypeDef]") -> None:
        """Delete what was handed over; if that fails it is told again, which does no harm."""
        entries: list[sqs.DeleteMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages)
            if "ReceiptHandle" in message
        ]
        if not entries:
            return
        try:
            await self._calls.write(
                f"DeleteMessageBatch of {self._url}",
                lambda: self._clients.sqs.delete_message_batch(QueueUrl=self._url, Entries=entries),
            )
        except port.CloudError as error:
            log.warning("interruptions_not_deleted", count=len(entries), reason=error.reason, error=error.message)


def _events(messages: "Iterable[sqs.MessageTypeDef]") -> Iterable[port.Event]:
    for message in messages:
        try:
            event = interruption_events.parse(message.get("Body", ""))
        except ValueError as error:
            log.warning("interruption_dropped", message=message.get("MessageId"), error=str(error))
            continue
        if event is not None:
            yield event
