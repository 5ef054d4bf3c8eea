"""Only Amazon's own hosts are asked, with the Secret's keys or the runtime's role; errors are told in our words."""

import asyncio
import contextlib
import functools
import json
import ssl
from dataclasses import dataclass, field

import pytest
import yarl

from autoscaler.queues import port, sqs, wire
from autoscaler.simulation import virtual_time
from tests.autoscaler.queues import contract

COUNT = b"ApproximateNumberOfMessages"
MOTO = sqs.Account(endpoint="http://127.0.0.1:5000", region="eu-west-1")


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/jobs", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/jobs", "cn-north-1"),
        ("https://sqs-fips.us-east-1.amazonaws.com/1/jobs", "us-east-1"),
        ("https://us-east-2.queue.amazonaws.com/1/jobs", "us-east-2"),
        ("https://vpce-0a-1b.sqs.eu-west-1.vpce.amazonaws.com/1/jobs", "eu-west-1"),
        ("https://sqs.eu-west-1.api.aws/1/jobs", "eu-west-1"),
    ],
)
def test_the_region_is_read_from_the_queues_url(url: str, region: str) -> None:
    want = sqs.Account(endpoint=str(yarl.URL(url).origin()), region=region)
    assert sqs.account_of(yarl.URL(url), keys=None) == want


@pytest.mark.accept("W22")
@pytest.mark.parametrize(
    "url",
    [
        "http://sqs.eu-west-1.amazonaws.com/1/jobs",
        "https://sqs.eu-west-1.amazonaws.com:8443/1/jobs",
        "https://sqs.eu-west-1.amazonaws.com.evil.example/1/jobs",
        "https://evil.example/sqs.eu-west-1.amazonaws.com",
        "https://evil.sqs.eu-west-1.amazonaws.com/1/jobs",
        "https://bucket.s3.amazonaws.com/1/jobs",
        "http://169.254.169.254/1/jobs",
        "http://127.0.0.1:5001/1/jobs",
    ],
)
def test_other_hosts_are_not_asked(url: str) -> None:
    with pytest.raises(port.QueueError, match="not the URL of a queue") as caught:
        sqs.account_of(yarl.URL(url), keys=None, override=MOTO)
    assert caught.value.reason is port.Reason.ENDPOINT_REFUSED


def test_the_runtimes_own_endpoint_for_aws_may_be_asked() -> None:
    got = sqs.account_of(yarl.URL("http://127.0.0.1:5000/1/jobs"), keys=None, override=MOTO)
    assert got == sqs.Account(endpoint=MOTO.endpoint, region=MOTO.region)


def test_keys_come_from_the_secret_and_are_not_shown() -> None:
    fake = contract.FakeSqs(text="4")
    secret = {**contract.SECRET, "SessionToken": b"t0ken"}
    queue = sqs.SqsQueue(fake, yarl.URL(contract.FAKE_QUEUE), secret=secret)
    assert asyncio.run(queue.length()) == 4
    [(account, url)] = fake.asked
    assert url == contract.FAKE_QUEUE
    want = sqs.Keys(access_key_id="AKIDEXAMPLE", secret_access_key=contract.KEY, session_token="t0ken")
    assert account.keys == want
    assert contract.KEY not in repr(account)
    assert "t0ken" not in repr(account)


def test_without_a_secret_the_runtimes_role_is_used() -> None:
    assert sqs.keys_of(None) is None


def test_a_secret_without_the_access_key_id_is_an_error_that_names_it() -> None:
    with pytest.raises(port.QueueError, match="AccessKeyId"):
        sqs.keys_of({"ApiKey": b"x"})


