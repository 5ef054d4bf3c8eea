"""News is handed over before it is deleted; what cannot be read is dropped and never met again. On a fake of SQS."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog.testing

from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_accounts, interruption_queue
from tests.autoscaler.cloud.aws.test_ec2_errors import of_code
from tests.autoscaler.cloud.aws.test_interruption_events import WHO, document

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/bench-interruptions"
SPOT = document("EC2 Spot Instance Interruption Warning", {"instance-id": WHO})


@dataclass(kw_only=True)
class FakeSqs:
    """Hands out what it holds until it is deleted; fails where an error stands in for messages."""

    held: list[Any]
    deleted: list[str] = field(default_factory=list)
    error: Exception | None = None

    @property
    def sqs(self) -> "FakeSqs":
        return self

    def receive_message(self, **arguments: Any) -> Any:
        assert arguments["QueueUrl"] == URL
        assert arguments["MaxNumberOfMessages"] == 10
        batch = self.held.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return {"Messages": [self._message(body) for body in batch]} if batch else {}

    def delete_message_batch(self, **arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.deleted += [entry["ReceiptHandle"] for entry in arguments["Entries"]]
        return {}

    def close(self) -> None:
        pass

    def _message(self, body: str) -> dict[str, str]:
        return {"MessageId": "m", "ReceiptHandle": f"receipt of {body[:10]}", "Body": body}


def read(fake: FakeSqs, count: int) -> list[tuple[port.Event, ...]]:
    """Take so many batches, and ask for one more."""

    async def act() -> list[tuple[port.Event, ...]]:
        queue = interruption_queue.SqsInterruptions(ec2_accounts.Account(region="eu-west-1"), URL)
        queue._clients = fake  # type: ignore[assignment]
        seen: list[tuple[port.Event, ...]] = []
        async with contextlib.aclosing(queue.batches()) as batches:
            async for batch in batches:
                seen.append(batch)
                if len(seen) == count:
                    break
        await queue.aclose()
        return seen

    return asyncio.run(act())


def test_a_batch_is_handed_over_before_it_is_deleted() -> None:
    fake = FakeSqs(held=[[SPOT]])
    [batch] = read(fake, 1)
    assert [type(event) for event in batch] == [port.SpotInterruption]
    assert fake.deleted == []


def test_a_batch_is_deleted_once_the_next_is_asked_for() -> None:
    fake = FakeSqs(held=[[SPOT], [], [SPOT, SPOT]])
    assert [len(batch) for batch in read(fake, 2)] == [1, 2]
    assert len(fake.deleted) == 1


def test_garbage_is_dropped_with_a_log_line_and_deleted() -> None:
    fake = FakeSqs(held=[["garbage", document("Something New", {})], ["more"], [SPOT]])
    with structlog.testing.capture_logs() as logs:
        [batch] = read(fake, 1)
    assert len(batch) == 1
    assert len(fake.deleted) == 3
    assert [line["event"] for line in logs] == ["interruption_dropped", "interruption_dropped"]


def test_what_cannot_be_deleted_is_told_again_and_stops_nothing() -> None:
    fake = FakeSqs(held=[[SPOT], [SPOT]], error=of_code("InternalFailure", 500))
    with structlog.testing.capture_logs() as logs:
        assert len(read(fake, 2)) == 2
    assert [line["event"] for line in logs] == ["interruptions_not_deleted"]


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (of_code("AccessDenied", 403), port.Reason.DENIED),
        (of_code("AWS.SimpleQueueService.NonExistentQueue"), port.Reason.NOT_FOUND),
        (of_code("RequestThrottled", 403), port.Reason.THROTTLED),
    ],
)
def test_a_queue_that_does_not_answer_is_an_error_with_a_reason(error: Exception, want: port.Reason) -> None:
    with pytest.raises(port.CloudError) as caught:
        read(FakeSqs(held=[error]), 1)
    assert caught.value.reason is want


@pytest.mark.parametrize(
    ("url", "want"),
    [
        (URL, "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/bench", "cn-north-1"),
        ("http://127.0.0.1:5000/123456789012/bench", "us-west-2"),
        ("https://vpce-0a1b-c2d3.sqs.us-west-2.vpce.amazonaws.com/123456789012/bench", "us-west-2"),
    ],
)
def test_the_queues_region_is_read_from_its_url_or_is_the_runtimes_own(url: str, want: str) -> None:
    async def act() -> None:
        opened = interruption_queue.open_queue(url, region="us-west-2")
        assert opened._clients._account == ec2_accounts.Account(region=want)

    asyncio.run(act())