def test_the_runtimes_role_is_asked_for_anew_each_time_and_its_absence_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSender()
    queue_of = functools.partial(sqs.SqsQueue, url=yarl.URL(contract.FAKE_QUEUE), secret=None)

    async def ask(**environment: str) -> int:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        async with contextlib.aclosing(sqs.Sqs(sender=fake)) as reader:
            return await queue_of(reader).length()

    role = {"AWS_ACCESS_KEY_ID": "AKIDROLE", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": "t0ken"}
    assert asyncio.run(ask(**role)) == 3
    (request,) = fake.requests
    assert "Credential=AKIDROLE/" in request.headers["Authorization"]
    assert request.headers["X-Amz-Security-Token"] == "t0ken"
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(port.QueueError, match="without credentials") as caught:
        asyncio.run(ask())
    assert caught.value.reason is port.Reason.UNAUTHORIZED


@dataclass(kw_only=True)
class FakeSender:
    """Answers like SQS after a while, and counts how many it answers at once."""

    seconds: float = 0.0
    answer: wire.Page | wire.Redirect = field(default_factory=lambda: page(200, b'{"Attributes":{"%s":"3"}}' % COUNT))
    error: port.QueueError | None = None
    requests: list[wire.Request] = field(default_factory=list)

    async def send(self, request: wire.Request, context: ssl.SSLContext) -> wire.Page | wire.Redirect:
        del context
        self.requests.append(request)
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.answer

    async def aclose(self) -> None:
        pass


def page(status: int, body: bytes) -> wire.Page:
    return wire.Page(status=status, body=body)


def test_a_request_is_what_the_sdk_would_send() -> None:
    keys = sqs.Keys(access_key_id="AKIDEXAMPLE", secret_access_key=contract.KEY)
    request = sqs.signed("https://sqs.eu-west-1.amazonaws.com", "eu-west-1", keys, contract.FAKE_QUEUE)
    assert (request.method, str(request.url)) == ("POST", "https://sqs.eu-west-1.amazonaws.com/")
    want = {"QueueUrl": contract.FAKE_QUEUE, "AttributeNames": ["ApproximateNumberOfMessages"]}
    assert json.loads(request.body or b"") == want
    assert request.headers["X-Amz-Target"] == "AmazonSQS.GetQueueAttributes"
    assert request.headers["Content-Type"] == "application/x-amz-json-1.0"
    signature = request.headers["Authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/sqs/aws4_request" in signature
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-target" in signature
    assert contract.KEY not in str(request.headers)


@pytest.mark.accept("W19")
def test_two_hundred_credentials_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer takes a second. One after the other, all but the first five would be too late."""
    made: list[object] = []
    monkeypatch.setattr("botocore.session.get_session", lambda: made.append(1))
    fake = FakeSender(seconds=1.0)

    async def rounds() -> list[object]:
        async with contextlib.aclosing(sqs.Sqs(sender=fake)) as reader:
            return [
                end
                for _ in range(3)
                for end in await asyncio.gather(
                    *(reader.count(account(number), contract.FAKE_QUEUE) for number in range(200)),
                    return_exceptions=True,
                )
            ]

    assert virtual_time.run(rounds()) == ["3"] * 600
    used = [request.headers["Authorization"].split("Credential=")[1].split("/")[0] for request in fake.requests]
    assert used == [f"AKID{number}" for number in range(200)] * 3, "each asked with its own"
    assert made == [], "nothing is made for a credential"


def account(number: int) -> sqs.Account:
    keys = sqs.Keys(access_key_id=f"AKID{number}", secret_access_key="x")
    return sqs.Account(endpoint="https://sqs.eu-west-1.amazonaws.com", region="eu-west-1", keys=keys)


@pytest.mark.accept("W19")
@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (page(400, b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}'), port.Reason.NOT_FOUND),
        (page(400, b'{"__type":"AWS.SimpleQueueService.NonExistentQueue"}'), port.Reason.NOT_FOUND),
        (page(400, b'{"__type":"AccessDenied"}'), port.Reason.UNAUTHORIZED),
        (page(403, b'{"__type":"InvalidClientTokenId"}'), port.Reason.UNAUTHORIZED),
        (page(403, f"<b>{contract.KEY}</b>".encode()), port.Reason.UNAUTHORIZED),
        (page(400, b'{"__type":"ThrottlingException"}'), port.Reason.FAILED),
        (page(500, b"0"), port.Reason.FAILED),
        (page(204, b'{"Attributes":{"%s":"3"}}' % COUNT), port.Reason.FAILED),
        (page(200, b"0"), port.Reason.NOT_A_NUMBER),
        (page(200, b"\xff"), port.Reason.NOT_A_NUMBER),
        (page(200, b'{"Attributes":{}}'), port.Reason.NOT_A_NUMBER),
        (page(200, b'{"Attributes":{"%s":0}}' % COUNT), port.Reason.NOT_A_NUMBER),
        (page(200, b'{"Attributes":{"%s":"many"}}' % COUNT), port.Reason.NOT_A_NUMBER),
        (page(200, b'{"Attributes":{"%s":""}}' % COUNT), port.Reason.NOT_A_NUMBER),
        (page(200, b'{"Attributes":{"%s":"-1"}}' % COUNT), port.Reason.NEGATIVE),
        (wire.Redirect(location="https://evil.example/"), port.Reason.REDIRECTED),
    ],
)
def test_answers_that_are_no_number_of_messages_have_reasons(
    answer: wire.Page | wire.Redirect, want: port.Reason
) -> None:
    message = asyncio.run(failure(FakeSender(answer=answer), want))
    assert contract.FAKE_QUEUE in message


@pytest.mark.accept("W19")
@pytest.mark.parametrize("reason", [port.Reason.UNREACHABLE, port.Reason.UNTRUSTED, port.Reason.TIMEOUT])
def test_failures_of_the_connection_are_told_in_words_that_fit_aws(reason: port.Reason) -> None:
    message = asyncio.run(failure(FakeSender(error=port.QueueError(reason, "see key ca.crt of the Secret")), reason))
    assert "AWS" in message
    assert "ca.crt" not in message


@pytest.mark.accept("W19")
def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    virtual_time.run(failure(FakeSender(seconds=3600), port.Reason.TIMEOUT))


async def failure(fake: FakeSender, want: port.Reason) -> str:
    async with contextlib.aclosing(sqs.Sqs(sender=fake)) as reader:
        return await contract.check_fails(
            sqs.SqsQueue(reader, yarl.URL(contract.FAKE_QUEUE), secret=contract.SECRET), want
        )
